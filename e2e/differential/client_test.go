//go:build interop

package differential

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

const (
	// patience is how long a client waits for what must come.
	patience = 5 * time.Second
	// linger is how long a client looks at a connection after the last response,
	// to see whether the proxy closes it.
	linger = 70 * time.Millisecond
)

// connect opens the connection of an exchange. It tells what became of the
// handshake.
func connect(port int, x *exchange, o *observation) (net.Conn, *net.TCPConn, error) {
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, nil, err
	}
	tcp := conn.(*net.TCPConn)
	if x.TLS == nil {
		return conn, tcp, nil
	}
	config := &tls.Config{ServerName: x.TLS.SNI, NextProtos: x.TLS.ALPN, InsecureSkipVerify: true} //nolint:gosec // the test's own certificate
	if x.TLS.Max == "1.2" {
		config.MaxVersion = tls.VersionTLS12
	}
	secure := tls.Client(conn, config)
	_ = conn.SetDeadline(time.Now().Add(patience))
	if err := secure.Handshake(); err != nil {
		o.set("client.tls", "failed: "+reason(err))
		_ = conn.Close()
		return nil, nil, nil
	}
	_ = conn.SetDeadline(time.Time{})
	state := secure.ConnectionState()
	o.set("client.tls", tls.VersionName(state.Version)+" alpn="+state.NegotiatedProtocol+" cert="+state.PeerCertificates[0].Subject.CommonName)
	return secure, tcp, nil
}

// h1Client is a client of HTTP/1 or, with bytes only, of TCP.
type h1Client struct {
	*session

	messages []*message
	final    int // responses with a code that is not 1xx
	heads    int // of those, and of responses under way
	awaited  int // responses that steps have waited for
	methods  []string
	bytes    []byte
}

func runH1(port int, x *exchange, o *observation) error {
	conn, tcp, err := connect(port, x, o)
	if conn == nil {
		return err
	}
	c := &h1Client{session: newSession(x, conn, tcp)}
	o.port(conn.LocalAddr().(*net.TCPAddr).Port, "client")
	open, err := c.play(c.read, func() (bool, error) {
		list := x.Steps
		if x.Request != nil {
			list = append([]step{{Raw: requestH1(x.Request)}}, list...)
		}
		open, err := steps(list, c.step)
		if err == nil && open {
			c.await()
		}
		return open, err
	})
	c.report(o, open)
	return err
}

func requestH1(r *request) string {
	var b strings.Builder
	method, path, host := r.or()
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nhost: %s\r\n", method, path, host)
	writeFields(&b, fields(r.Headers))
	body := text(r.Body)
	switch {
	case r.Chunked || len(r.Trailers) > 0:
		b.WriteString("transfer-encoding: chunked\r\n\r\n")
		writeChunked(&b, body, fields(r.Trailers))
	case body != "":
		fmt.Fprintf(&b, "content-length: %d\r\n\r\n%s", len(body), body)
	default:
		b.WriteString("\r\n")
	}
	return b.String()
}

func (r *request) or() (method, path, host string) {
	method, path, host = "GET", "/", "a.test"
	if r.Method != "" {
		method = r.Method
	}
	if r.Path != "" {
		path = text(r.Path)
	}
	if r.Host != "" {
		host = text(r.Host)
	}
	return method, path, host
}

var requestLine = regexp.MustCompile(`(?m)^([A-Z-]+) \S+ HTTP/1\.[01]\r?$`)

// step does one step; false means that the client closed the connection.
func (c *h1Client) step(s step) (bool, error) {
	switch {
	case s.Raw != "":
		raw := text(s.Raw)
		c.mu.Lock()
		for _, m := range requestLine.FindAllStringSubmatch(raw, -1) {
			c.methods = append(c.methods, m[1])
		}
		c.mu.Unlock()
		for range max(s.Repeat, 1) {
			// The proxy may have closed: what it said before is what counts.
			_, _ = io.WriteString(c.rw, raw)
		}
	case s.Wait != "":
		return true, c.wait(s.Wait)
	case s.Do == "close":
		return false, nil
	case s.Do == "rst":
		harness.Reset(c.tcp)
		return false, nil
	case s.Do == "half-close":
		if secure, ok := c.rw.(*tls.Conn); ok {
			return true, secure.CloseWrite()
		}
		return true, c.tcp.CloseWrite()
	default:
		return true, fmt.Errorf("a client of %s cannot do %+v", c.x.Client, s)
	}
	return true, nil
}

func (c *h1Client) wait(what string) error {
	if d, err := time.ParseDuration(what); err == nil {
		c.stay(d)
		return nil
	}
	switch word, arg, _ := strings.Cut(what, " "); word {
	case "response":
		c.awaited++
		c.until(patience, func() bool { return c.final >= c.awaited })
	case "soon": // a response, if one comes
		c.awaited++
		c.until(300*time.Millisecond, func() bool { return c.final >= c.awaited })
	case "headers":
		c.until(patience, func() bool { return c.heads > c.awaited })
	case "bytes":
		n, _ := strconv.Atoi(arg)
		c.until(patience, func() bool { return len(c.bytes) >= n })
	case "close":
		c.stay(patience)
	default:
		return fmt.Errorf("cannot wait for %q", what)
	}
	return nil
}

// await waits for the responses that are due, and then for a while.
func (c *h1Client) await() {
	closing := false
	if c.x.Client == "h1" {
		expect := max(len(c.methods), 1)
		if c.x.Expect != nil {
			expect = *c.x.Expect
		}
		c.until(patience, func() bool { return c.final >= expect })
		c.mu.Lock()
		if n := len(c.messages); n > 0 {
			closing = strings.EqualFold(c.messages[n-1].get("connection"), "close")
		}
		c.mu.Unlock()
	}
	limit := linger
	if closing {
		limit = patience
	}
	c.stayOn(limit)
}

func (c *h1Client) read() error {
	if c.x.Client == "tcp" {
		return c.readBytes(c.rw)
	}
	r := bufio.NewReader(c.rw)
	for {
		m, err := readHead(r)
		if m == nil {
			return err
		}
		c.mu.Lock()
		c.messages = append(c.messages, m)
		method := ""
		interim := m.status()/100 == 1 && m.status() != 101
		if !interim {
			c.heads++
			if c.heads <= len(c.methods) {
				method = c.methods[c.heads-1]
			}
		}
		c.mu.Unlock()
		c.signal()
		if err != nil {
			return err
		}
		if m.status() == 101 || method == "CONNECT" && m.status() == 200 {
			c.mu.Lock()
			m.framing = "tunnel"
			c.final++
			c.mu.Unlock()
			c.signal()
			return c.readBytes(r)
		}
		err = readBody(r, m, true, method)
		c.mu.Lock()
		if !interim && (err == nil || !errors.Is(err, net.ErrClosed)) {
			c.final++
		}
		c.mu.Unlock()
		c.signal()
		if err != nil {
			return err
		}
	}
}

func (c *h1Client) readBytes(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		c.mu.Lock()
		c.bytes = append(c.bytes, buf[:n]...)
		c.mu.Unlock()
		c.signal()
		if err != nil {
			return err
		}
	}
}

func (c *h1Client) report(o *observation, open bool) {
	for i, m := range c.messages {
		o.message("client."+strconv.Itoa(i+1), m)
	}
	if len(c.bytes) > 0 || c.x.Client == "tcp" {
		o.body("client.bytes", c.bytes)
	}
	c.session.report(o, open)
}
