package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/testpeer"
	"github.com/xebec-proxy/xebec/proxy"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// site is a bootstrap for tests of HTTP: a listener with a connection manager
// "in", and the cluster "back". Its texts are YAML in flow style, with a comma at
// their end.
type site struct {
	listener string // more fields of the listener
	chain    string // more fields of its filter chain
	manager  string // more fields of the connection manager
	routes   string // instead of one to back
	filters  string // before the router
	router   string // fields of the router
	hosts    []string
	cluster  string // more fields of the cluster
	more     string // more clusters
	top      string // more of the bootstrap, in block style
	vhost    string // more fields of the virtual host
}

func (s *site) yaml(t *testing.T) string {
	t.Helper()
	if s.routes == "" {
		s.routes = "{match: {prefix: /}, route: {cluster: back}}"
	}
	return fmt.Sprintf(`
%s
static_resources:
  listeners:
  - {name: front, stat_prefix: front, address: {socket_address: {address: 127.0.0.1, port_value: 0}}, %s
    filter_chains: [{%s filters: [{name: hcm, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
      stat_prefix: in, %s
      access_log: [{name: log, typed_config: {
        "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog,
        log_format: {text_format_source: {inline_string: "%%RESPONSE_CODE%% %%RESPONSE_FLAGS%% %%RESPONSE_CODE_DETAILS%%\n"}}}}],
      route_config: {name: routes, virtual_hosts: [{name: all, domains: ["*"], %s routes: [%s]}]},
      http_filters: [%s {name: router, typed_config: {%s "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}}]}]}
  clusters:
  - {name: back, %s load_assignment: {cluster_name: back, endpoints: [{lb_endpoints: [%s]}]}}
  %s
`, s.top, s.listener, s.chain, s.manager, s.vhost, s.routes, s.filters, s.router, s.cluster, endpoints(t, s.hosts), s.more) + adminHere
}

// endpoints are hosts as endpoints of a cluster.
func endpoints(t *testing.T, hosts []string) string {
	t.Helper()
	var list []string
	for _, h := range hosts {
		ip, port, err := net.SplitHostPort(h)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}}", ip, port))
	}
	return strings.Join(list, ", ")
}

// speaking are the options of a cluster that speaks HTTP/2; more are fields of
// its HttpProtocolOptions, and h2 those of its HTTP/2 options.
func speaking(more, h2 string) string {
	return fmt.Sprintf(`typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, %s
    explicit_http_config: {http2_protocol_options: {%s}}}},`, more, h2)
}

// speaking1 is speaking for HTTP/1.
func speaking1(more string) string {
	return fmt.Sprintf(`typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, %s
    explicit_http_config: {http_protocol_options: {}}}},`, more)
}

// serving is a site at work.
type serving struct {
	*running
	lines *syncBuffer // the access log
	front string
}

// serve runs a site.
func (s *site) serve(t *testing.T, change ...func(*proxyrun.Flags, *proxy.Options)) *serving {
	t.Helper()
	v := &serving{lines: &syncBuffer{}}
	v.running = start(t, s.yaml(t), append(change, func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Stdout, o.LogFlushInterval, o.DrainTime = v.lines, time.Millisecond, 0
	})...)
	v.front = v.Listeners()["front"][0]
	return v
}

// until waits for something that no event tells of.
func until(t *testing.T, what func() string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what())
		}
	}
}

// take receives what must come.
func take[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case x := <-ch:
		return x
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// values are the statistics that are numbers.
func (v *serving) values(t *testing.T) map[string]int {
	t.Helper()
	m := map[string]int{}
	for line := range strings.Lines(v.get(t, "/stats")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); err == nil {
			m[name] = n
		}
	}
	return m
}

// counts waits until statistics have values: "name value", one for each.
func (v *serving) counts(t *testing.T, want ...string) {
	t.Helper()
	wrong := ""
	until(t, func() string { return wrong }, func() bool {
		got := v.values(t)
		wrong = ""
		for _, w := range want {
			name, value, _ := strings.Cut(w, " ")
			if n, ok := got[name]; !ok || strconv.Itoa(n) != value {
				wrong += fmt.Sprintf("%s is %d (%v), want %s; ", name, n, ok, value)
			}
		}
		return wrong == ""
	})
}

// logged waits for the lines of the access log.
func (v *serving) logged(t *testing.T, want ...string) {
	t.Helper()
	all := strings.Join(want, "\n") + "\n"
	until(t, func() string { return fmt.Sprintf("the log is\n%s, want\n%s", v.lines, all) }, func() bool {
		return strings.Count(v.lines.String(), "\n") >= len(want)
	})
	if got := v.lines.String(); got != all {
		t.Errorf("the log is\n%swant\n%s", got, all)
	}
}

// wire is one end of a connection, read and written by the test itself.
type wire struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func newWire(t *testing.T, c net.Conn) *wire {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	return &wire{c, t, bufio.NewReader(c)}
}

// dial connects to the listener.
func (v *serving) dial(t *testing.T) *wire {
	t.Helper()
	c, err := net.Dial("tcp", v.front)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return newWire(t, c)
}

// send writes; what the other side makes of it is seen by what it says.
func (w *wire) send(format string, a ...any) {
	_, _ = fmt.Fprintf(w.Conn, format, a...)
}

// get sends a request without a body.
func (w *wire) get(path string, fields ...string) {
	w.send("GET %s HTTP/1.1\r\nhost: a\r\n%s\r\n", path, lines(fields))
}

func lines(fields []string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f + "\r\n")
	}
	return b.String()
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of the body
	close  bool
}

// String is the status and the body.
func (r reply) String() string {
	if r.err != nil {
		return fmt.Sprintf("%d %s (%v)", r.status, r.body, r.err)
	}
	return fmt.Sprintf("%d %s", r.status, r.body)
}

// reply reads a response.
func (w *wire) reply() reply {
	w.t.Helper()
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		w.t.Fatalf("no response: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err, resp.Close}
}

// want reads a response that must be this.
func (w *wire) want(text string) reply {
	w.t.Helper()
	r := w.reply()
	if r.String() != text {
		w.t.Errorf("got %q, want %q", r, text)
	}
	return r
}

// ended reads to the end of the connection, which must come in order.
func (w *wire) ended() {
	w.t.Helper()
	if b, err := io.ReadAll(w.r); err != nil || len(b) > 0 {
		w.t.Errorf("before the end: %q, %v", b, err)
	}
}

// head reads the head of a message, and is "" at the end of the connection.
func (w *wire) head() string {
	var b strings.Builder
	for {
		line, err := w.r.ReadString('\n')
		if err != nil {
			return ""
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String()
		}
	}
}

// backend plays a host; play gets each connection, whose number is n, and closes it
// by returning.
func backend(t *testing.T, play func(w *wire, n int)) string {
	t.Helper()
	return testpeer.Start(t, func(c net.Conn, n int) { play(newWire(t, c), n) }).Addr().String()
}

// answering is a host that gives every request without a body the same answer.
func answering(t *testing.T, response string) string {
	t.Helper()
	return backend(t, func(w *wire, _ int) {
		for w.head() != "" {
			w.send("%s", response)
		}
	})
}

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

// untilClosed waits for the other side to end the connection.
func (w *wire) untilClosed() { _, _ = io.Copy(io.Discard, w.r) }

// wire2 is one end of a connection of HTTP/2.
type wire2 struct {
	*http2.Framer
	w   *wire
	enc *hpack.Encoder
	buf bytes.Buffer
}

func newWire2(w *wire) *wire2 {
	f := &wire2{Framer: http2.NewFramer(w.Conn, w.r), w: w}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.AllowIllegalWrites = true
	f.enc = hpack.NewEncoder(&f.buf)
	return f
}

// dial2 connects to the listener and begins HTTP/2.
func (v *serving) dial2(t *testing.T, settings ...http2.Setting) *wire2 {
	t.Helper()
	w := v.dial(t)
	w.send(http2.ClientPreface)
	f := newWire2(w)
	_ = f.WriteSettings(settings...)
	return f
}

// accept2 begins HTTP/2 as a host.
func accept2(w *wire, settings ...http2.Setting) *wire2 {
	if _, err := io.CopyN(io.Discard, w.r, int64(len(http2.ClientPreface))); err != nil {
		return nil
	}
	f := newWire2(w)
	_ = f.WriteSettings(settings...)
	return f
}

// head sends a head of fields "name: value".
func (f *wire2) head(id uint32, end bool, fields ...string) {
	f.buf.Reset()
	for _, s := range fields {
		i := 1 + strings.Index(s[1:], ": ")
		_ = f.enc.WriteField(hpack.HeaderField{Name: s[:i], Value: s[i+2:]})
	}
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.buf.Bytes(), EndStream: end, EndHeaders: true})
}

// ask sends the head of a request.
func (f *wire2) ask(id uint32, method, path string, end bool, fields ...string) {
	f.head(id, end, append([]string{":method: " + method, ":scheme: http", ":path: " + path, ":authority: a"}, fields...)...)
}

// next reads until a frame that pick wants, acknowledging settings; nil at the end
// of the connection.
func (f *wire2) next(pick func(http2.Frame) bool) http2.Frame {
	for {
		fr, err := f.ReadFrame()
		if err != nil {
			return nil
		}
		if s, ok := fr.(*http2.SettingsFrame); ok && !s.IsAck() {
			_ = f.WriteSettingsAck()
		}
		if pick(fr) {
			return fr
		}
	}
}

// request reads the head of the next request; nil at the end of the connection.
func (f *wire2) request() *http2.MetaHeadersFrame {
	h, _ := f.next(func(fr http2.Frame) bool { _, ok := fr.(*http2.MetaHeadersFrame); return ok }).(*http2.MetaHeadersFrame)
	return h
}

// outcome reads how a stream ends: "200 body", with "; trailer: value" for each
// trailer, or "reset CODE", "200 part reset CODE".
func (f *wire2) outcome(id uint32) string {
	f.w.t.Helper()
	out, heads := "", 0
	for {
		fr := f.next(func(fr http2.Frame) bool { return fr.Header().StreamID == id })
		end := false
		switch x := fr.(type) {
		case nil:
			return out + " gone"
		case *http2.MetaHeadersFrame:
			if heads++; heads == 1 {
				out = x.PseudoValue("status") + " "
			} else {
				for _, h := range x.RegularFields() {
					out += "; " + h.Name + ": " + h.Value
				}
			}
			end = x.StreamEnded()
		case *http2.DataFrame:
			out += string(x.Data())
			end = x.StreamEnded()
		case *http2.RSTStreamFrame:
			return out + "reset " + x.ErrCode.String()
		}
		if end {
			return out
		}
	}
}

func (f *wire2) want(id uint32, text string) {
	f.w.t.Helper()
	if got := f.outcome(id); got != text {
		f.w.t.Errorf("stream %d: %q, want %q", id, got, text)
	}
}

// goAway reads until the next GOAWAY.
func (f *wire2) goAway() *http2.GoAwayFrame {
	f.w.t.Helper()
	g, _ := f.next(func(fr http2.Frame) bool { _, ok := fr.(*http2.GoAwayFrame); return ok }).(*http2.GoAwayFrame)
	if g == nil {
		f.w.t.Fatal("the connection ended without a GOAWAY")
	}
	return g
}

// gone reads until the end of the connection.
func (f *wire2) gone() {
	f.next(func(http2.Frame) bool { return false })
}

// fieldOf is the value of a field of a head of HTTP/1, or "".
func fieldOf(head, name string) string {
	_, v, _ := strings.Cut(head, "\r\n"+name+": ")
	v, _, _ = strings.Cut(v, "\r\n")
	return v
}
