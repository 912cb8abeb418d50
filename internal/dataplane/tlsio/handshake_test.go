package tlsio

import (
	"context"
	"errors"
	"runtime"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A connection whose client says nothing costs no goroutine.
func TestSilentClientsTakeNoGoroutine(t *testing.T) {
	_, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	w := newWorker(t)
	before := runtime.NumGoroutine()
	const n = 50
	sessions := make([]*end, n)
	for i := range sessions {
		sessions[i] = w.start(server.NewSession(ConnInfo{}))
	}
	if after := runtime.NumGoroutine(); after >= before+n {
		t.Errorf("%d goroutines for %d silent clients", after-before, n)
	}
	for _, e := range sessions {
		e.Abort(nil)
	}
}

// Where each part of a server's handshake runs: on the worker only what follows
// a flight of TLS 1.3, and nothing that verifies a client's certificate.
func TestWhereHandshakesRun(t *testing.T) {
	c := makeClientCerts(t)
	for name, tt := range map[string]struct {
		version   tlsv3.TlsParameters_TlsProtocol
		asks      bool
		piece     int
		elsewhere int // steps on goroutines, at least
	}{
		"TLS 1.3":                       {tlsv3.TlsParameters_TLSv1_3, false, 1 << 20, 1},
		"TLS 1.3 in pieces":             {tlsv3.TlsParameters_TLSv1_3, false, 7, 1},
		"TLS 1.3, a client certificate": {tlsv3.TlsParameters_TLSv1_3, true, 1 << 20, 2},
		"TLS 1.2":                       {tlsv3.TlsParameters_TLSv1_2, false, 1 << 20, 2},
	} {
		t.Run(name, func(t *testing.T) {
			d, u := downstream(t, c.server), upstream(t, c.good)
			if tt.asks {
				d.RequireClientCertificate = wrapperspb.Bool(true)
				validate(d.CommonTlsContext, trusting(c.ca))
			}
			u.CommonTlsContext.TlsParams.TlsMaximumProtocolVersion = tt.version
			w, servers := newWorker(t), newWorker(t)
			l := &link{w: w, size: tt.piece, a: w.start(mustClient(t, u).NewSession(ClientSessionOptions{SNI: "a.test"}))}
			l.b = servers.start(mustServer(t, d).NewSession(ConnInfo{}))
			steps := 0
			for !l.a.done || !l.b.done {
				l.move()
				switch {
				case l.b.wire.hands != nil && l.b.wire.hands.running:
					servers.turn()
					steps++
				case !l.a.done:
					w.turn()
				}
			}
			if l.a.err != nil || l.b.err != nil {
				t.Fatal(l.a.err, l.b.err)
			}
			if name == "TLS 1.3" && steps != 1 || steps < tt.elsewhere {
				t.Errorf("%d steps on goroutines", steps)
			}
			if tt.piece < 1000 && l.b.Buffered() != 0 {
				t.Errorf("%d bytes are left", l.b.Buffered())
			}
			_ = l.a.Write([]byte("x"))
			l.move()
			if string(l.b.got) != "x" {
				t.Errorf("got %q", l.b.got)
			}
		})
	}
}

// The coroutine of a handshake ends with its worker, and with what is given up
// while a step runs: goleak finds none.
func TestHandshakesEndWithTheirWorker(t *testing.T) {
	client, _ := simple(t, tlsv3.TlsParameters_TLSv1_3)
	tried := make(chan struct{})
	gone := client.NewSession(ClientSessionOptions{})
	gone.Start(context.Background(), func(func()) bool { close(tried); return false }, nil, nil)
	<-tried

	w := newWorker(t)
	s := client.NewSession(ClientSessionOptions{})
	s.Start(t.Context(), w.post, func() { t.Error("onOutput was called") }, func(error) { t.Error("done was called") })
	s.Abort(errors.New("given up"))
	w.turn()
}
