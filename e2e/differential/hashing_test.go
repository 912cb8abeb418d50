//go:build interop

package differential

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// hashingBootstrap has the clusters that the golden tables of the balancers are
// of. Nobody listens at their hosts: the access log names those that were chosen.
func hashingBootstrap(t *testing.T) (boot string, clusters []string) {
	t.Helper()
	data, err := os.ReadFile("../../internal/dataplane/lb/testdata/hashing.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Clusters []json.RawMessage `json:"clusters"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, raw := range file.Clusters {
		var c struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		clusters, texts = append(clusters, c.Name), append(texts, string(raw))
	}
	const address = `{"socket_address": {"address": "127.0.0.1", "port_value": 0}}`
	return `{"node": {"id": "id", "cluster": "c", "locality": {"zone": "b"}}, "admin": {"address": ` + address + `}, "static_resources": {"listeners": [
		{"name": "main", "address": ` + address + `, "filter_chains": [{"filters": [{"name": "hcm", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "hcm",
			"access_log": [{"name": "file", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "${dir}/chosen",
				"log_format": {"text_format_source": {"inline_string": "%REQ(x-cluster)% %REQ(x-key)% %UPSTREAM_HOST% %RESPONSE_FLAGS%\n"}}}}],
			"route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [{"match": {"prefix": "/"},
				"route": {"cluster_header": "x-cluster", "hash_policy": [{"header": {"header_name": "x-key"}}]}}]}]},
			"http_filters": [{"name": "r", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
		"clusters": [` + strings.Join(texts, ",\n") + `]}}`, clusters
}

var errUnfinished = errors.New("the access log is not complete")

// hashed sends requests with keys, and returns what the log says of them.
func (s *side) hashed(clusters []string, requests int) (map[string][]string, error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, cluster := range clusters {
		for i := range requests {
			req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", s.ports["main"]), http.NoBody)
			if err != nil {
				return nil, err
			}
			req.Header.Set("x-cluster", cluster)
			req.Header.Set("x-key", fmt.Sprintf("key-%d", i))
			req.Header.Set("x-own", fmt.Sprintf("own-%d", i))
			resp, err := client.Do(req)
			if err != nil {
				return nil, err
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(s.dir, "chosen"))
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if err == nil && len(lines) == len(clusters)*requests {
			of := map[string][]string{}
			for _, line := range lines {
				name, rest, _ := strings.Cut(line, " ")
				of[name] = append(of[name], rest)
			}
			return of, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s: %d lines of %d: %w", s.name, len(lines), len(clusters)*requests, errors.Join(err, errUnfinished))
		}
	}
}

// TestHashing compares the hosts that balancers choose by hashes, cluster by
// cluster, and the statistics of their rings and tables.
// Proves LB-05, LB-07. Partly proves LB-06.
func TestHashing(t *testing.T) {
	if *selfCheck {
		t.Skip("compares the two proxies")
	}
	boot, clusters := hashingBootstrap(t)
	p := startPair(t, map[string]string{"bootstrap.json": boot})
	const requests = 30
	var said [2]map[string][]string
	var errs [2]error
	var wait sync.WaitGroup
	for i, s := range p {
		wait.Go(func() { said[i], errs[i] = s.hashed(clusters, requests) })
	}
	wait.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range clusters {
		if diff := cmp.Diff(said[0][cluster], said[1][cluster]); diff != "" {
			t.Errorf("%s: Envoy (-) and Xebec (+) chose otherwise:\n%s", cluster, diff)
		}
	}
	p.alike(t, "statistics", func(s *side) any {
		page, err := s.admin.Page(`/stats?filter=(ring_hash_lb|maglev_lb|lb_healthy_panic)`)
		if err != nil {
			return err.Error()
		}
		return page
	})
}
