package proxy_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

// clientOf is a client of one version of HTTP: 1, 2 in cleartext, or what TLS
// negotiates of the protocols given.
func clientOf(t *testing.T, p *http.Protocols, c *tls.Config) *http.Client {
	tr := &http.Transport{Protocols: p, TLSClientConfig: c}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func protocols(set ...func(*http.Protocols, bool)) *http.Protocols {
	p := &http.Protocols{}
	for _, s := range set {
		s(p, true)
	}
	return p
}

// asks gives the version of HTTP and the status of an answer, or "error".
func asks(t *testing.T, c *http.Client, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return fmt.Sprintf("%s %d", resp.Proto, resp.StatusCode)
}

// Proves HC-02: AUTO goes by ALPN, then by the preface; the others force one;
// HTTP3 needs QUIC; stat_prefix and routes are required.
func TestCodecOfAConnection(t *testing.T) {
	cert, key := certificates(t)
	plain := func(codec string) string {
		return strings.Replace(small, "          stat_prefix: in\n", "          stat_prefix: in\n          codec_type: "+codec+"\n", 1)
	}
	secure := func(codec string) string {
		return strings.Replace(plain(codec), "    - filters:\n", fmt.Sprintf(`    - transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext,
        common_tls_context: {alpn_protocols: [h2, http/1.1], tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]}}}
      filters:
`, cert, key), 1)
	}
	anyone := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the test is about ALPN
	h1, h2c, h2 := (*http.Protocols).SetHTTP1, (*http.Protocols).SetUnencryptedHTTP2, (*http.Protocols).SetHTTP2
	for _, c := range []struct {
		codec, scheme string
		client        *http.Protocols
		want          string
	}{
		{"AUTO", "http", protocols(h1), "HTTP/1.1 200"},
		{"AUTO", "http", protocols(h2c), "HTTP/2.0 200"},
		{"AUTO", "https", protocols(h1), "HTTP/1.1 200"},
		{"AUTO", "https", protocols(h2), "HTTP/2.0 200"},
		{"HTTP1", "http", protocols(h1), "HTTP/1.1 200"},
		{"HTTP1", "http", protocols(h2c), "error"},
		{"HTTP2", "http", protocols(h2c), "HTTP/2.0 200"},
		{"HTTP2", "http", protocols(h1), "error"},
		{"HTTP2", "https", protocols(h1), "error"},
	} {
		bootstrap := plain(c.codec)
		if c.scheme == "https" {
			bootstrap = secure(c.codec)
		}
		r := start(t, bootstrap)
		client := clientOf(t, c.client, anyone)
		if got := asks(t, client, c.scheme+"://"+r.at("front")); got != c.want {
			t.Errorf("%s over %s, client %v: %s, want %s", c.codec, c.scheme, c.client, got, c.want)
		}
	}
	noRoutes := regexp.MustCompile(` +rds: .*\n`).ReplaceAllString(discovered, "")
	for want, bootstrap := range map[string]string{
		"HTTP3":      plain("HTTP3"),
		"StatPrefix": strings.Replace(small, "          stat_prefix: in\n", "", 1),
		"Specifier":  noRoutes,
	} {
		if err := refusal(t, bootstrap); !strings.Contains(err, want) {
			t.Errorf("want an error about %s: %q", want, err)
		}
	}
}

// stamped are routes to a cluster whose responses get a header.
func stamped(cluster, stamp string) *routev3.RouteConfiguration {
	rc := forwarding("rc", cluster)
	rc.ResponseHeadersToAdd = []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-stamp", Value: stamp}}}
	return rc
}

// Proves HC-52: every connection has the routes in force, and a stream keeps
// those it began with.
func TestStreamsKeepTheirRoutes(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/slow" {
			close(arrived)
			<-release
		}
	}))
	t.Cleanup(backend.Close)
	r := begin(t, discovered, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(staticCluster("slow", backend.Listener.Addr().String()), "1"))
	must(t, res.SetRoutes(nil, stamped("slow", "old"), "1"))
	<-r.Ready()
	get := func(c *http.Client, path string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.at("front")+path, nil)
		must(t, err)
		resp, err := c.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		return resp.Header.Get("X-Stamp")
	}
	slow, other := clientOf(t, protocols((*http.Protocols).SetUnencryptedHTTP2), nil), clientOf(t, protocols((*http.Protocols).SetHTTP1), nil)
	if got := get(other, "/"); got != "old" {
		t.Fatalf("stamped %q", got)
	}
	answer := make(chan string, 1)
	go func() { answer <- get(slow, "/slow") }()
	<-arrived
	must(t, res.SetRoutes(nil, stamped("slow", "new"), "2"))
	for _, c := range []*http.Client{slow, other} { // both connections were open before
		for n := 0; get(c, "/") != "new"; n++ {
			if n > 1000 {
				t.Fatal("a connection does not get the new routes")
			}
		}
	}
	close(release)
	if got := <-answer; got != "old" {
		t.Errorf("the request that was under way was stamped %q", got)
	}
}

// Proves HC-53, with TestViaAndUserAgent: a request without a user agent gets
// the service cluster, and connections of iOS and Android are counted.
func TestUserAgents(t *testing.T) {
	seen := make(chan string, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { seen <- req.UserAgent() }))
	t.Cleanup(backend.Close)
	bootstrap := strings.Replace(byHeader, "          stat_prefix: in\n", "          stat_prefix: in\n          add_user_agent: true\n", 1)
	r := start(t, bootstrap, newSource().by)
	must(t, r.Resources().SetCluster(staticCluster("b", backend.Listener.Addr().String()), "1"))
	r.expect(t, "b", "200 ")
	<-seen
	conn, err := net.Dial("tcp", r.at("front"))
	must(t, err)
	in := bufio.NewReader(conn)
	for _, ask := range []struct{ header, want string }{
		{"User-Agent: An iOS client\r\n", "An iOS client"}, // which the connection counts as
		{"User-Agent: android\r\n", "android"},
		{"", "mine"},
	} {
		_, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nX-To: b\r\n%s\r\n", ask.header)
		must(t, err)
		resp, err := http.ReadResponse(in, nil)
		must(t, err)
		_ = resp.Body.Close()
		if got := <-seen; got != ask.want {
			t.Errorf("the backend saw %q, want %q", got, ask.want)
		}
	}
	must(t, conn.Close())
	want := "http.in.user_agent.ios.downstream_cx_destroy_remote_active_rq: 0\nhttp.in.user_agent.ios.downstream_cx_total: 1\nhttp.in.user_agent.ios.downstream_rq_total: 3\n"
	if got := r.get(t, "/stats?type=Counters&filter=user_agent"); got != want {
		t.Errorf("statistics:\n%s", got)
	}
	r.until(t, "http.in.downstream_cx_active: 0")
	if got := r.get(t, "/stats?type=Histograms&filter=in.user_agent"); !strings.HasPrefix(got, "http.in.user_agent.ios.downstream_cx_length_ms: ") {
		t.Error(got)
	}
}

// refusal is why a bootstrap is refused; "" if it is not.
func refusal(t *testing.T, bootstrap string) string {
	t.Helper()
	_, err := proxyrun.Load(proxyrun.Flags{ConfigYAML: bootstrap, LogLevel: "info"}, proxyrun.Environment{})
	if err == nil {
		return ""
	}
	return err.Error()
}
