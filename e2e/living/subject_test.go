//go:build interop

package living

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/xds"
)

// server is where `xebec serve` runs, again and again if need be.
type server struct {
	*harness.Process
	dir        string
	ordered    bool // across streams
	xds, admin int  // ports
	client     *http.Client
}

func newServer(t testing.TB, dir string) *server {
	t.Helper()
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &server{dir: dir, xds: harness.FreePort(t), admin: harness.FreePort(t), client: &http.Client{Transport: tr, Timeout: 5 * time.Second}}
}

// start runs the server and waits until it is ready.
func (s *server) start(t testing.TB) {
	t.Helper()
	at := func(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
	s.Process = harness.Start(t, "xebec serve", exec.Command(xebecBinary, "serve", "--dir", s.dir, "--xds-address", at(s.xds), "--admin-address", at(s.admin), "--log-format", "text",
		"--order-across-streams="+strconv.FormatBool(s.ordered)))
	harness.Eventually(t, 20*time.Second, "the server is ready", func() error {
		s.Check(t)
		resp, err := s.client.Get("http://" + at(s.admin) + "/readyz")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
}

// bootstrap is what a proxy of a variant starts with; a server is at a port.
func (v variant) bootstrap(t testing.TB, dir string, port int) string {
	t.Helper()
	if v.wire != "" {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, xebecBinary, "bootstrap", "envoy", "--server", "127.0.0.1:"+strconv.Itoa(port), "--admin-port", "0",
			"--node-id", "living", "--variant", v.wire, "--ads="+strconv.FormatBool(v.ads)).Output()
		if err != nil {
			t.Fatalf("xebec bootstrap: %v", err)
		}
		return string(out)
	}
	source := func(typeURL string) string {
		b, err := protojson.Marshal(v.source(dir, typeURL, ""))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return fmt.Sprintf(`node: {id: living, cluster: living}
dynamic_resources: {cds_config: %s, lds_config: %s}
static_resources:
  clusters:
  - {name: %s, type: STATIC, connect_timeout: 5s, load_assignment: {cluster_name: %s, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]}}
`, source(xds.ClusterType), source(xds.ListenerType), xdsCluster, xdsCluster, port)
}

// proxy is a running proxy, Xebec or Envoy.
type proxy struct {
	*harness.Process
	*harness.Admin
}

// startProxy runs a program with a bootstrap until the test ends.
func startProxy(t testing.TB, name, bootstrap string, command ...string) *proxy {
	t.Helper()
	return startProxyWith(t, name, bootstrap, "", command...)
}

// startProxyWith adds fields to the bootstrap, in JSON without the braces.
func startProxyWith(t testing.TB, name, bootstrap, fields string, command ...string) *proxy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.yaml")
	if err := os.WriteFile(file, []byte(bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	admin, field := harness.ChooseAdmin(t)
	if fields != "" {
		field = "{" + field + ", " + fields + "}"
	}
	args := slices.Concat(command[1:], []string{"-c", file, "--config-yaml", field, "--concurrency", "2", "--disable-hot-restart", "--log-level", "warning"})
	return &proxy{harness.Start(t, name, exec.Command(command[0], args...)), admin}
}

func startXebec(t testing.TB, bootstrap string) *proxy {
	t.Helper()
	return startProxy(t, "xebec proxy", bootstrap, xebecBinary, "proxy")
}

// live waits until the proxy serves.
func (p *proxy) live(t testing.TB) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, p.Name+" is live", func() error {
		p.Check(t)
		return p.Live()
	})
}
