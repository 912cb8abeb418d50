//go:build linux

package loop

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
)

// heard reads one connection to its end.
func heard(t *testing.T, answer string) (addr netip.AddrPort, got <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan string, 1)
	go func() {
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			all <- err.Error()
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, answer)
		b, _ := io.ReadAll(c)
		all <- string(b)
	}()
	return netip.MustParseAddrPort(l.Addr().String()), all
}

// Partly proves TS-24: what goes ahead of a transport socket's bytes is sent as it is,
// whole and once, on every kind of loop, however little the system takes at a time; it
// is asked for when the connection is made.
func TestPrecede(t *testing.T) {
	everyKind(t, func(t *testing.T, o Options) {
		for name, ahead := range map[string]string{"short": "PROXY\n", "nothing": "", "long": strings.Repeat("0123456789abcdef", 1<<16)} {
			t.Run(name, func(t *testing.T) {
				l := start(t, o)
				to, got := heard(t, "hi peer\n")
				a := &asker{over: make(chan error, 1)}
				up := &cipher{greeting: "hi me"}
				asked := 0
				l.Post(func() {
					a.c = l.Dial(filter.Address{IP: to}, &DialOptions{Transport: Precede(up, func() []byte {
						asked++
						if local := a.c.Local(); !local.IsValid() {
							t.Error("it is asked for before there is a connection")
						}
						return []byte(ahead)
					})}, &closer{asker: a})
				})
				question := []byte("question")
				garble(question)
				if all := <-got; all != ahead+"hi me\n"+string(question) {
					t.Errorf("%d bytes came, %.40q … %.40q", len(all), all, all[max(0, len(all)-40):])
				}
				if err := <-a.over; err != nil || asked != 1 {
					t.Errorf("it was asked for %d times, %v", asked, err)
				}
			})
		}
	})
}

// closer closes when its question is sent.
type closer struct{ *asker }

func (c *closer) OnOpen() {
	c.asker.OnOpen()
	c.c.Close(0)
}

// Partly proves TS-24: a system that takes little gets each byte once.
func TestPrecedeInPieces(t *testing.T) {
	inner := &cipher{}
	inner.out = []byte("inner")
	p := &preceded{Transport: inner, first: []byte("ahead ")}
	if got := string(p.Output()); got != "ahead inner" {
		t.Errorf("%q is there to be sent, which is not all: what is left nobody looks for", got)
	}
	var all []byte
	for range 100 {
		o := p.Output()
		if len(o) == 0 {
			break
		}
		n := min(4, len(o))
		all = append(all, o[:n]...)
		p.Consumed(n)
	}
	if !bytes.Equal(all, []byte("ahead inner")) || p.joined != nil {
		t.Errorf("%q was sent", all)
	}
}
