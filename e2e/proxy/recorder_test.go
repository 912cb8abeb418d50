//go:build interop

package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// recorder is an upstream server that keeps every byte it gets. It serves one
// request for each connection.
type recorder struct {
	mu    sync.Mutex
	open  int
	conns [][]byte
	bad   []string // what the recorder of HTTP/2 found wrong
	got   []string // the bodies that it got
	// check judges what has come since the last time, given the bodies that may be
	// passed on and how many answers the client got.
	check func(want []string, answers int) error
}

// record1 is the script of a recorder of HTTP/1.
func (r *recorder) record1(c *net.TCPConn) {
	r.mu.Lock()
	r.open++
	r.mu.Unlock()
	var seen bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &seen)))
	if err == nil {
		if _, err = io.Copy(io.Discard, req.Body); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		}
	}
	if err == nil {
		_, _ = io.Copy(&seen, c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	r.conns = append(r.conns, seen.Bytes())
}

// take waits for the ends of connections and returns what came on them.
func (r *recorder) take() ([][]byte, error) {
	deadline := time.Now().Add(3 * time.Second)
	for {
		r.mu.Lock()
		open, conns := r.open, r.conns
		if open == 0 {
			r.conns = nil
			r.mu.Unlock()
			return conns, nil
		}
		r.mu.Unlock()
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d connections stay open", open)
		}
		time.Sleep(time.Millisecond)
	}
}

// message is what a parser takes a connection's bytes for.
type message struct {
	bodies   []string
	leftover bool // an incomplete request follows
}

func (m message) String() string { return fmt.Sprintf("%q, more: %v", m.bodies, m.leftover) }

// standard parses as net/http does.
func standard(b []byte) message {
	var m message
	r := bufio.NewReader(bytes.NewReader(b))
	for {
		if _, err := r.Peek(1); err != nil {
			return m
		}
		req, err := http.ReadRequest(r)
		if err != nil {
			m.leftover = true
			return m
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			m.leftover = true
			return m
		}
		m.bodies = append(m.bodies, string(body))
	}
}

// lenient parses as careless servers do: any line end, spaces and control
// characters around names and values ignored, numbers up to their first other
// character. They differ in which of several lengths they believe.
type lenient struct{ lastLength, lengthFirst, anyEncoding bool }

func (l lenient) parse(b []byte) message {
	var m message
	for len(b) > 0 {
		length, chunked, rest, ok := l.head(b)
		if !ok {
			m.leftover = true
			return m
		}
		var body []byte
		switch {
		case chunked && (!l.lengthFirst || length < 0):
			body, rest, ok = l.chunks(rest)
		case length > len(rest):
			ok = false
		case length > 0:
			body, rest = rest[:length], rest[length:]
		}
		if !ok {
			m.leftover = true
			return m
		}
		m.bodies = append(m.bodies, string(body))
		b = rest
	}
	return m
}

const junk = " \t\r\v\f\x00"

// cutLine cuts a line off.
func cutLine(b []byte) (line string, rest []byte, ok bool) {
	before, after, ok := bytes.Cut(b, []byte("\n"))
	return string(before), after, ok
}

func (l lenient) head(b []byte) (length int, chunked bool, rest []byte, ok bool) {
	length = -1
	first := true
	for {
		var line string
		if line, b, ok = cutLine(b); !ok {
			return 0, false, nil, false
		}
		if strings.Trim(line, junk) == "" {
			if first {
				continue
			}
			return length, chunked, b, true
		}
		name, value, _ := strings.Cut(line, ":")
		if first {
			first = false
			continue
		}
		value = strings.ToLower(strings.Trim(value, junk))
		switch strings.ToLower(strings.Trim(name, junk)) {
		case "content-length":
			if n, ok := number(value, 10); ok && (length < 0 || l.lastLength) {
				length = n
			}
		case "transfer-encoding":
			chunked = chunked || value == "chunked" || l.anyEncoding && strings.Contains(value, "chunked")
		}
	}
}

// number reads the digits that a text begins with.
func number(s string, base int) (int, bool) {
	s = strings.TrimLeft(s, junk+"+")
	digits := "0123456789"
	if base == 16 {
		digits += "abcdefABCDEF"
	}
	end := 0
	for end < len(s) && strings.IndexByte(digits, s[end]) >= 0 {
		end++
	}
	n, err := strconv.ParseInt(s[:end], base, 64)
	return int(n), err == nil
}

func (l lenient) chunks(b []byte) (body, rest []byte, ok bool) {
	for {
		line, after, ok := cutLine(b)
		size, isNumber := number(line, 16)
		if !ok || !isNumber || size > len(after) {
			return nil, nil, false
		}
		b = after
		if size == 0 {
			break
		}
		body = append(body, b[:size]...)
		if _, b, ok = cutLine(b[size:]); !ok {
			return nil, nil, false
		}
	}
	for {
		line, after, ok := cutLine(b)
		if !ok {
			return nil, nil, false
		}
		b = after
		if strings.Trim(line, junk) == "" {
			return body, b, true
		}
	}
}

var (
	requestLine = regexp.MustCompile(`^[!#$%&'*+.^_|~0-9A-Za-z-]+ [!-~\x80-\xff]+ HTTP/1\.1$`)
	fieldLine   = regexp.MustCompile(`^([!#$%&'*+.^_|~0-9A-Za-z-` + "`" + `]+): ?([^\x00-\x08\x0a-\x1f\x7f]*)$`)
)

// strict finds what is wrong with a head, by the letter of RFC 9112.
func strict(b []byte) error {
	head, _, ok := strings.Cut(string(b), "\r\n\r\n")
	if !ok {
		return nil // incomplete: nobody takes it for a request
	}
	lines := strings.Split(head, "\r\n")
	if !requestLine.MatchString(lines[0]) {
		return fmt.Errorf("request line %q", lines[0])
	}
	count := map[string][]string{}
	for _, line := range lines[1:] {
		f := fieldLine.FindStringSubmatch(line)
		if f == nil {
			return fmt.Errorf("field %q", line)
		}
		name := strings.ToLower(f[1])
		count[name] = append(count[name], f[2])
	}
	length, encoding := count["content-length"], count["transfer-encoding"]
	switch {
	case len(count["host"]) != 1:
		return fmt.Errorf("hosts %q", count["host"])
	case len(length)+len(encoding) > 1:
		return fmt.Errorf("lengths %q, encodings %q", length, encoding)
	case len(length) == 1 && strings.Trim(length[0], "0123456789") != "":
		return fmt.Errorf("length %q", length)
	case len(encoding) == 1 && encoding[0] != "chunked":
		return fmt.Errorf("encoding %q", encoding)
	}
	return nil
}

// judge lets all parsers read what came on a connection; they must agree.
func judge(b []byte) (message, error) {
	if err := strict(b); err != nil {
		return message{}, err
	}
	want := standard(b)
	for _, l := range []lenient{{}, {lastLength: true}, {lengthFirst: true}, {anyEncoding: true}, {true, true, true}} {
		if got := l.parse(b); !slices.Equal(got.bodies, want.bodies) || got.leftover != want.leftover {
			return message{}, fmt.Errorf("net/http reads %v, a careless server (%+v) reads %v", want, l, got)
		}
	}
	return want, nil
}

// Parsers that never differ would prove nothing.
func TestParsersDiffer(t *testing.T) {
	for _, input := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 3\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\nx\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 5\r\n\r\nhello",
		"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		if m, err := judge([]byte(input)); err == nil && !m.leftover {
			t.Errorf("%q: all agree on %v", input, m)
		}
	}
	if m, err := judge([]byte("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")); err != nil || !slices.Equal(m.bodies, []string{"hello"}) {
		t.Errorf("a plain request: %v, %v", m, err)
	}
}

// record2 is the script of a recorder of HTTP/2.
func (r *recorder) record2(c *net.TCPConn) {
	s := &server2{c: c, f: http2.NewFramer(c, c)}
	s.enc = hpack.NewEncoder(s)
	s.f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	_ = s.f.WriteSettings()
	bodies, lengths := map[uint32]*strings.Builder{}, map[uint32]string{}
	for {
		f, err := s.f.ReadFrame()
		if err != nil {
			if _, isStream := err.(http2.StreamError); isStream { //nolint:errorlint // as ReadFrame documents
				r.complain("%v", err)
				continue
			}
			return
		}
		id, end := f.Header().StreamID, false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = s.f.WriteSettingsAck()
			}
			continue
		case *http2.MetaHeadersFrame:
			r.fields(f)
			if bodies[id] == nil {
				bodies[id] = new(strings.Builder)
				lengths[id] = valueOf(f.RegularFields(), "content-length")
			}
			end = f.StreamEnded()
		case *http2.DataFrame:
			bodies[id].Write(f.Data())
			end = f.StreamEnded()
		default:
			continue
		}
		if end {
			r.done(s, id, bodies[id].String(), lengths[id])
		}
	}
}

func (r *recorder) complain(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad = append(r.bad, fmt.Sprintf(format, args...))
}

var lowerName = regexp.MustCompile("^[!#$%&'*+.^_|~0-9a-z`-]+$")

// fields finds what no request over HTTP/2 may have.
func (r *recorder) fields(f *http2.MetaHeadersFrame) {
	for _, h := range f.Fields {
		switch {
		case strings.ContainsAny(h.Value, "\r\n\x00"), strings.HasPrefix(h.Name, ":") && strings.ContainsAny(h.Value, " \t"):
			r.complain("field %s: %q", h.Name, h.Value)
		case !strings.HasPrefix(h.Name, ":") && !lowerName.MatchString(h.Name):
			r.complain("field name %q", h.Name)
		case slices.Contains([]string{"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}, h.Name):
			r.complain("field %s of one hop", h.Name)
		case h.Name == "te" && h.Value != "trailers":
			r.complain("te: %s", h.Value)
		}
	}
}

func valueOf(fields []hpack.HeaderField, name string) string {
	for _, h := range fields {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

func (r *recorder) done(s *server2, id uint32, body, length string) {
	if n, err := strconv.Atoi(length); length != "" && (err != nil || n != len(body)) {
		r.complain("content-length %s with %d bytes", length, len(body))
	}
	r.mu.Lock()
	r.got = append(r.got, body)
	r.mu.Unlock()
	hello(s, id)
}

// take2 returns the bodies and complaints since the last time.
func (r *recorder) take2() (bodies, bad []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bodies, bad, r.got, r.bad = r.got, r.bad, nil, nil
	return bodies, bad
}
