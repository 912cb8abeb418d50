package proxy_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// turnstile is a filter that notes its requests, and keeps the worker at one for /wait
// until it is opened.
type turnstile struct {
	mu     sync.Mutex
	events []string
	closed chan struct{}
	open   chan struct{}
}

type passage struct{ t *turnstile }

func (t *turnstile) note(event string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, event)
}

func (t *turnstile) new(filter.Callbacks) filter.HTTPFilter {
	t.note("made")
	return filter.HTTPFilter{Decoder: passage{t}}
}

func (p passage) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	p.t.note(strings.Clone(h.Path()))
	if h.Path() == "/wait" {
		close(p.t.closed)
		<-p.t.open
	}
	return filter.Continue
}

func (passage) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

func (passage) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

// gated is a site with a turnstile, whose clients may use TLS.
type gated struct {
	*serving
	gate   *turnstile
	secure *tls.Config // nil without
}

func newGated(t *testing.T, secure bool, s *site) *gated {
	t.Helper()
	v := &gated{gate: &turnstile{closed: make(chan struct{}), open: make(chan struct{})}}
	if secure {
		cert, key := certificates(t)
		v.secure = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a test
		s.chain = tlsSocket(cert, key) + ","
	}
	kind := filter.HTTPType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
		return v.gate.new, nil
	}}
	s.filters = `{name: gate, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}},`
	v.serving = s.serve(t, func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
	})
	return v
}

func (v *gated) line(t *testing.T) *wire {
	t.Helper()
	if v.secure == nil {
		return v.dial(t)
	}
	c, err := tls.Dial("tcp", v.front, v.secure)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return newWire(t, c)
}

// together makes what send sends come in one turn of the worker.
func (v *gated) together(t *testing.T, send func()) {
	t.Helper()
	first := v.line(t)
	first.get("/wait")
	<-v.gate.closed
	v.gate.events = nil
	send()
	close(v.gate.open)
	first.reply()
}

// Requests on many connections that come in one turn of the worker are each answered
// with what is theirs, however they end; all that go the same way get their filters
// before the first of these sees one.
func TestRequestsOfOneTurn(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			v := newGated(t, secure, &site{
				hosts: []string{backend(t, func(w *wire, _ int) {
					for h := w.head(); h != ""; h = w.head() {
						body := strings.Fields(h)[1]
						w.send("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
					}
				})},
				routes: `{match: {prefix: /direct}, direct_response: {status: 202, body: {inline_string: direct}}},
					{match: {prefix: /none}, route: {cluster_header: x-none}}, {match: {prefix: /}, route: {cluster: back}}`,
			})
			const n = 3 * 40
			var lines []*wire
			for i := range n {
				lines = append(lines, v.line(t))
				lines[i].get(fmt.Sprint("/before/", i))
				lines[i].want(fmt.Sprint("200 /before/", i))
			}
			want := make([][]string, n)
			v.together(t, func() {
				for i, w := range lines {
					want[i] = w.play(i)
				}
				gone, err := net.Dial("tcp", v.front)
				must(t, err)
				newWire(t, gone).get("/gone")
				_ = gone.Close()
			})
			for i, w := range lines {
				for _, text := range want[i] {
					w.want(text)
				}
			}
			v.gate.mu.Lock()
			defer v.gate.mu.Unlock()
			if text := strings.Join(v.gate.events, " "); !strings.Contains(text, "made made made") {
				t.Errorf("no request waited for others: %s", text)
			}
		})
	}
}

// play sends requests of a kind, and returns what is to be answered.
func (w *wire) play(i int) (want []string) {
	switch i % 10 {
	case 1:
		w.get("/direct")
		return []string{"202 direct"}
	case 2:
		w.get("/none")
		return []string{"503 "}
	case 3:
		w.send("nonsense\r\n\r\n")
		return []string{"400 Bad Request"}
	case 4:
		w.send("POST /post/%d HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\nGET /piped/%[1]d HTTP/1.1\r\nhost: a\r\n\r\n", i)
		return []string{fmt.Sprint("200 /post/", i), fmt.Sprint("200 /piped/", i)}
	default:
		w.get(fmt.Sprint("/here/", i), "x-filler: "+strings.Repeat("f", i))
		return []string{fmt.Sprint("200 /here/", i)}
	}
}

// A client that ends its side behind its request is answered, also if both came with
// the requests of others.
func TestEndBehindRequestOfOneTurn(t *testing.T) {
	for _, n := range []int{1, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			v := newGated(t, true, &site{routes: `{match: {prefix: /}, direct_response: {status: 202, body: {inline_string: direct}}}`})
			var lines []*wire
			for range n {
				w := v.line(t)
				w.get("/x")
				w.want("202 direct")
				lines = append(lines, w)
			}
			v.together(t, func() {
				for _, w := range lines {
					w.get("/y", "connection: close")
					must(t, w.Conn.(*tls.Conn).CloseWrite()) //nolint:forcetypeassert // it is one here
				}
			})
			for _, w := range lines {
				w.want("202 direct")
			}
		})
	}
}
