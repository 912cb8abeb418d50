package grpcconn

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func framed(messages ...[]byte) []byte {
	var b []byte
	for _, m := range messages {
		b = append(b, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
		b = append(b, m...)
	}
	return b
}

// However a stream's bytes are split, and whenever its messages are taken, they
// are the same, and the peer gets credit for each byte once.
func TestAnySplitGivesTheSameMessages(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var want [][]byte
		for range rnd.IntN(12) {
			m := make([]byte, rnd.IntN(1<<rnd.IntN(16)))
			for i := range m {
				m[i] = byte(rnd.Uint32())
			}
			want = append(want, m)
		}
		rest := framed(want...)
		total, credit := len(rest), 0
		a := assembly{limit: 1 << 16}
		for got := 0; ; {
			if len(rest) > 0 && rnd.IntN(3) > 0 {
				n := min(len(rest), 1+rnd.IntN(1<<rnd.IntN(17)))
				used, err := a.add(rest[:n])
				if err != nil {
					t.Fatal(err)
				}
				credit += used
				rest = rest[n:]
			}
			if rnd.IntN(2) == 0 {
				continue
			}
			a.release()
			msg, used, ok, err := a.next()
			credit += used
			switch {
			case err != nil:
				t.Fatal(err)
			case ok && (got == len(want) || !bytes.Equal(msg, want[got])):
				t.Fatalf("seed %d: message %d is wrong", seed, got)
			case ok:
				got++
				continue
			}
			if len(rest) == 0 {
				if got != len(want) || credit != total || a.partial() || a.behind != nil {
					t.Fatalf("seed %d: %d of %d messages, credit for %d of %d bytes", seed, got, len(want), credit, total)
				}
				break
			}
		}
	}
}

// Behind a whole message nothing is used, so that the window bounds what waits.
func TestNoCreditBehindAMessage(t *testing.T) {
	a := assembly{limit: 100}
	first, second := framed([]byte("one")), framed([]byte("two"), []byte("three"))
	if used, err := a.add(append(bytes.Clone(first), second...)); used != len(first) || err != nil {
		t.Errorf("%d bytes are used, %v", used, err)
	}
	if used, _ := a.add([]byte{0}); used != 0 {
		t.Error("bytes behind a message are used")
	}
	msg, used, ok, err := a.next()
	if string(msg) != "one" || used != headSize+len("two") || !ok || err != nil {
		t.Errorf("got %q, %d, %v, %v", msg, used, ok, err)
	}
}

func TestRefusedMessages(t *testing.T) {
	for name, c := range map[string]struct {
		encoding string
		head     []byte
		want     codes.Code
	}{
		"no gRPC":             {"", []byte("HTTP/"), codes.Internal},
		"too large":           {"", []byte{0, 0, 0, 4, 1}, codes.ResourceExhausted},
		"as large as can be":  {"", []byte{0, 255, 255, 255, 255}, codes.ResourceExhausted},
		"compressed":          {"gzip", []byte{1, 0, 0, 0, 0}, codes.Unimplemented},
		"compressed, but how": {"", []byte{1, 0, 0, 0, 0}, codes.Internal},
		"as identity":         {"identity", []byte{1, 0, 0, 0, 0}, codes.Internal},
	} {
		a := assembly{limit: 1024, encoding: c.encoding}
		if _, err := a.add(c.head); status.Code(err) != c.want {
			t.Errorf("%s: got %v", name, err)
		}
		behind := assembly{limit: 1024, encoding: c.encoding}
		if _, err := behind.add(append(framed([]byte("x")), c.head...)); err != nil {
			t.Errorf("%s: behind a message it is an error too early: %v", name, err)
		}
		if msg, _, ok, err := behind.next(); string(msg) != "x" || !ok || status.Code(err) != c.want {
			t.Errorf("%s: behind a message: %q, %v, %v", name, msg, ok, err)
		}
	}
}

// A head that promises much takes no memory for what has not come.
func TestAPromiseTakesNoMemory(t *testing.T) {
	a := assembly{limit: 1 << 30}
	if _, err := a.add([]byte{0, 0x20, 0, 0, 0, 'x'}); err != nil {
		t.Fatal(err)
	}
	if n := cap(a.msg.data); n > 8<<10 {
		t.Errorf("%d bytes for 1", n)
	}
	var big [1 << 20]byte
	for range 10 {
		if _, err := a.add(big[:]); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(a.msg.data); n > 21<<20 {
		t.Errorf("%d bytes for 10 MiB", n)
	}
}

// The memory of a message is used for the next; the race detector drops some.
func TestMemoryIsUsedAgain(t *testing.T) {
	a := assembly{limit: 1 << 20}
	data := framed(make([]byte, 100_000))
	n := testing.AllocsPerRun(50, func() {
		if _, err := a.add(data); err != nil {
			t.Error(err)
		}
		if _, _, ok, _ := a.next(); !ok {
			t.Error("there is no message")
		}
		a.release()
	})
	if n > 2 {
		t.Errorf("%v allocations for a message", n)
	}
}
