//go:build linux

package loop

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
)

// sips is a socket that takes a few bytes at a time.
type sips struct {
	socket
	atMost int
	got    []byte
}

func (s *sips) send(a, b []byte) (int, error) {
	n := min(len(a)+len(b), s.atMost)
	all := append(append([]byte(nil), a...), b...)
	s.got = append(s.got, all[:n]...)
	return n, nil
}
func (*sips) want(bool, bool) {}
func (*sips) close(bool)      {}

// What is written while a peer takes a little at a time arrives whole and in
// order, and the buffer is kept whole for the next connection.
func TestOutputInSips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &Loop{}
		s := &sips{}
		c := l.newConn(&client{})
		c.state, c.sock = established, s
		var sent []byte
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			piece := bytes.Repeat([]byte{byte(i)}, rapid.IntRange(0, 9<<10).Draw(t, "size"))
			sent = append(sent, piece...)
			s.atMost = rapid.IntRange(0, 5<<10).Draw(t, "at most")
			if rapid.Bool().Draw(t, "body") {
				c.WriteBody(piece)
			} else {
				c.Write(piece)
			}
			if rapid.Bool().Draw(t, "writable") && c.blocked {
				c.writable()
			}
			l.finish()
			if len(s.got)+c.Buffered() != len(sent) {
				t.Fatalf("%d bytes sent and %d buffered of %d", len(s.got), c.Buffered(), len(sent))
			}
		}
		s.atMost = 1 << 30
		for c.blocked {
			c.writable()
		}
		if !bytes.Equal(s.got, sent) {
			t.Fatalf("what arrived (%d bytes) is not what was written (%d)", len(s.got), len(sent))
		}
		if c.out != nil || len(l.slow) != 0 {
			t.Fatalf("after everything was sent %d bytes are held and %d connections are blocked", cap(c.out), len(l.slow))
		}
	})
}

// A large output that leaves in many small pieces costs its size, not the
// square of it.
func BenchmarkOutputInSips(b *testing.B) {
	for _, size := range []int{1 << 20, 16 << 20} {
		b.Run(fmt.Sprintf("%dMB", size>>20), func(b *testing.B) {
			data := make([]byte, size)
			l := &Loop{}
			b.SetBytes(int64(size))
			for b.Loop() {
				c := l.newConn(&client{})
				c.state, c.sock = established, takes(16<<10)
				c.Write(data)
				l.finish()
				for c.blocked {
					c.writable()
				}
			}
		})
	}
}

// takes is a socket that takes so many bytes at a time, and drops them.
type takes int

func (n takes) send(a, b []byte) (int, error) { return min(len(a)+len(b), int(n)), nil }
func (takes) want(bool, bool)                 {}
func (takes) closeWrite()                     {}
func (takes) close(bool)                      {}
func (takes) localAddr() filter.Address       { return filter.Address{} }
func (takes) adopt(*Conn)                     {}
