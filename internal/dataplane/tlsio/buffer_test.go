package tlsio

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A buffer is a queue of bytes, whatever the order of adding and taking.
func TestBufferIsAQueue(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var (
			pool buffers
			b    *buffer
			want []byte
			next byte
		)
		for range rapid.IntRange(0, 40).Draw(r, "steps") {
			data := make([]byte, rapid.IntRange(0, 6000).Draw(r, "add"))
			for i := range data {
				data[i], next = next, next+1
			}
			b, want = pool.add(b, data), append(want, data...)
			n := rapid.IntRange(0, len(want)).Draw(r, "drop")
			b, want = pool.drop(b, n), want[n:]
			if b == nil && len(want) > 0 || b != nil && !bytes.Equal(b.bytes(), want) {
				r.Fatal("not what was added")
			}
		}
	})
}

// A queue that never runs empty does not grow.
func TestBufferDoesNotGrow(t *testing.T) {
	var pool buffers
	b := pool.add(nil, make([]byte, 1000))
	for range 10_000 {
		b = pool.drop(pool.add(b, make([]byte, 900)), 900)
	}
	if c := cap(b.b); c > 16<<10 {
		t.Errorf("holds 1000 bytes in %d", c)
	}
}
