//go:build interop

package living

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// probe is a request, sent to a listener of each proxy.
type probe struct {
	listener           int
	method, host, path string
	query              []string
	headers            map[string]string
	body               int
	http2              bool
}

func (p *probe) set(name, value string) {
	p.headers = maps.Clone(p.headers)
	if p.headers == nil {
		p.headers = map[string]string{}
	}
	p.headers[name] = value
}

func (p *probe) setCookie(v string) { p.set("cookie", "other=1; session="+v) }

func (p *probe) String() string {
	return fmt.Sprintf("%s %s%s?%s on listener %d, HTTP/2 %v, %d bytes, %v", p.method, p.host, p.path, strings.Join(p.query, "&"), p.listener, p.http2, p.body, p.headers)
}

// vary makes another request of the same kind.
func (g *generator) vary(p probe) probe {
	p.method = pick(g, "GET", "GET", "GET", "POST", "HEAD", "PUT")
	p.http2 = g.chance(3)
	if p.method == "POST" || p.method == "PUT" {
		p.body = pick(g, 0, 10, 3000)
	}
	if g.chance(3) {
		p.set("x-a", pick(g, "one", "two", "x.test"))
	}
	if g.chance(4) {
		p.set("x-b", pick(g, "one", "b,c"))
	}
	if g.chance(4) {
		p.set("x-answer", pick(g, "503", "500", "404", "409", "302"))
	}
	if g.chance(8) {
		p.set(pick(g, "x-envoy-max-retries", "x-envoy-upstream-rq-timeout-ms", "x-envoy-retriable-status-codes"), pick(g, "2", "9000"))
		if g.chance(2) {
			p.set("x-envoy-retry-on", pick(g, "5xx", "retriable-status-codes"))
		}
	}
	return p
}

// request is the probe as a request to an address.
func (p *probe) request(at string) *http.Request {
	u := &url.URL{Scheme: "http", Host: at, Opaque: p.path, RawQuery: strings.Join(p.query, "&")}
	r := &http.Request{Method: p.method, URL: u, Host: p.host, Header: http.Header{"User-Agent": {"probe"}}}
	for name, v := range p.headers {
		r.Header.Set(name, v)
	}
	if p.body > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, p.body))), int64(p.body)
	}
	return r
}

// volatile are headers that differ from request to request, or from proxy to
// proxy by docs/differences.md; only that they are there counts.
var volatile = []string{"Date", "X-Request-Id", "X-Forwarded-For", "X-Envoy-Upstream-Service-Time", "X-Envoy-Expected-Rq-Timeout-Ms"}

// flat are headers as lines in order.
func flat(h http.Header) []string {
	var out []string
	for name, values := range h {
		if slices.Contains(volatile, name) {
			out = append(out, name)
			continue
		}
		out = append(out, name+": "+strings.Join(values, " | "))
	}
	slices.Sort(out)
	return out
}

// outcome sends the probe and says what came of it.
func (p *probe) outcome(transport http.RoundTripper, at string) string {
	resp, err := transport.RoundTrip(p.request(at))
	if err != nil {
		return "no response: " + strings.ReplaceAll(err.Error(), at, "")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if p.method == http.MethodHead && resp.ContentLength == 0 {
		resp.Header.Del("Content-Length") // docs/differences.md
	}
	end := ""
	if err != nil {
		end = "; the body is not complete"
	}
	return fmt.Sprintf("%d %v %v\n%s%s", resp.StatusCode, flat(resp.Header), flat(resp.Trailer), body, end)
}

// startProbed serves until the test ends and tells what it was asked. Its number
// is its name. The request's x-answer is the status, and x-delay how many
// milliseconds it waits for the client to go.
func startProbed(t testing.TB, number int) int {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		if ms, err := strconv.Atoi(r.Header.Get("X-Delay")); err == nil {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Duration(ms) * time.Millisecond):
			}
		}
		if slices.Contains([]string{"one.test", "two.test", "127.0.0.1"}, r.Host) { // by auto_host_rewrite
			// Which host is the original of a second attempt is in docs/differences.md.
			r.Header.Del("X-Envoy-Original-Host")
			r.Header.Del("X-Forwarded-Host")
		}
		said, err := json.Marshal(map[string]any{
			"host": r.Host, "uri": r.RequestURI, "method": r.Method, "bytes": n, "headers": flat(r.Header), "trailers": flat(r.Trailer), "backend": number,
			"protocol": r.Proto,
		})
		if err != nil {
			panic(err)
		}
		w.Header().Set("X-Host", strconv.Itoa(number))
		w.Header().Add("X-List", "first")
		w.Header().Add("X-List", "second")
		w.Header().Set("Content-Type", "application/json")
		if status, err := strconv.Atoi(r.Header.Get("X-Answer")); err == nil {
			w.WriteHeader(status)
		}
		_, _ = w.Write(said)
	}))
	s.Config.Protocols = &protocols
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is one
}
