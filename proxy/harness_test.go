package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/app/serveproxy"
	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/proxy"
)

// running is a proxy at work.
type running struct {
	*proxy.Proxy
	stop   context.CancelFunc
	ended  chan error
	levels *proxyrun.Levels
	log    *syncBuffer
	client *http.Client
}

// syncBuffer is a log that many write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// load makes the options of a bootstrap as the command line does.
func load(t testing.TB, bootstrap string, change ...func(*proxyrun.Flags, *proxy.Options)) (*proxyrun.Loaded, proxy.Options, *running) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(path, []byte(bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	levels, err := proxyrun.NewLevels("info", "")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{ended: make(chan error, 1), levels: levels, log: &syncBuffer{}}
	log, err := proxyrun.NewLogger("%l %n: %v", levels, r.log)
	if err != nil {
		t.Fatal(err)
	}
	flags := proxyrun.Flags{ConfigPath: path, Concurrency: 1, LogLevel: "info"}
	flags.NoIOURing = os.Getenv("XEBEC_NO_IO_URING") != "" // runs all tests without it
	for _, c := range change {
		c(&flags, &proxy.Options{})
	}
	loaded, err := proxyrun.Load(flags, proxyrun.Environment{Extensions: []string{"google.protobuf.StringValue"}})
	if err != nil {
		t.Fatal(err)
	}
	o := serveproxy.Options(loaded, proxyrun.Options{Flags: flags, Log: log, Levels: levels, Version: "v1.2.3"}, serveproxy.Environment{})
	for _, c := range change {
		c(&proxyrun.Flags{}, &o)
	}
	return loaded, o, r
}

// start runs a proxy; the test ends it and looks at what Run returned.
func start(t testing.TB, bootstrap string, change ...func(*proxyrun.Flags, *proxy.Options)) *running {
	t.Helper()
	r := begin(t, bootstrap, change...)
	select {
	case <-r.Ready():
	case err := <-r.ended:
		t.Fatalf("the proxy ended: %v", err)
	}
	return r
}

// begin is start that does not wait until the proxy accepts.
func begin(t testing.TB, bootstrap string, change ...func(*proxyrun.Flags, *proxy.Options)) *running {
	t.Helper()
	loaded, o, r := load(t, bootstrap, change...)
	p, err := proxy.New(loaded.Bootstrap, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Proxy = p
	transport := &http.Transport{DisableKeepAlives: true}
	r.client = &http.Client{Transport: transport}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		transport.CloseIdleConnections()
		select {
		case err := <-r.ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		default:
		}
	})
	return r
}

// answer is what an admin endpoint says.
type answer struct {
	status int
	kind   string
	body   string
	header http.Header
}

// ask queries an admin endpoint.
func (r *running) ask(t *testing.T, method, path, form string) answer {
	t.Helper()
	return r.request(t, r.AdminAddress(), method, path, form)
}

func (r *running) request(t *testing.T, address, method, path, form string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(body), resp.Header}
}

// get queries an endpoint that must answer 200.
func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	a := r.ask(t, http.MethodGet, path, "")
	if a.status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	return a.body
}

// certificates writes a certificate and its key to a folder.
func certificates(t *testing.T) (cert, key string) {
	t.Helper()
	a, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := a.Issue("acme.com")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, data := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

const adminHere = `
admin:
  address: {socket_address: {address: 127.0.0.1, port_value: 0}}
`

// small is a listener that answers by itself, and two clusters.
const small = `
node: {id: me, cluster: mine}
static_resources:
  listeners:
  - name: front
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    stat_prefix: front
    additional_addresses:
    - address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config:
            name: routes
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /, runtime_fraction: {default_value: {numerator: 0}, runtime_key: new.way}}
                direct_response: {status: 200, body: {inline_string: new}}
              - match: {prefix: /}
                direct_response: {status: 200, body: {inline_string: old}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: one
    load_assignment:
      cluster_name: one
      endpoints:
      - locality: {region: r, zone: z}
        load_balancing_weight: 3
        lb_endpoints:
        - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 19001}}, hostname: h}
          load_balancing_weight: 7
          health_status: DRAINING
          metadata: {filter_metadata: {envoy.lb: {canary: true}}}
  - name: none
`
