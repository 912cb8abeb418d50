package proxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/testcert"
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

// Requests on many connections that come in one turn of the worker are each answered
// with what is theirs, however they end; all that go the same way get their filters
// before the first of these sees one.
func TestRequestsOfOneTurn(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	certPEM, keyPEM, err := a.Issue("localhost")
	must(t, err)
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(cert, certPEM, 0o600))
	must(t, os.WriteFile(key, keyPEM, 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	secure := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13}

	for name, chain := range map[string]string{"plain": "", "TLS": tlsSocket(cert, key) + ","} {
		t.Run(name, func(t *testing.T) {
			gate := &turnstile{closed: make(chan struct{}), open: make(chan struct{})}
			kind := filter.HTTPType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
				return gate.new, nil
			}}
			v := (&site{
				chain: chain,
				hosts: []string{backend(t, func(w *wire, _ int) {
					for h := w.head(); h != ""; h = w.head() {
						body := strings.Fields(h)[1]
						w.send("HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
					}
				})},
				filters: `{name: gate, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}},`,
				routes: `{match: {prefix: /direct}, direct_response: {status: 202, body: {inline_string: direct}}},
					{match: {prefix: /none}, route: {cluster_header: x-none}}, {match: {prefix: /}, route: {cluster: back}}`,
			}).serve(t, func(_ *proxyrun.Flags, o *proxy.Options) {
				o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
			})
			dial := func() *wire {
				if chain == "" {
					return v.dial(t)
				}
				c, err := tls.Dial("tcp", v.front, secure)
				must(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return newWire(t, c)
			}
			const n = 3 * 40
			first := dial()
			var lines []*wire
			for i := range n {
				lines = append(lines, dial())
				lines[i].get(fmt.Sprint("/before/", i))
				lines[i].want(fmt.Sprint("200 /before/", i))
			}
			first.get("/wait")
			<-gate.closed
			gate.events = nil
			want := make([]string, n)
			for i, w := range lines {
				switch i % 10 {
				case 1:
					w.get("/direct")
					want[i] = "202 direct"
				case 2:
					w.get("/none")
					want[i] = "503 "
				case 3:
					w.send("nonsense\r\n\r\n")
					want[i] = "400 Bad Request"
				case 4:
					w.send("POST /post/%d HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\nGET /piped/%[1]d HTTP/1.1\r\nhost: a\r\n\r\n", i)
					want[i] = fmt.Sprint("200 /post/", i)
				default:
					w.get(fmt.Sprint("/here/", i), "x-filler: "+strings.Repeat("f", i))
					want[i] = fmt.Sprint("200 /here/", i)
				}
			}
			gone := dialPlain(t, v.front)
			gone.send("GET /gone HTTP/1.1\r\nhost: a\r\n\r\n")
			_ = gone.Close()
			close(gate.open)
			for i, w := range lines {
				w.want(want[i])
				if i%10 == 4 {
					w.want(fmt.Sprint("200 /piped/", i))
				}
			}
			first.want("200 /wait")
			gate.mu.Lock()
			defer gate.mu.Unlock()
			if text := strings.Join(gate.events, " "); !strings.Contains(text, "made made made") {
				t.Errorf("no request waited for others: %s", text)
			}
		})
	}
}

// dialPlain connects without TLS.
func dialPlain(t *testing.T, address string) *wire {
	t.Helper()
	c, err := net.Dial("tcp", address)
	must(t, err)
	return newWire(t, c)
}
