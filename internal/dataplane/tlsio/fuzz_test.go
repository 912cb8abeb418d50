package tlsio

import (
	"bytes"
	"errors"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// FuzzFeed gives a server, in pieces, something instead of a client's
// messages, and then the end of the transport. Whatever it is, the handshake
// ends.
func FuzzFeed(f *testing.F) {
	client, server := simple(f, tlsv3.TlsParameters_TLSv1_3)
	w := newWorker(f)
	c := w.start(client.NewSession(ClientSessionOptions{SNI: "a.test"}))
	for len(c.Output()) == 0 {
		w.turn()
	}
	hello := bytes.Clone(c.Output())
	c.Abort(nil)
	f.Add(hello, 1)
	f.Add(hello, 100)
	f.Add(append(bytes.Clone(hello), hello...), 3000)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 5)
	f.Add([]byte{22, 3, 1, 0xff, 0xff, 1, 0xff, 0xff, 0xff}, 2)
	f.Add([]byte{21, 3, 3, 0, 2, 1, 0}, 7)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		w := newWorker(t)
		e := w.start(server.NewSession(ConnInfo{}))
		piece = max(1, piece&0xfff)
		for len(data) > 0 {
			n := min(piece, len(data))
			e.Feed(data[:n])
			data = data[n:]
			if _, err := e.Read(make([]byte, 10)); err == nil {
				t.Fatal("read before the handshake")
			}
		}
		e.FeedEOF()
		for !e.done {
			w.turn()
		}
		if e.err == nil || e.Open() {
			t.Fatal("a handshake without a client")
		}
		e.Abort(nil)
	})
}

// FuzzRecords gives an established server something instead of records.
func FuzzRecords(f *testing.F) {
	contexts := map[bool]func(tb testing.TB) *link{}
	for old, v := range map[bool]tlsv3.TlsParameters_TlsProtocol{true: tlsv3.TlsParameters_TLSv1_2, false: tlsv3.TlsParameters_TLSv1_3} {
		client, server := simple(f, v)
		contexts[old] = func(tb testing.TB) *link {
			return connect(newWorker(tb), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
		}
	}
	f.Add([]byte("hello"), []byte{23, 3, 3, 0, 5, 1, 2, 3, 4, 5}, true)
	f.Add([]byte{}, []byte{20, 3, 3, 0, 1, 1}, false)
	f.Add([]byte{1}, []byte{22, 3, 3, 0, 4, 0, 0, 0, 0}, true)
	f.Fuzz(func(t *testing.T, good, bad []byte, old bool) {
		l := contexts[old](t)
		if err := l.a.Write(good); err != nil {
			t.Fatal(err)
		}
		l.move()
		l.b.Feed(bad)
		l.b.drain()
		l.b.FeedEOF()
		l.b.drain()
		if !bytes.Equal(l.b.got, good) || l.b.over == nil || errors.Is(l.b.over, ErrAgain) {
			t.Fatalf("got %q, then %v", l.b.got, l.b.over)
		}
		l.a.Abort(nil)
		l.b.Abort(nil)
	})
}
