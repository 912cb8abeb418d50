//go:build interop

package differential

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

type field struct{ name, value string }

// message is an HTTP message as it came over the wire.
type message struct {
	start    string // the first line of HTTP/1
	headers  []field
	body     []byte
	framing  string // how the length of the body was told
	trailers []field
	// problem says why the message is not complete.
	problem string
}

func (m *message) get(name string) string {
	for _, f := range m.headers {
		if strings.EqualFold(f.name, name) {
			return f.value
		}
	}
	return ""
}

// status is the code in a response's first line, or 0.
func (m *message) status() int {
	_, rest, _ := strings.Cut(m.start, " ")
	code, _, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(code)
	return n
}

// readHead reads a first line and headers. The error is io.EOF only if nothing
// came at all.
func readHead(r *bufio.Reader) (*message, error) {
	m := &message{}
	start, err := readLine(r)
	if err != nil {
		if start != "" {
			m.start, m.problem = start, reason(err)
			return m, errors.Join(errPartial, err)
		}
		return nil, err
	}
	m.start = start
	m.headers, err = readFields(r)
	if err != nil {
		m.problem = reason(err)
		return m, errors.Join(errPartial, err)
	}
	return m, nil
}

var errPartial = errors.New("partial message")

func readFields(r *bufio.Reader) ([]field, error) {
	var out []field
	for {
		line, err := readLine(r)
		if err != nil || line == "" {
			return out, err
		}
		name, value, _ := strings.Cut(line, ":")
		out = append(out, field{name, strings.TrimPrefix(value, " ")})
	}
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), err
}

// readBody reads what follows a head. A response to HEAD has no body whatever
// its headers say.
func readBody(r *bufio.Reader, m *message, response bool, method string) error {
	var err error
	switch code := m.status(); {
	case response && (method == "HEAD" || code == 204 || code == 304 || code < 200 && code != 101):
		m.framing = "none"
	case response && (code == 101 || method == "CONNECT" && code/100 == 2), !response && strings.HasPrefix(m.start, "CONNECT "):
		m.framing = "tunnel"
		m.body, err = io.ReadAll(r)
	case strings.EqualFold(m.get("transfer-encoding"), "chunked"):
		m.framing = "chunked"
		err = readChunks(r, m)
	case m.get("content-length") != "":
		m.framing = "length"
		n, _ := strconv.Atoi(m.get("content-length"))
		m.body = make([]byte, n)
		var got int
		got, err = io.ReadFull(r, m.body)
		m.body = m.body[:got]
	case response:
		m.framing = "until close"
		m.body, err = io.ReadAll(r)
	default:
		m.framing = "none"
	}
	if err != nil {
		m.problem = reason(err)
	}
	return err
}

func readChunks(r *bufio.Reader, m *message) error {
	for {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseUint(size, 16, 31)
		if err != nil {
			return fmt.Errorf("bad chunk size %q", line)
		}
		if n == 0 {
			m.trailers, err = readFields(r)
			return err
		}
		chunk := make([]byte, n+2)
		got, err := io.ReadFull(r, chunk)
		m.body = append(m.body, chunk[:min(got, int(n))]...)
		if err != nil {
			return err
		}
	}
}

// reason names an error of a connection without what differs by chance.
func reason(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "reset by peer"):
		return "reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	case strings.Contains(text, "timeout"):
		return "nothing came"
	case strings.Contains(text, "use of closed"):
		return "still open"
	default:
		return text
	}
}
