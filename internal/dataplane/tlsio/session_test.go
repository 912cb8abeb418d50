package tlsio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

var versions = map[string]tlsv3.TlsParameters_TlsProtocol{
	"TLSv1.2": tlsv3.TlsParameters_TLSv1_2, "TLSv1.3": tlsv3.TlsParameters_TLSv1_3,
}

// simple gives contexts that trust each other's authority, for one version.
func simple(t testing.TB, version tlsv3.TlsParameters_TlsProtocol) (*ClientContext, *ServerContext) {
	t.Helper()
	ca := newCA(t, "ca", nil)
	d, u := downstream(t, ca.leaf(t, "ecdsa", "server", dns("a.test"))), upstream(t)
	d.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{TlsMaximumProtocolVersion: version}
	u.CommonTlsContext.TlsParams = &tlsv3.TlsParameters{TlsMaximumProtocolVersion: version}
	validate(u.CommonTlsContext, trusting(ca))
	return mustClient(t, u), mustServer(t, d)
}

func TestBothWays(t *testing.T) {
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			client, server := simple(t, v)
			w := newWorker(t)
			l := connect(w, client.NewSession(ClientSessionOptions{SNI: "a.test"}), server.NewSession(ConnInfo{}))
			if l.a.err != nil || l.b.err != nil {
				t.Fatal(l.a.err, l.b.err)
			}
			for _, s := range []*end{l.a, l.b} {
				if err := s.Write([]byte("hello")); err != nil {
					t.Fatal(err)
				}
			}
			l.move()
			if string(l.a.got) != "hello" || string(l.b.got) != "hello" {
				t.Fatalf("got %q and %q", l.a.got, l.b.got)
			}
			n := l.b.Negotiated()
			if n.Version != name || n.SNI != "a.test" {
				t.Errorf("negotiated %+v", n)
			}
		})
	}
}

// Large bodies, both ways at once, with the output drained in odd pieces.
func TestLargeBodies(t *testing.T) {
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			client, server := simple(t, v)
			l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
			l.size = 50_021
			chunk := make([]byte, 300_007)
			for i := range chunk {
				chunk[i] = byte(i * 7)
			}
			total := 0
			for total < 30<<20 {
				for _, e := range []*end{l.a, l.b} {
					if err := e.Write(chunk); err != nil {
						t.Fatal(err)
					}
				}
				l.move()
				total += len(chunk)
				for _, e := range []*end{l.a, l.b} {
					if !bytes.Equal(e.got, chunk) {
						t.Fatalf("after %d bytes: what arrives is not what was sent (%d bytes, %v)", total, len(e.got), e.over)
					}
					e.got = e.got[:0]
				}
			}
		})
	}
}

// What a client sends right behind its Finished is there when done is called.
func TestDataBehindFinished(t *testing.T) {
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			client, server := simple(t, v)
			w := newWorker(t)
			l := &link{w: w, a: w.start(client.NewSession(ClientSessionOptions{})), b: w.start(server.NewSession(ConnInfo{})), size: 1 << 20}
			for !l.a.done {
				l.move()
				w.turn()
			}
			if err := l.a.Write(bytes.Repeat([]byte("x"), 100_000)); err != nil {
				t.Fatal(err)
			}
			l.a.CloseNotify()
			l.handshake()
			l.b.drain()
			if len(l.b.got) != 100_000 || !errors.Is(l.b.over, io.EOF) || errors.Is(l.b.over, io.ErrUnexpectedEOF) {
				t.Fatalf("got %d bytes, then %v (%v)", len(l.b.got), l.b.over, l.b.err)
			}
		})
	}
}

func TestEndOfStream(t *testing.T) {
	for name, v := range versions {
		for _, tc := range []struct {
			name string
			end  func(l *link)
			want error
		}{
			{"close_notify", func(l *link) { l.a.CloseNotify() }, io.EOF},
			{"close_notify, then the transport", func(l *link) { l.a.CloseNotify(); l.move(); l.b.FeedEOF() }, io.EOF},
			{"transport only", func(l *link) { l.b.FeedEOF() }, io.ErrUnexpectedEOF},
			{"within a record", func(l *link) {
				_ = l.a.Write([]byte("more"))
				l.b.Feed(l.a.Output()[:10])
				l.a.Consumed(len(l.a.Output()))
				l.b.FeedEOF()
			}, io.ErrUnexpectedEOF},
		} {
			t.Run(name+" "+tc.name, func(t *testing.T) {
				client, server := simple(t, v)
				l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
				_ = l.a.Write([]byte("data"))
				l.move()
				tc.end(l)
				l.move()
				l.b.drain()
				if string(l.b.got) != "data" || l.b.over != tc.want { //nolint:errorlint // exactly this value
					t.Errorf("got %q, then %v; want %v", l.b.got, l.b.over, tc.want)
				}
				if _, err := l.b.Read(make([]byte, 1)); err != tc.want { //nolint:errorlint // exactly this value
					t.Errorf("and then %v", err)
				}
			})
		}
	}
}

func TestWriteAfterCloseNotify(t *testing.T) {
	client, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
	l.b.CloseNotify()
	if err := l.b.Write([]byte("x")); err == nil {
		t.Error("wrote after close_notify")
	}
	// The other direction goes on.
	_ = l.a.Write([]byte("late"))
	l.move()
	if string(l.b.got) != "late" || !errors.Is(l.a.over, io.EOF) {
		t.Errorf("got %q; the other end saw %v", l.b.got, l.a.over)
	}
}

// TestTemporaryErrorsAreNotSticky pins what this package relies on without
// being promised it by crypto/tls: that a temporary net.Error from the
// connection below makes Conn.Read fail once and leaves everything it has
// buffered in place, at every byte of a record, also within handshake
// messages that come after the handshake.
//
// Should this fail with a new release of Go: build the data plane with the
// previous one, and give established sessions a goroutine too, blocking in
// exchange.read as the handshake does, until Session.Read has been taught the
// new behaviour.
func TestTemporaryErrorsAreNotSticky(t *testing.T) {
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			client, server := simple(t, v)
			l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
			l.size = 1
			var want []byte
			for i := range 20 {
				part := bytes.Repeat([]byte{byte(i)}, 1+i*11)
				want = append(want, part...)
				if err := l.b.Write(part); err != nil {
					t.Fatal(err)
				}
				if _, err := l.b.Read(make([]byte, 10)); !errors.Is(err, ErrAgain) {
					t.Fatal(err)
				}
				l.move()
			}
			if !bytes.Equal(l.a.got, want) || l.a.over != nil {
				t.Fatalf("got %d of %d bytes, %v", len(l.a.got), len(want), l.a.over)
			}
		})
	}
}

// Any way of cutting the ciphertext gives the same plaintext, from the first
// byte of the handshake to close_notify.
func TestAnySplit(t *testing.T) {
	client, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	client12, server12 := simple(t, tlsv3.TlsParameters_TLSv1_2)
	rapid.Check(t, func(r *rapid.T) {
		c, s := client, server
		if rapid.Bool().Draw(r, "old") {
			c, s = client12, server12
		}
		w := newWorker(t)
		l := &link{w: w, a: w.start(c.NewSession(ClientSessionOptions{})), b: w.start(s.NewSession(ConnInfo{}))}
		l.size = rapid.IntRange(1, 3000).Draw(r, "handshake piece")
		l.handshake()
		if l.a.err != nil || l.b.err != nil {
			r.Fatal(l.a.err, l.b.err)
		}
		var want []byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 40_000), 0, 4).Draw(r, "writes") {
			part := bytes.Repeat([]byte{byte(n)}, n)
			want = append(want, part...)
			if err := l.a.Write(part); err != nil {
				r.Fatal(err)
			}
			l.size = rapid.IntRange(1, 20_000).Draw(r, "piece")
			l.carry(l.a, l.b)
		}
		l.a.CloseNotify()
		l.move()
		if !bytes.Equal(l.b.got, want) || l.b.over != io.EOF { //nolint:errorlint // exactly this value
			r.Fatalf("got %d of %d bytes, %v", len(l.b.got), len(want), l.b.over)
		}
	})
}

func TestTamperedRecord(t *testing.T) {
	client, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
	_ = l.a.Write([]byte("secret"))
	out := bytes.Clone(l.a.Output())
	out[len(out)-1] ^= 1
	l.b.Feed(out)
	_, err := l.b.Read(make([]byte, 10))
	var f *Failure
	if !errors.As(err, &f) || f.Class != ClassConnectionError || l.b.FailureReason() == "" {
		t.Fatalf("got %v", err)
	}
	if len(l.b.Output()) == 0 {
		t.Error("no alert to send")
	}
}

func TestHandshakeEnds(t *testing.T) {
	cause := errors.New("too slow")
	for name, stop := range map[string]func(e *end, cancel context.CancelCauseFunc){
		"context": func(_ *end, cancel context.CancelCauseFunc) { cancel(cause) },
		"eof":     func(e *end, _ context.CancelCauseFunc) { e.FeedEOF() },
	} {
		t.Run(name, func(t *testing.T) {
			_, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
			w := newWorker(t)
			e := &end{Session: server.NewSession(ConnInfo{})}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			e.Start(ctx, w.post, func() {}, func(err error) { e.done, e.err = true, err })
			e.Feed([]byte{22, 3})
			stop(e, cancel)
			for !e.done {
				w.turn()
			}
			if e.Failure() == nil || e.Failure().Class != ClassNone || e.err == nil {
				t.Errorf("got %v", e.err)
			}
			if name == "context" && !errors.Is(e.err, cause) {
				t.Errorf("the cause is lost: %v", e.err)
			}
		})
	}
}

// After Abort nothing is called, and goleak finds no goroutine.
func TestAbortDuringHandshake(t *testing.T) {
	client, _ := simple(t, tlsv3.TlsParameters_TLSv1_3)
	w := newWorker(t)
	s := client.NewSession(ClientSessionOptions{})
	s.Start(t.Context(), w.post, func() {}, func(error) { t.Error("done was called") })
	w.turn() // the ClientHello
	if len(s.Output()) == 0 {
		t.Fatal("no ClientHello")
	}
	s.Abort(errors.New("given up"))
	if len(s.Output()) != 0 || s.FailureReason() != "given up" || s.Info() != nil {
		t.Errorf("output %d bytes, reason %q", len(s.Output()), s.FailureReason())
	}
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, ErrAgain) {
		t.Errorf("read: %v", err)
	}
	if err := s.Write([]byte("x")); err == nil {
		t.Error("wrote")
	}
}

// What was posted before Abort does nothing after it.
func TestAbortBeforeOutputIsTaken(t *testing.T) {
	client, _ := simple(t, tlsv3.TlsParameters_TLSv1_3)
	w := newWorker(t)
	s := client.NewSession(ClientSessionOptions{})
	s.Start(t.Context(), w.post, func() { t.Error("onOutput was called") }, func(error) { t.Error("done was called") })
	waiting := <-w.queue
	s.Abort(nil)
	waiting()
}

// Proves TS-16: a later connection resumes, also on another context with the
// same keys, and not with other keys or demands.
func TestResumption(t *testing.T) {
	ca := newCA(t, "ca", nil)
	leaf := ca.leaf(t, "ecdsa", "server", dns("a.test"))
	key := func(b byte) *tlsv3.TlsSessionTicketKeys {
		return &tlsv3.TlsSessionTicketKeys{Keys: []*corev3.DataSource{inlineBytes(bytes.Repeat([]byte{b}, 80))}}
	}
	with := func(k *tlsv3.TlsSessionTicketKeys) *tlsv3.DownstreamTlsContext {
		m := downstream(t, leaf)
		if k != nil {
			m.SessionTicketKeysType = &tlsv3.DownstreamTlsContext_SessionTicketKeys{SessionTicketKeys: k}
		}
		return m
	}
	rotated := key(2)
	rotated.Keys = append(rotated.Keys, key(1).Keys...)
	disabled := with(nil)
	disabled.SessionTicketKeysType = &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{DisableStatelessSessionResumption: true}
	demanding := with(key(1))
	validate(demanding.CommonTlsContext, &tlsv3.CertificateValidationContext{TrustedCa: inlineBytes(ca.pem())})
	same := mustServer(t, with(nil))
	for _, tc := range []struct {
		name          string
		first, second *ServerContext
		want          bool
	}{
		{"same context", same, same, true},
		{"same keys", mustServer(t, with(key(1))), mustServer(t, with(key(1))), true},
		{"rotated keys", mustServer(t, with(key(1))), mustServer(t, with(rotated)), true},
		{"other keys", mustServer(t, with(key(1))), mustServer(t, with(key(2))), false},
		{"own keys", mustServer(t, with(nil)), mustServer(t, with(nil)), false},
		{"other demands", mustServer(t, with(key(1))), mustServer(t, demanding), false},
		{"disabled", mustServer(t, disabled), mustServer(t, disabled), false},
	} {
		for name, v := range versions {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				u := upstream(t)
				u.CommonTlsContext.TlsParams.TlsMaximumProtocolVersion = v
				client := mustClient(t, u)
				if resumesOn(t, client, tc.first) {
					t.Fatal("resumed nothing")
				}
				if got := resumesOn(t, client, tc.second); got != tc.want {
					t.Errorf("resumed: %v", got)
				}
			})
		}
	}
}

func resumesOn(t *testing.T, client *ClientContext, server *ServerContext) bool {
	t.Helper()
	l := connect(newWorker(t), client.NewSession(ClientSessionOptions{SNI: "a.test"}), server.NewSession(ConnInfo{}))
	if l.a.err != nil || l.b.err != nil {
		t.Fatal(l.a.err, l.b.err)
	}
	_ = l.b.Write([]byte("x"))
	l.move() // brings the tickets of TLS 1.3
	if a, b := l.a.Negotiated().Resumed, l.b.Negotiated().Resumed; a != b {
		t.Fatalf("the client says %v, the server %v", a, b)
	}
	return l.b.Negotiated().Resumed
}

// Proves TS-16: max_session_keys 0 resumes nothing.
func TestNoSessionKeys(t *testing.T) {
	_, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	u := upstream(t)
	u.MaxSessionKeys = wrapperspb.UInt32(0)
	client := mustClient(t, u)
	for range 2 {
		if resumesOn(t, client, server) {
			t.Error("resumed")
		}
	}
}

// Proves TS-16: session_timeout ends what a ticket is good for.
func TestSessionTimeout(t *testing.T) {
	now := time.Now()
	ca := newCA(t, "ca", nil)
	d := downstream(t, ca.leaf(t, "ecdsa", "server"))
	d.SessionTimeout = durationpb.New(time.Minute)
	server, err := NewServer(d, Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	client := mustClient(t, upstream(t))
	resumesOn(t, client, server)
	now = now.Add(59 * time.Second)
	if !resumesOn(t, client, server) {
		t.Error("not resumed in time")
	}
	now = now.Add(61 * time.Second)
	if resumesOn(t, client, server) {
		t.Error("resumed too late")
	}
}

// Proves TS-16 with client certificates: they are known and verified again
// when a session is resumed.
func TestResumptionVerifiesAgain(t *testing.T) {
	c := makeClientCerts(t)
	d := downstream(t, c.server)
	d.RequireClientCertificate = wrapperspb.Bool(true)
	validate(d.CommonTlsContext, trusting(c.ca))
	now := time.Now()
	server, err := NewServer(d, Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		u := upstream(t, c.good)
		u.CommonTlsContext.TlsParams.TlsMaximumProtocolVersion = v
		client := mustClient(t, u)
		if resumesOn(t, client, server) || !resumesOn(t, client, server) {
			t.Fatal("not resumed")
		}
		l := connect(newWorker(t), client.NewSession(ClientSessionOptions{SNI: "a.test"}), server.NewSession(ConnInfo{}))
		i := l.b.Info()
		if l.b.err != nil || !i.Resumed || !i.Presented || !i.Validated || i.Peer.Subject != "CN=good" || i.Local.Subject != "CN=server" {
			t.Errorf("resumed %+v, %v", i, l.b.err)
		}
		// The certificate has expired since.
		now = now.Add(72 * time.Hour)
		l = connect(newWorker(t), client.NewSession(ClientSessionOptions{SNI: "a.test"}), server.NewSession(ConnInfo{}))
		if f := l.b.Failure(); f == nil || f.Class != ClassVerifyError {
			t.Errorf("accepted an expired certificate: %v", l.b.err)
		}
		now = now.Add(-72 * time.Hour)
	}
}

// Proves LF-02 for the TLS layer: what a listener filter has read before is
// part of the handshake. And the end of the handshake's context is not the end
// of the session.
func TestFeedBeforeStart(t *testing.T) {
	client, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	w := newWorker(t)
	l := &link{w: w, a: w.start(client.NewSession(ClientSessionOptions{})), size: 1 << 20}
	w.turn()
	s := server.NewSession(ConnInfo{})
	hello := l.a.Output()
	s.Feed(hello[:7])
	s.Borrow(hello[7:])
	ctx, cancel := context.WithCancel(t.Context())
	l.b = &end{Session: s}
	s.Start(ctx, w.post, func() {}, func(err error) { l.b.done, l.b.err = true, err })
	s.Settle()
	l.a.Consumed(len(hello))
	l.handshake()
	cancel()
	_ = l.a.Write([]byte("x"))
	l.move()
	if string(l.b.got) != "x" || l.b.err != nil {
		t.Errorf("got %q, %v", l.b.got, l.b.err)
	}
}
