//go:build interop

package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// smugglers is how many inputs are sent at once, each to a recorder of its own.
const smugglers = 8

// recording runs a proxy with recorders behind it.
func recording(t *testing.T, http2 bool) (*bootstrap, *server, []*recorder) {
	t.Helper()
	b := (&bootstrap{}).ports(t)
	recorders := make([]*recorder, smugglers)
	for i := range recorders {
		r := new(recorder)
		play := r.record1
		r.check = r.check1
		if http2 {
			play, r.check = r.record2, r.check2
		}
		recorders[i] = r
		b.clusters = append(b.clusters, cluster{name: fmt.Sprintf("r%d", i), ports: []int{peer(t, play)}, http2: http2})
	}
	return b, xebec().start(t, b.yaml()), recorders
}

// inputs1 are all inputs of HTTP/1.
func inputs1() []smuggle { return slices.Concat(encodings(), lengths(), chunks(), heads()) }

// each gives the inputs to workers.
func each(count int, work func(worker, input int)) {
	var all sync.WaitGroup
	for w := range smugglers {
		all.Go(func() {
			for i := w; i < count; i += smugglers {
				work(w, i)
			}
		})
	}
	all.Wait()
}

// sendRaw sends bytes and counts the answers with status 200: until the proxy
// closes, is silent, or has given enough of them.
func sendRaw(t *testing.T, port int, raw string, enough int) int {
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer c.Close()
	_, _ = io.WriteString(c, raw)
	r := bufio.NewReader(c)
	method := http.MethodGet
	if strings.HasPrefix(raw, http.MethodHead) {
		method = http.MethodHead
	}
	for n := 0; ; n++ {
		wait := 300 * time.Millisecond
		if n >= enough {
			wait = 10 * time.Millisecond
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return n
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusContinue {
			n--
		} else if resp.StatusCode != http.StatusOK {
			return n
		}
	}
}

// allowed checks the bodies that were passed on for an input.
func allowed(got, want []string, answers int) error {
	if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
		return fmt.Errorf("passed on as %q, allowed are %q", got, want)
	}
	if answers > len(got) {
		return fmt.Errorf("%d answers for %d requests", answers, len(got))
	}
	return nil
}

// check1 judges what a recorder of HTTP/1 got for an input.
func (r *recorder) check1(want []string, answers int) error {
	conns, err := r.take()
	if err != nil {
		return err
	}
	var got []string
	for _, b := range conns {
		m, err := judge(b)
		if err != nil {
			return fmt.Errorf("%w\npassed on: %q", err, b)
		}
		if len(m.bodies) > 1 || len(m.bodies) == 1 && m.leftover {
			return fmt.Errorf("more than one request on a connection: %v\npassed on: %q", m, b)
		}
		got = append(got, m.bodies...)
	}
	return allowed(got, want, answers)
}

// check2 judges what a recorder of HTTP/2 got for an input.
func (r *recorder) check2(want []string, answers int) error {
	got, bad := r.take2()
	if err := allowed(got, want, answers); err != nil {
		return fmt.Errorf("%w, %q", err, bad)
	}
	if len(bad) > 0 {
		return fmt.Errorf("passed on wrongly: %q", bad)
	}
	return nil
}

// smuggling1 sends the inputs of HTTP/1 through a proxy to upstream servers of
// HTTP/1 or HTTP/2.
func smuggling1(t *testing.T, http2 bool) {
	b, s, recorders := recording(t, http2)
	inputs := inputs1()
	var accepted atomic.Int64
	each(len(inputs), func(w, i int) {
		raw := strings.ReplaceAll(inputs[i].raw, "/PATH", fmt.Sprintf("/r%d", w))
		answers := sendRaw(t, b.h1, raw, len(inputs[i].bodies))
		accepted.Add(int64(min(answers, 1)))
		if err := recorders[w].check(inputs[i].bodies, answers); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	})
	mixed(t, len(inputs), int(accepted.Load()))
	s.idle(t)
}

// Partly proves HC-10: of inputs that servers may understand differently, none is
// passed on such that they could: all read one request, with the body that was
// meant.
func TestSmugglingHTTP1ToHTTP1(t *testing.T) { smuggling1(t, false) }

// The same inputs to an upstream server of HTTP/2.
func TestSmugglingHTTP1ToHTTP2(t *testing.T) { smuggling1(t, true) }

// mixed checks that some inputs were passed on and some were not.
func mixed(t *testing.T, inputs, accepted int) {
	t.Helper()
	t.Logf("%d inputs, %d of them accepted", inputs, accepted)
	if inputs < 100 || accepted < 30 || inputs-accepted < 100 {
		t.Error("that is no mixture")
	}
}

// smuggle2 is a request of HTTP/2: fields, parts of the body, trailers. If the
// proxy may pass it on, bodies has its body; else it must refuse it.
type smuggle2 struct {
	fields   []string
	data     []string
	trailers []string
	bodies   []string
}

func post(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/PATH"}, more...)
}

// inputs2 are requests that HTTP/1 could say otherwise, and some good ones.
func inputs2() []smuggle2 {
	hello := []string{"hello"}
	var out []smuggle2
	refused := func(fields []string) { out = append(out, smuggle2{fields: fields, data: hello}) }
	for _, more := range [][]string{
		{"transfer-encoding", "chunked"},
		{"transfer-encoding", "identity"},
		{"connection", "close"},
		{"connection", "content-length"},
		{"keep-alive", "x"},
		{"proxy-connection", "x"},
		{"upgrade", "h2c"},
		{"content-length", "4"},
		{"content-length", "6"},
		{"content-length", "0"},
		{"content-length", "+5"},
		{"content-length", "5,5"},
		{"content-length", "5", "content-length", "6"},
		{"content-length", "0x5"},
		{"content-length", ""},
		{"content-length", "18446744073709551621"},
		{"x", "a\r\nContent-Length: 0"},
		{"x", "a\nb"},
		{"x", "a\rb"},
		{"x", "a\x00b"},
		{"x", "a\r\n\r\nGET / HTTP/1.1\r\nHost: b"},
		{"x\r\ny", "a"},
		{"x: a\r\ny", "b"},
		{"x:y", "b"},
		{"x y", "b"},
		{"X", "b"},
		{"", "b"},
		{"x\x00", "b"},
		{":x", "b"},
		{":path", "/b"},
		{":authority", "b"},
		{":status", "200"},
		{"x\t", "b"},
		{"x(", "b"},
		{"cookie", "a\r\nX: y"},
		{"Transfer-Encoding", "chunked"},
		{"transfer-encoding\t", "chunked"},
		{"transfer-encoding ", "chunked"},
		{"te", "chunked"},
		{"te", "gzip"},
	} {
		refused(post(more...))
	}
	for _, path := range []string{
		"/PATH HTTP/1.1\r\nHost: b\r\n\r\nGET /x", "/PATH b", "/PATH\tb", "/PATH\r\nX: y", "/PATH\nX: y", "/PATH\x00", "", "PATH", "http://b/PATH", "/PATH\x7f", "/PATH HTTP/1.0", "*", " /PATH",
	} {
		refused([]string{":method", "POST", ":scheme", "http", ":authority", "a", ":path", path})
	}
	for _, method := range []string{"GET / HTTP/1.1\r\nX:", "GET /", "G\r\nT", "", "G T", "GET\t", "GET\x00", "(GET)"} {
		refused([]string{":method", method, ":scheme", "http", ":authority", "a", ":path", "/PATH"})
	}
	for _, authority := range []string{"a\r\nX: y", "a b", "a\nb", "a\x00", "a\r\n\r\nGET / HTTP/1.1", "\ta"} {
		refused([]string{":method", "POST", ":scheme", "http", ":authority", authority, ":path", "/PATH"})
	}
	for _, scheme := range []string{"http\r\nX: y", "http://b/ HTTP/1.1\r\n", "ht tp", "\x00"} {
		refused([]string{":method", "POST", ":scheme", scheme, ":authority", "a", ":path", "/PATH"})
	}
	refused([]string{":method", "POST", ":scheme", "http", ":authority", "a"})
	refused([]string{":scheme", "http", ":authority", "a", ":path", "/PATH"})
	refused([]string{"x", "y", ":method", "POST", ":scheme", "http", ":authority", "a", ":path", "/PATH"})
	for _, trailers := range [][]string{
		{":path", "/b"}, {"content-length", "3"}, {"transfer-encoding", "chunked"}, {"x", "a\r\nb"}, {"x\r\n", "a"}, {"connection", "close"}, {"x\x00", "y"}, {"X", "y"}, {"host", "b"}, {"x", "y"},
	} {
		out = append(out, smuggle2{fields: post(), data: hello, trailers: trailers, bodies: hello})
	}
	return append(out,
		smuggle2{fields: post(), data: hello, bodies: hello},
		smuggle2{fields: post("content-length", "5"), data: []string{"he", "llo"}, bodies: hello},
		smuggle2{fields: post("host", "b"), data: hello, bodies: hello},
		smuggle2{fields: post("expect", "100-continue"), data: hello, bodies: hello},
		smuggle2{fields: post("te", "trailers"), data: hello, bodies: hello},
		smuggle2{fields: post("trailer", "checksum"), data: hello, bodies: hello},
		smuggle2{fields: post("x", "a "), data: hello, bodies: hello},
		smuggle2{fields: post("x_y", "a"), data: hello, bodies: hello},
		smuggle2{fields: post(), data: []string{"0\r\n\r\nGET /PATH HTTP/1.1\r\nHost: b\r\n\r\n"}, bodies: []string{"0\r\n\r\nGET /PATH HTTP/1.1\r\nHost: b\r\n\r\n"}},
		smuggle2{fields: post("content-length", "0"), bodies: []string{""}},
		smuggle2{fields: post(), bodies: []string{""}},
		smuggle2{fields: append(post()[:0:0], ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/PATH"), data: hello, bodies: hello},
		smuggle2{fields: append(post()[:0:0], ":method", "HEAD", ":scheme", "http", ":authority", "a", ":path", "/PATH"), data: hello, bodies: hello},
	)
}

// send2 makes a request of HTTP/2 on a connection of its own and reports
// whether it was answered with 200.
func send2(t *testing.T, port int, in smuggle2, path string) bool {
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Error(err)
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	s := &server2{f: http2.NewFramer(c, c)}
	s.f.AllowIllegalWrites = true
	s.enc = hpack.NewEncoder(s)
	s.f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_, _ = io.WriteString(c, http2.ClientPreface)
	_ = s.f.WriteSettings()
	fields := slices.Clone(in.fields)
	for i := range fields {
		fields[i] = strings.ReplaceAll(fields[i], "/PATH", path)
	}
	s.headers(1, len(in.data) == 0 && in.trailers == nil, fields...)
	for i, d := range in.data {
		s.data(1, i == len(in.data)-1 && in.trailers == nil, d)
	}
	if in.trailers != nil {
		s.headers(1, true, in.trailers...)
	}
	for {
		f, err := s.f.ReadFrame()
		if err != nil {
			return false
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "100" {
				return status == "200"
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return false
		}
	}
}

// smuggling2 sends the inputs of HTTP/2 through a proxy to upstream servers of
// HTTP/1 or HTTP/2.
func smuggling2(t *testing.T, http2 bool) {
	b, s, recorders := recording(t, http2)
	inputs := inputs2()
	each(len(inputs), func(w, i int) {
		in := inputs[i]
		answers := 0
		if send2(t, b.h2, in, fmt.Sprintf("/r%d", w)) {
			answers = 1
		}
		if err := recorders[w].check(in.bodies, answers); err != nil {
			t.Errorf("%q, %q, %q: %v", in.fields, in.data, in.trailers, err)
		}
		if !http2 && in.bodies != nil && in.trailers == nil && answers == 0 {
			t.Errorf("%q was refused", in.fields)
		}
	})
	s.idle(t)
}

// Partly proves HC-09: requests of HTTP/2 that would mean something else in
// HTTP/1 are not passed on to a server of it.
func TestSmugglingHTTP2ToHTTP1(t *testing.T) { smuggling2(t, false) }

// The same requests to an upstream server of HTTP/2.
func TestSmugglingHTTP2ToHTTP2(t *testing.T) { smuggling2(t, true) }
