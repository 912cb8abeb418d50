package http2

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A backlog gives back what it was given, in order, whatever the sizes.
func TestBacklog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Pool
		var q backlog
		var want []byte
		next := byte(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				b := make([]byte, rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 5*pieceSize)).Draw(t, "size"))
				for i := range b {
					b[i] = next
					next++
				}
				q.add(b, &p)
				want = append(want, b...)
			} else if f := q.front(); len(f) > 0 {
				n := rapid.IntRange(1, len(f)).Draw(t, "sent")
				if !bytes.Equal(f[:n], want[:n]) {
					t.Fatal("other bytes come out")
				}
				q.drop(n, &p)
				want = want[n:]
			}
			if rapid.IntRange(0, 20).Draw(t, "clear") == 0 {
				q.clear(&p)
				want = nil
			}
			if q.size != len(want) {
				t.Fatalf("%d bytes, want %d", q.size, len(want))
			}
		}
	})
}

// Pieces that nothing needs any more are given up, those in use are kept.
func TestPoolTrim(t *testing.T) {
	var p Pool
	var q backlog
	swing := func(pieces int) {
		q.add(make([]byte, pieces*pieceSize), &p)
		for q.size > 0 {
			q.drop(len(q.front()), &p)
		}
	}
	swing(100)
	p.Trim()
	if n := len(p.pieces); n < 99 {
		t.Fatalf("%d pieces are kept of 100 that were needed just now", n)
	}
	swing(10)
	p.Trim()
	if n := len(p.pieces); n < 9 || n > 10 {
		t.Errorf("%d pieces are kept of 10 that were needed", n)
	}
	p.Trim()
	if n := len(p.pieces); n != 0 {
		t.Errorf("%d pieces are kept of none that were needed", n)
	}
}

// A large backlog needs little more than its size, and a small one needs no
// allocation once it has been used.
func TestBacklogMemory(t *testing.T) {
	var p Pool
	var q backlog
	b := make([]byte, 10_000)
	r := testing.Benchmark(func(t *testing.B) {
		t.ReportAllocs()
		for range t.N {
			q, p = backlog{}, Pool{}
			for range 1000 {
				q.add(b, &p)
			}
		}
	})
	if got := r.AllocedBytesPerOp(); got > 11_000_000 {
		t.Errorf("%d bytes are allocated for 10,000,000", got)
	}
	q, p = backlog{}, Pool{}
	if n := testing.AllocsPerRun(100, func() {
		for range 5 {
			q.add(b, &p)
		}
		for q.size > 0 {
			q.drop(len(q.front()), &p)
		}
	}); n != 0 {
		t.Errorf("%v allocations each time", n)
	}
}
