//go:build interop

package differential

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testpeer"
)

// origins are the upstream servers of one proxy.
type origins struct {
	tls     *tls.Config
	ports   map[int]string // of servers, to the name of the server
	servers []*testpeer.Server
	closers []func() // of what is no server

	mu     sync.Mutex
	script *exchange
	seen   []*sighting
}

// sighting is a request that an upstream server saw.
type sighting struct {
	server  string
	proto   string
	message message
	// end says what happened to the request if it was not answered normally.
	end string
}

func newOrigins(config *tls.Config) *origins {
	return &origins{tls: config, ports: map[int]string{}, script: &exchange{}}
}

// listen starts a server and returns its port. Connections begin with a PROXY header
// if they are announced.
func (o *origins) listen(name, kind string, announced bool) (int, error) {
	if kind == "refused" {
		port, closer, err := refusingPort()
		if err == nil {
			o.ports[port] = name
			o.closers = append(o.closers, closer)
		}
		return port, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	s := testpeer.Serve(l, func(conn net.Conn, _ int) {
		if !announced {
			o.serve(conn, conn, name, kind)
			return
		}
		a := newAnnounced(conn)
		o.serve(a, conn, name+", told "+a.header, kind)
	})
	o.ports[s.Port()] = name
	o.servers = append(o.servers, s)
	return s.Port(), nil
}

// begin makes an exchange the one that is answered.
func (o *origins) begin(script *exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.script, o.seen = script, nil
}

// hangUp closes the connections that the proxy kept.
func (o *origins) hangUp() {
	for _, s := range o.servers {
		s.HangUp()
	}
}

// sightings returns what was seen since begin.
func (o *origins) sightings() []*sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen
}

func (o *origins) close() {
	for _, f := range o.closers {
		f()
	}
	for _, s := range o.servers {
		s.Close()
	}
}

// see records a request and returns the answer to it. The last answer of the
// script serves all later requests too.
func (o *origins) see(s *sighting) reply {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.seen)
	o.seen = append(o.seen, s)
	switch {
	case len(o.script.Upstream) == 0:
		return reply{}
	case n < len(o.script.Upstream):
		return o.script.Upstream[n]
	default:
		return o.script.Upstream[len(o.script.Upstream)-1]
	}
}

// note changes a recorded request.
func (o *origins) note(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

func (o *origins) serve(rw, conn net.Conn, name, kind string) {
	if strings.HasSuffix(kind, "s") {
		secure := tls.Server(rw, o.tls)
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if err := secure.Handshake(); err != nil {
			return
		}
		_ = conn.SetDeadline(time.Time{})
		rw = secure
	}
	switch kind {
	case "tcp":
		o.serveTCP(rw, conn, name)
	case "h2", "h2s":
		newH2Origin(o, rw, conn, name).run()
	default:
		o.serveH1(rw, conn, name)
	}
}

func (o *origins) serveTCP(rw, conn net.Conn, name string) {
	s := &sighting{server: name, proto: "tcp"}
	r := o.see(s)
	if r.When == "headers" {
		_, _ = rw.Write([]byte(text(r.Raw)))
		if finish(r.Then, conn) {
			return
		}
	}
	buf := make([]byte, 64<<10)
	for first := true; ; first = false {
		n, err := rw.Read(buf)
		o.note(func() { s.message.body = append(s.message.body, buf[:n]...) })
		if err != nil {
			o.note(func() { s.end = reason(err) })
			return
		}
		switch {
		case r.When == "headers":
		case r.Raw == "":
			_, _ = rw.Write(buf[:n])
		case first:
			_, _ = rw.Write([]byte(text(r.Raw)))
			if finish(r.Then, conn) {
				return
			}
		}
	}
}

// finish does what is to be done after an answer; true means that the
// connection is over.
func finish(then string, conn net.Conn) bool {
	switch then {
	case "close":
		return true
	case "rst":
		harness.Reset(conn)
		return true
	case "half-close":
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	return false
}

// serveH1 answers requests of HTTP/1, one after the other.
func (o *origins) serveH1(rw, conn net.Conn, name string) {
	r := bufio.NewReader(rw)
	for {
		m, err := readHead(r)
		if m == nil {
			return
		}
		s := &sighting{server: name, proto: "h1", message: *m}
		if !isRequest(m.start) {
			s.message = message{problem: "not a request of HTTP/1"}
			o.see(s)
			return
		}
		answer := o.see(s)
		if err != nil {
			return
		}
		if !o.exchangeH1(r, rw, conn, s, answer) {
			return
		}
	}
}

// isRequest reports whether a line can be the first of a request. That of
// HTTP/2's preface is not.
func isRequest(line string) bool {
	i := strings.LastIndex(line, " HTTP/1.")
	return i > 0 && strings.IndexFunc(line[:i], func(r rune) bool { return r < ' ' }) < 0
}

// exchangeH1 reads the rest of a request and answers it; false means that the
// connection is over.
func (o *origins) exchangeH1(r *bufio.Reader, rw, conn net.Conn, s *sighting, answer reply) bool {
	m := s.message
	method, _, _ := strings.Cut(m.start, " ")
	if answer.When == "headers" && !o.answerH1(r, rw, conn, s, answer, method) {
		return false
	}
	err := readBody(r, &m, false, "")
	o.note(func() { s.message = m })
	if err != nil {
		return false
	}
	if answer.When != "headers" {
		return o.answerH1(r, rw, conn, s, answer, method)
	}
	return true
}

func (o *origins) answerH1(r *bufio.Reader, rw, conn net.Conn, s *sighting, a reply, method string) bool {
	time.Sleep(a.Delay)
	if a.Drop != "" {
		finish(a.Drop, conn)
		return false
	}
	if a.Then == "hang" && a.Raw == "" && a.Status == 0 {
		return o.hang(r, s)
	}
	var err error
	if a.Raw != "" {
		_, err = rw.Write([]byte(text(a.Raw)))
	} else {
		err = writeReplyH1(rw, a, method)
	}
	if err != nil || finish(a.Then, conn) {
		return false
	}
	switch a.Then {
	case "hang":
		return o.hang(r, s)
	case "echo":
		return o.echo(r, rw, s)
	}
	return true
}

// hang waits for the proxy to do something.
func (o *origins) hang(r *bufio.Reader, s *sighting) bool {
	_, err := r.ReadByte()
	o.note(func() {
		s.end = "more bytes"
		if err != nil {
			s.end = reason(err)
		}
	})
	return false
}

// echo sends back what comes on an upgraded connection.
func (o *origins) echo(r *bufio.Reader, rw net.Conn, s *sighting) bool {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		o.note(func() { s.message.body = append(s.message.body, buf[:n]...) })
		if n > 0 {
			_, _ = rw.Write(buf[:n])
		}
		if err != nil {
			o.note(func() { s.end = reason(err) })
			return false
		}
	}
}

func writeReplyH1(rw net.Conn, a reply, method string) error {
	var b strings.Builder
	for _, i := range a.Interim {
		fmt.Fprintf(&b, "HTTP/1.1 %d Interim\r\n", i.Status)
		writeFields(&b, fields(i.Headers))
		b.WriteString("\r\n")
	}
	status, body := a.content()
	fmt.Fprintf(&b, "HTTP/1.1 %d Reason\r\n", status)
	writeFields(&b, a.headers())
	bodiless := method == "HEAD" || status == 204 || status == 304
	chunked := a.Chunked || len(a.Trailers) > 0
	switch {
	case chunked:
		b.WriteString("transfer-encoding: chunked\r\n")
	case !bodiless && !a.has("content-length"):
		b.WriteString("content-length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n")
	if a.Pause > 0 {
		if _, err := rw.Write([]byte(b.String())); err != nil {
			return err
		}
		b.Reset()
		time.Sleep(a.Pause)
	}
	switch {
	case bodiless:
	case chunked:
		writeChunked(&b, body, fields(a.Trailers))
	default:
		b.WriteString(body)
	}
	_, err := rw.Write([]byte(b.String()))
	return err
}

func writeFields(b *strings.Builder, list []field) {
	for _, f := range list {
		b.WriteString(f.name + ": " + f.value + "\r\n")
	}
}

// writeChunked writes a body in one chunk, if it is not empty, and trailers.
func writeChunked(b *strings.Builder, body string, trailers []field) {
	if body != "" {
		fmt.Fprintf(b, "%x\r\n%s\r\n", len(body), body)
	}
	b.WriteString("0\r\n")
	writeFields(b, trailers)
	b.WriteString("\r\n")
}

func (a *reply) content() (status int, body string) {
	status, body = 200, "hello"
	if a.Status != 0 {
		status = a.Status
	}
	if a.Body != nil {
		body = text(*a.Body)
	}
	return status, body
}

func (a *reply) headers() []field {
	if a.Headers == nil {
		return []field{{"content-type", "text/plain"}}
	}
	return fields(a.Headers)
}

func (a *reply) has(name string) bool {
	for _, f := range a.headers() {
		if strings.EqualFold(f.name, name) {
			return true
		}
	}
	return false
}

// refusingPort returns a port that is taken, yet nobody listens on it.
func refusingPort() (int, func(), error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	closer := func() { _ = syscall.Close(fd) }
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		closer()
		return 0, nil, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		closer()
		return 0, nil, err
	}
	return name.(*syscall.SockaddrInet4).Port, closer, nil
}
