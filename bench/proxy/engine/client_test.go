package engine

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// serve serves by net/http, by HTTP/1.1 and HTTP/2 without TLS.
func serve(t *testing.T, h http.HandlerFunc) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: h, Protocols: &protocols}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // ends by Close
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// What the clients send is read by net/http, which knows all of HPACK.
func TestRequestsAreWhatTheyShouldBe(t *testing.T) {
	check := func(t *testing.T, r *http.Request, body int, want map[string]string) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return // the load has ended in the middle of it; were it earlier, the answer would be wrong
		}
		if len(b) != body {
			t.Errorf("a request's body of %d bytes, want %d", len(b), body)
		}
		if r.Host != authority {
			t.Errorf("authority %q", r.Host)
		}
		for name, value := range want {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
	}
	browser := map[string]string{"User-Agent": userAgent, "Cookie": cookie, "X-Trace-Id": traceID, "Accept": accept}
	for name, c := range map[string]struct {
		o      Options
		method string
		uri    string
		body   int
		want   map[string]string
	}{
		"h1 GET":  {Options{}, "GET", path, 0, browser},
		"h1 POST": {Options{RequestBody: 5000}, "POST", path, 5000, browser},
		"h2 GET":  {Options{HTTP2: true}, "GET", path, 0, browser},
		"h2 POST": {Options{HTTP2: true, RequestBody: 5000}, "POST", path, 5000, browser},
		"grpc": {
			Options{GRPC: true, RequestBody: 64},
			"POST", "/bench.Echo/Unary", grpcPrefix + 64,
			map[string]string{"Content-Type": "application/grpc", "Te": "trailers", "X-Trace-Id": traceID},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Method != c.method || r.RequestURI != c.uri || (r.ProtoMajor == 2) != (c.o.HTTP2 || c.o.GRPC) {
					t.Errorf("%s %s %s", r.Method, r.RequestURI, r.Proto)
				}
				check(t, r, c.body, c.want)
				b := body(1000, c.o.GRPC)
				w.Header().Set("Content-Length", "1000")
				if c.o.GRPC {
					w.Header().Set("Content-Length", "1005")
				}
				_, _ = w.Write(b)
			})
			c.o.Target, c.o.Connections, c.o.Streams, c.o.ResponseBody = at, 2, 4, 1000
			if r := drive(t, c.o); r.Wrong > 0 {
				t.Errorf("%d of %d wrong", r.Wrong, r.Requests)
			}
		})
	}
}

func TestWrongAnswersAreCounted(t *testing.T) {
	wrong := map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(make([]byte, 10))
		},
		"length": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 9)) },
	}
	for name, h := range wrong {
		for protocol, o := range map[string]Options{"h1": {}, "h2": {HTTP2: true}} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				o.Target, o.Connections, o.Streams, o.ResponseBody = serve(t, h), 2, 2, 10
				if r := drive(t, o); r.Wrong != r.Requests {
					t.Errorf("%d of %d are counted as wrong", r.Wrong, r.Requests)
				}
			})
		}
	}
}

func TestResetStreamsAreCounted(t *testing.T) {
	at := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	r := drive(t, Options{Target: at, HTTP2: true, Connections: 1, Streams: 4, ResponseBody: 10})
	if r.Wrong != r.Requests {
		t.Errorf("%d of %d are counted as wrong", r.Wrong, r.Requests)
	}
}

// upstream serves by this package while the test runs.
func upstream(t *testing.T, o Options) {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer l.Close()
		if err := l.Serve(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// What the upstream answers is read by net/http.
func TestResponsesAreWhatTheyShouldBe(t *testing.T) {
	h1, h2, rpc := free(t), free(t), free(t)
	upstream(t, Options{Upstream1: []netip.AddrPort{h1}, Upstream2: []netip.AddrPort{h2}, ResponseBody: 3000})
	upstream(t, Options{Upstream2: []netip.AddrPort{rpc}, GRPC: true, ResponseBody: 64})
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	two := &http.Transport{Protocols: &protocols}
	one := &http.Transport{}
	t.Cleanup(two.CloseIdleConnections)
	t.Cleanup(one.CloseIdleConnections)
	for name, c := range map[string]struct {
		by   *http.Transport
		at   netip.AddrPort
		grpc bool
	}{"h1": {one, h1, false}, "h2": {two, h2, false}, "grpc": {two, rpc, true}} {
		t.Run(name, func(t *testing.T) {
			for range 3 { // the first block differs from the later ones
				askOnce(t, c.by, c.at, c.grpc)
			}
		})
	}
}

func askOnce(t *testing.T, by *http.Transport, at netip.AddrPort, grpc bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.String()+"/", strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	if !grpc {
		if len(b) != 3000 || resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Upstream") != "bench" {
			t.Errorf("%d bytes with %v", len(b), resp.Header)
		}
		return
	}
	if len(b) != grpcPrefix+64 || binary.BigEndian.Uint32(b[1:]) != 64 {
		t.Errorf("message of %d bytes: %x", len(b), b)
	}
	if resp.Header.Get("Content-Type") != "application/grpc" || resp.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("header %v, trailers %v", resp.Header, resp.Trailer)
	}
}
