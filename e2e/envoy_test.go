//go:build interop

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// xdsCluster is the name of the management server in Envoy's bootstrap.
const xdsCluster = "xebec_xds"

// envoy is a running Envoy.
type envoy struct {
	*harness.Process
	*harness.Admin
}

// startEnvoy runs Envoy with a bootstrap file, and more fields of a bootstrap
// as YAML's flow mappings have them, until the test ends.
func startEnvoy(t *testing.T, bootstrap []byte, more ...string) *envoy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.yaml")
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	admin, field := harness.ChooseAdmin(t)
	p := harness.Start(t, "Envoy", exec.Command(envoyBinary, "-c", file, "--config-yaml", "{"+strings.Join(append(more, field), ", ")+"}",
		"--disable-hot-restart", "--concurrency", "1", "--drain-time-s", "1", "--log-level", "warning", "--component-log-level", "upstream:info,config:info"))
	return &envoy{p, admin}
}

// ready waits until Envoy has its first configuration.
func (e *envoy) ready(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, "Envoy ready", func() error {
		e.Check(t)
		return e.Live()
	})
}

// dynamicCluster is a cluster of Envoy that came over xDS.
type dynamicCluster struct {
	VersionInfo string `json:"version_info"`
	Cluster     struct {
		Name           string `json:"name"`
		ConnectTimeout string `json:"connect_timeout"`
	} `json:"cluster"`
}

// clusters lists, by name, the clusters that serve and those that warm.
func (e *envoy) clusters() (active, warming map[string]dynamicCluster, err error) {
	read := func(resource string) (map[string]dynamicCluster, error) {
		body, err := e.Page("/config_dump?resource=" + resource)
		if err != nil {
			return nil, err
		}
		var dump struct {
			Configs []dynamicCluster `json:"configs"`
		}
		if err := json.Unmarshal([]byte(body), &dump); err != nil {
			return nil, fmt.Errorf("%w in %s", err, body)
		}
		out := map[string]dynamicCluster{}
		for _, c := range dump.Configs {
			out[c.Cluster.Name] = c
		}
		return out, nil
	}
	if active, err = read("dynamic_active_clusters"); err != nil {
		return nil, nil, err
	}
	warming, err = read("dynamic_warming_clusters")
	return active, warming, err
}
