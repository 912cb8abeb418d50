//go:build interop

package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// inNamespace is set in the environment of the test's second process, which has
// namespaces of its own.
const inNamespace = "XEBEC_E2E_IN_NAMESPACE"

// Proves BS-04, RT-03, RQ-05 and RQ-06, partly proves FC-09: the configuration of the walk
// through a request's life, as it stands, serves as Envoy does: over TLS and
// HTTP/2 to two servers in turn, with Envoy's log lines, statistics and pages.
// Its addresses, its port 443 and its log file are made in namespaces.
func TestLifeOfARequest(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		again(t)
		return
	}
	private(t)
	file, err := filepath.Abs("testdata/life-of-a-request.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(lifeCertificates(t))
	if err := os.MkdirAll("/var/log/envoy", 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), xebecBinary, "proxy", "--mode", "validate", "-c", file).CombinedOutput(); err != nil {
		t.Errorf("--mode validate: %v\n%s", err, out)
	}
	for _, host := range []string{"10.1.2.10", "10.1.2.11"} {
		lifeBackend(t, host+":10002")
	}
	want := observeLife(t, envoy(), string(config))
	got := observeLife(t, xebec(), string(config))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-Envoy +Xebec:\n%s", diff)
	}
	t.Logf("Envoy's log:\n%s", strings.Join(want.Log, "\n"))
	t.Run("statsd", func(t *testing.T) { testStatsd(t, string(config)) })
}

// again runs the test in new namespaces of networks and mounts.
func again(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestLifeOfARequest$", "-test.v", "-test.timeout", "120s") //nolint:gosec // itself
	cmd.Env = append(os.Environ(), inNamespace+"=yes", harness.BinaryVariable+"="+xebecBinary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM):
		t.Skip("TestLifeOfARequest needs the privilege to make namespaces of networks and mounts (CAP_SYS_ADMIN)")
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	default:
		t.Logf("%s", out)
	}
}

// private makes the addresses and the directory that the configuration names.
func private(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", "10.1.2.10/32", "dev", "lo"},
		{"address", "add", "10.1.2.11/32", "dev", "lo"},
	} {
		if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: %v\n%s", args, err, out)
		}
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", "/var/log", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
}

// lifeCertificates makes the directory that certs/ is relative to.
func lifeCertificates(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "certs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"server.pem": "servercert.pem", "server-key.pem": "serverkey.pem"} {
		data, err := os.ReadFile(filepath.Join(certificates, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "certs", to), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lifeBackend answers with its address; a request with x-stall gets half of a
// body.
func lifeBackend(t *testing.T, address string) {
	t.Helper()
	serveAt(t, address, true, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Stall") == "" {
			_, _ = io.WriteString(w, address+" "+r.Proto)
			return
		}
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
}

// life is what is seen of a proxy with the configuration.
type life struct {
	Answers  []string
	Log      []string
	Stats    map[string]int
	Clusters []string
	Sections []string
}

func observeLife(t *testing.T, b brand, config string) life {
	t.Helper()
	if err := os.MkdirAll("/var/log/envoy", 0o755); err != nil {
		t.Fatal(err)
	}
	s := b.start(t, config, "--service-node", "front", "--service-cluster", "edge")
	var l life
	l.Answers = talk(t)
	harness.Eventually(t, 5*time.Second, "the client that went away is noticed", func() error {
		if n := s.Stats(t, "^http.ingress_http.downstream_rq_active$")["http.ingress_http.downstream_rq_active"]; n != 0 {
			return fmt.Errorf("%d requests are active", n)
		}
		return nil
	})
	l.Log = lifeLog(t)
	l.Stats = lifeStats(t, s)
	l.Clusters = lifeClusters(t, s)
	l.Sections = lifeSections(t, s)
	s.Stop(t)
	if err := os.RemoveAll("/var/log/envoy"); err != nil {
		t.Fatal(err)
	}
	return l
}

// lifeClient is a client of HTTP/2 on one connection, by prior knowledge: the
// configuration offers no ALPN. The loopback address would be special to
// x-forwarded-for.
func lifeClient(sni string, dialled func(net.Conn)) (*http.Client, *http.Transport) {
	tr := &http.Transport{
		Protocols: new(http.Protocols),
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", "10.1.2.10:443")
			if err != nil {
				return nil, err
			}
			dialled(c)
			// net/http takes what it does not know to be TLS for HTTP/2 by prior
			// knowledge.
			return struct{ net.Conn }{tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true})}, nil //nolint:gosec // whom it talks to is not the question
		},
	}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: tr, Timeout: 5 * time.Second}, tr
}

// talk makes the requests and returns the answers.
func talk(t *testing.T) []string {
	t.Helper()
	c, tr := lifeClient("acme.com", func(net.Conn) {})
	defer tr.CloseIdleConnections()
	get := func(url string) string {
		resp, err := c.Get(url)
		if err != nil {
			return "error"
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return fmt.Sprintf("%s %s %q", resp.Proto, resp.Status, body)
	}
	var out, turns []string
	for range 4 {
		turns = append(turns, get("https://acme.com/foo"))
	}
	if turns[0] != turns[2] || turns[1] != turns[3] || turns[0] == turns[1] {
		t.Errorf("the servers are not called in turn: %q", turns)
	}
	slices.Sort(turns) // who is first is left to chance
	out = append(out, turns...)
	for _, url := range []string{"https://acme.com/foo?x=1", "https://acme.com/foobar", "https://acme.com/", "https://other.example/foo"} {
		answer := get(url)
		out = append(out, url+": "+strings.ReplaceAll(answer, "10.1.2.11", "10.1.2.10"))
	}
	other, otherTransport := lifeClient("other.example", func(net.Conn) {})
	defer otherTransport.CloseIdleConnections()
	if resp, err := other.Get("https://acme.com/foo"); err == nil {
		_ = resp.Body.Close()
		out = append(out, "another SNI: "+resp.Status)
	} else {
		out = append(out, "another SNI: closed")
	}
	goAway(t)
	return out
}

// goAway makes a request and vanishes in the middle of the answer.
func goAway(t *testing.T) {
	t.Helper()
	var conn net.Conn
	c, tr := lifeClient("acme.com", func(c net.Conn) { conn = c })
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://acme.com/foo", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Stall", "yes")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 4)); err != nil {
		t.Error(err)
	}
	harness.Reset(conn)
}

// variable are the parts of a log line that differ by nature.
var variable = regexp.MustCompile(`^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\]|\b\d+ (\d+|-) "10\.1|"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"|10\.1\.2\.1[01]:10002`)

// lifeLog reads the access log: one line for each request that was decoded.
func lifeLog(t *testing.T) []string {
	t.Helper()
	out := logLines(t, "/var/log/envoy/access.log", 5*time.Second, 9)
	for i, line := range out {
		out[i] = variable.ReplaceAllStringFunc(line, func(s string) string {
			switch {
			case strings.HasPrefix(s, "["):
				return "[TIME]"
			case strings.HasPrefix(s, `"`):
				return `"UUID"`
			case strings.HasSuffix(s, `"10.1`):
				if strings.Contains(s, " - ") {
					return `MS - "10.1`
				}
				return `MS MS "10.1`
			}
			return "SERVER"
		})
	}
	return out
}

// byNature are statistics that depend on time, or on Envoy's libraries.
var byNature = regexp.MustCompile(`(nghttp2|ssl\.ocsp_staple_|_bytes_|bytes_total|_length|_time$|_ms$|ssl\.(ciphers|curves|versions|sigalgs)|worker_\d|certificate|upstream_rq_200_ms|session_reused)`)

// lifeStats reads what was counted for the listener, the connection manager and
// the cluster.
func lifeStats(t *testing.T, s *server) map[string]int {
	t.Helper()
	out, err := s.Numbers(`usedonly&filter=^(http\.ingress_http|listener\.0\.0\.0\.0_443|cluster\.some_service|tls_inspector|listener_manager|cluster_manager)\.`)
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(out, func(name string, n int) bool {
		return n == 0 || byNature.MatchString(name) // what is 0 need not be there
	})
	if len(out) < 30 {
		t.Errorf("%s has only %d statistics: %v", s.Name, len(out), out)
	}
	return out
}

// lifeClusters reads /clusters; which of the two servers is one is by chance.
func lifeClusters(t *testing.T, s *server) []string {
	t.Helper()
	page, err := s.Page("/clusters")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(page), "\n")
	var out []string
	for _, line := range lines {
		if !strings.Contains(line, "::rq_") { // these are in the log already, by server
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

var typeURL = regexp.MustCompile(`(?m)^   "@type": "(.*)"`)

// lifeSections are the parts of /config_dump.
func lifeSections(t *testing.T, s *server) []string {
	t.Helper()
	page, err := s.Page("/config_dump")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range typeURL.FindAllStringSubmatch(page, -1) {
		out = append(out, m[1])
	}
	for _, name := range []string{"listener_https", "local_route", "some_service", "some_statsd_sink"} {
		if !strings.Contains(page, name) {
			t.Errorf("/config_dump of %s does not have %s", s.Name, name)
		}
	}
	return out
}
