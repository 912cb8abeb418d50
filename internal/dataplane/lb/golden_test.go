package lb

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// literal resolves addresses to themselves.
type literal struct{}

func (literal) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	if network == "ip6" {
		return nil, nil
	}
	a, err := netip.ParseAddr(host)
	return []netip.Addr{a}, err
}

// ready makes a cluster of a configuration whose hosts are known.
func ready(t testing.TB, conf *clusterv3.Cluster) (*cluster.Cluster, *stats.Registry) {
	t.Helper()
	reg, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(conf, cluster.Options{
		Registry: reg.Scope("cluster." + conf.GetName()), Hosts: reg.Hidden(), Sink: reg.Main(), Resolver: literal{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	<-c.Ready()
	cancel()
	<-done
	return c, reg
}

// hashClusters are the clusters of testdata/hashing.json.
func hashClusters(t testing.TB) map[string]*clusterv3.Cluster {
	t.Helper()
	data, err := os.ReadFile("testdata/hashing.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Clusters []json.RawMessage `json:"clusters"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*clusterv3.Cluster)
	for _, raw := range file.Clusters {
		c := &clusterv3.Cluster{}
		if err := protojson.Unmarshal(raw, c); err != nil {
			t.Fatal(err)
		}
		all[c.GetName()] = c
	}
	return all
}

// numbered is a request with the headers x-key: key-<n> and x-own: own-<n>.
type numbered int

func (n numbered) Hash(own *hashpolicy.Policy) (uint64, bool) {
	if own == nil {
		return xxhash.Sum64String(fmt.Sprintf("key-%d", n)), true
	}
	var m header.Map
	m.Add("x-own", fmt.Sprintf("own-%d", n))
	return own.Hash(&hashpolicy.Request{Head: &m})
}

// TestHashingIsEnvoys compares with what Envoy 1.40 did with the clusters of
// hashing.json: hashing.golden has, for each and the requests 0 to 23, the host
// that it chose, and its statistics.
// Proves LB-05, LB-07. Partly proves LB-06.
func TestHashingIsEnvoys(t *testing.T) {
	file, err := os.Open("testdata/hashing.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	clusters := hashClusters(t)
	pickers, rendered := map[string]Picker{}, strings.Builder{}
	for name, conf := range clusters {
		c, reg := ready(t, conf)
		pickers[name] = picking(c, reg, 1)
		snap, err := reg.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stats.Render(&rendered, snap, stats.RenderOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gauges := "\n" + rendered.String()
	wrong := map[string]int{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if name, isStat := strings.CutSuffix(f[0], ":"); isStat {
			if !strings.Contains(gauges, "\n"+lines.Text()+"\n") {
				_, got, _ := strings.Cut(gauges, "\n"+name+": ")
				got, _, _ = strings.Cut(got, "\n")
				t.Errorf("%s is %s, want %s", name, got, f[1])
			}
			continue
		}
		var n int
		if _, err := fmt.Sscan(f[1], &n); err != nil {
			t.Fatal(err)
		}
		got := "-"
		if h := pickers[f[0]].Pick(&Context{Hasher: numbered(n)}); h != nil {
			got = h.String()
		}
		if got != f[2] {
			if wrong[f[0]]++; wrong[f[0]] == 1 {
				t.Errorf("%s: request %d goes to %s, want %s", f[0], n, got, f[2])
			}
		}
	}
	if err := lines.Err(); err != nil || len(wrong) > 0 {
		t.Errorf("wrong: %v, %v", wrong, err)
	}
}
