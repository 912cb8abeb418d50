package http2

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// specServer answers every request with 200 and a few bytes.
type specServer struct {
	peer
	resp *header.Map
}

func (p *specServer) OnStream(s *Stream) { s.Headers, s.Trailers = &header.Map{}, &header.Map{} }
func (p *specServer) OnHeaders(s *Stream, end bool) {
	if end {
		p.answer(s)
	}
}

func (p *specServer) OnData(s *Stream, b []byte, end bool) {
	s.Consumed(len(b))
	if end {
		p.answer(s)
	}
}
func (p *specServer) OnTrailers(s *Stream) { p.answer(s) }
func (p *specServer) OnClosed(*Stream)     {}

func (p *specServer) answer(s *Stream) {
	s.SendHeaders(p.resp, false)
	s.SendData([]byte("hello, world"), true)
}

// serve is the codec over a socket, as simply as can be.
func serve(conn net.Conn) {
	defer conn.Close()
	p := &specServer{resp: fields(":status", "200", "content-type", "text/plain", "content-length", "12")}
	p.c.Init(Server, nil, p, &p.out)
	p.c.Start()
	buf := make([]byte, 32<<10)
	for {
		if _, err := conn.Write(p.out); err != nil {
			return
		}
		p.out = p.out[:0]
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if err := p.c.Feed(buf[:n]); err != nil {
			_, _ = conn.Write(p.out)
			return
		}
	}
}

// TestH2spec runs the conformance suite h2spec, whose program XEBEC_H2SPEC names.
// Partly proves HC-04.
func TestH2spec(t *testing.T) {
	program := os.Getenv("XEBEC_H2SPEC")
	if program == "" {
		t.Skip("XEBEC_H2SPEC names no h2spec program")
	}
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
			go serve(conn)
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	out, err := exec.CommandContext(t.Context(), program, "-h", "127.0.0.1", "-p", fmt.Sprint(port), "--strict", "-o", "1").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
