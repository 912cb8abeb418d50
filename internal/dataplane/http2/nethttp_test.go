package http2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// echo sends every body back, with its trailers.
type echo struct {
	specServer
}

func (p *echo) OnHeaders(s *Stream, end bool) {
	s.SendHeaders(fields(":status", "200", "x-path", s.Headers.Path()), end)
}

func (p *echo) OnData(s *Stream, b []byte, end bool) {
	s.SendData(b, end)
	s.Consumed(len(b))
}
func (p *echo) OnTrailers(s *Stream) { s.SendTrailers(s.Trailers) }

// pump moves bytes between a codec and a connection until it ends.
func pump(conn net.Conn, c *Conn, out *[]byte) {
	defer conn.Close()
	buf := make([]byte, 10000)
	for {
		_, err := conn.Write(*out)
		*out = (*out)[:0]
		if err != nil || c.Err() != nil {
			return
		}
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		_ = c.Feed(buf[:n]) // an error is written first
	}
}

// TestClientOfNetHTTP exchanges large bodies with another implementation's client.
func TestClientOfNetHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				p := &echo{}
				p.c.Init(Server, &Options{StreamWindow: 70000, ConnWindow: 100000}, p, &p.out)
				p.c.Start()
				pump(conn, &p.c, &p.out)
			}()
		}
	}()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 8 {
		if i == 1 {
			wg.Wait() // the others share the connection of the first
		}
		wg.Go(func() {
			body := bytes.Repeat([]byte(fmt.Sprint(i)), 300000)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://%s/%d", l.Addr(), i), bytes.NewReader(body))
			req.Trailer = http.Header{"X-Sum": {fmt.Sprint("sum", i)}}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !bytes.Equal(got, body) || resp.Header.Get("X-Path") != fmt.Sprint("/", i) || resp.Trailer.Get("X-Sum") != fmt.Sprint("sum", i) {
				t.Errorf("request %d: %d bytes, %v, %v, %v", i, len(got), err, resp.Header, resp.Trailer)
			}
		})
	}
	wg.Wait()
}

// TestServerOfNetHTTP does so with its server.
func TestServerOfNetHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Sum", fmt.Sprint(r.Trailer.Get("X-Sum"), err))
		_, _ = w.Write(b)
	})}
	srv.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, Client, &Options{StreamWindow: 70000, ConnWindow: 100000})
	body := bytes.Repeat([]byte("0123456789"), 50000)
	left := 8
	p.onClosed = func(*Stream) {
		if left--; left == 0 {
			_ = here.Close()
		}
	}
	for i := range left {
		s := p.start(fields(":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/", "trailer", "x-sum"), false)
		s.SendData(body, false)
		s.SendTrailers(fields("x-sum", fmt.Sprint("sum", i)))
	}
	pump(here, &p.c, &p.out)
	log := strings.Join(p.log, "|")
	for i := range 8 {
		id := uint32(2*i + 1)
		if b := p.bodies[id]; b == nil || !bytes.Equal(b.Bytes(), body) || !strings.Contains(log, fmt.Sprintf("%d trailers x-sum=sum%d<nil>", id, i)) {
			t.Errorf("stream %d is not complete: %s", id, log[:min(len(log), 500)])
		}
	}
}

// TestFreeStreamIsHarmless for an owner that forgot to forget it.
func TestFreeStreamIsHarmless(t *testing.T) {
	cl, sv := newPeer(t, Client, nil), newPeer(t, Server, nil)
	s := cl.start(get("/"), false)
	exchange(t, cl, sv)
	s.Reset(Cancel)
	n := len(cl.out)
	s.SendHeaders(&header.Map{}, true)
	s.SendData([]byte("x"), true)
	s.SendTrailers(&header.Map{})
	s.ResetWhenSent(NoError)
	s.Consumed(5)
	s.Reset(Cancel)
	if len(cl.out) != n || s.Buffered() != 0 {
		t.Errorf("%d bytes sent by a stream that is closed", len(cl.out)-n)
	}
}
