package peers

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// world is what a proxy is to have.
type world map[resource.Type][]types.Resource

func parse[M proto.Message](t *testing.T, m M, text string) M {
	t.Helper()
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m
}

func endpointJSON(addr string) string {
	host, port, _ := net.SplitHostPort(addr)
	return fmt.Sprintf(`{"endpoint": {"address": {"socketAddress": {"address": %q, "portValue": %s}}}}`, host, port)
}

// leading is a listener that leads everything to a backend.
func leading(t *testing.T, listen, backend string) world {
	t.Helper()
	host, port, _ := net.SplitHostPort(listen)
	return world{
		resource.ClusterType:  {parse(t, &clusterv3.Cluster{}, `{"name": "c", "type": "EDS", "edsClusterConfig": {"edsConfig": {"ads": {}, "resourceApiVersion": "V3"}}}`)},
		resource.EndpointType: {parse(t, &endpointv3.ClusterLoadAssignment{}, `{"clusterName": "c", "endpoints": [{"lbEndpoints": [`+endpointJSON(backend)+`]}]}`)},
		resource.RouteType: {parse(t, &routev3.RouteConfiguration{}, `{"name": "r", "virtualHosts": [{"name": "v", "domains": ["*"],
			"routes": [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}]}]}`)},
		resource.ListenerType: {parse(t, &listenerv3.Listener{}, `{"name": "l", "address": {"socketAddress": {"address": "`+host+`", "portValue": `+port+`}},
			"filterChains": [{"filters": [{"name": "hcm", "typedConfig": {
				"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "statPrefix": "in",
				"rds": {"routeConfigName": "r", "configSource": {"ads": {}, "resourceApiVersion": "V3"}},
				"httpFilters": [{"name": "router", "typedConfig": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`)},
	}
}

// caches are the library's, each with how to set what it holds.
func caches() map[string]func() (cache.Cache, func(t *testing.T, version int, w world)) {
	return map[string]func() (cache.Cache, func(*testing.T, int, world)){
		"snapshot": func() (cache.Cache, func(*testing.T, int, world)) {
			c := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
			return c, func(t *testing.T, version int, w world) {
				t.Helper()
				s, err := cache.NewSnapshot(fmt.Sprint(version), w)
				if err == nil {
					err = c.SetSnapshot(t.Context(), nodeID, s)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		},
		"mux of linear": func() (cache.Cache, func(*testing.T, int, world)) {
			mux := &cache.MuxCache{
				Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
				ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
				Caches:        map[string]cache.Cache{},
			}
			linear := map[string]*cache.LinearCache{}
			for _, typeURL := range []string{resource.ClusterType, resource.EndpointType, resource.RouteType, resource.ListenerType} {
				linear[typeURL] = cache.NewLinearCache(typeURL)
				mux.Caches[typeURL] = linear[typeURL]
			}
			return mux, func(_ *testing.T, _ int, w world) {
				for typeURL, list := range w {
					linear[typeURL].SetResources(byName(list))
				}
			}
		},
	}
}

// nacks are what clients said of what they refused.
type nacks struct {
	mu   sync.Mutex
	said []string
}

func (n *nacks) callbacks() server.Callbacks {
	note := func(what string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.said = append(n.said, what)
	}
	return server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discoveryv3.DiscoveryRequest) error {
			if e := r.GetErrorDetail(); e != nil {
				note(r.GetTypeUrl() + " " + e.GetMessage())
			}
			return nil
		},
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			if e := r.GetErrorDetail(); e != nil {
				note(r.GetTypeUrl() + " " + e.GetMessage())
			}
			return nil
		},
	}
}

func (n *nacks) has(words ...string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.said {
		all := true
		for _, w := range words {
			all = all && strings.Contains(s, w)
		}
		if all {
			return nil
		}
	}
	return fmt.Errorf("the server was told %q", n.said)
}

// eventually waits until there is no error.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-poll.C {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func named(t *testing.T, name string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func free(t *testing.T) string {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().String()
}

// build makes the program.
func build(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "xebec")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", to, "./cmd/xebec")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return to
}

// runProxy starts the proxy on a server by ADS, until the test ends.
func runProxy(t *testing.T, program, addr, apiType string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.yaml")
	text := fmt.Sprintf(`node: {id: %s, cluster: test}
dynamic_resources:
  ads_config: {api_type: %s, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - {name: xds, type: STATIC, http2_protocol_options: {}, load_assignment: {cluster_name: xds, endpoints: [{lb_endpoints: [%s]}]}}
`, nodeID, apiType, endpointJSON(addr))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command(program, "proxy", "-c", file, "--concurrency", "1", "--drain-time-s", "0")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("xebec proxy: %v\n%s", err, out.String())
		}
	})
}

// The proxy runs unchanged on the library's server, by ADS in both variants and
// on each of its caches: it routes, follows changes, and tells of what it
// refuses, while what was good stays.
func TestProxyOnGoControlPlane(t *testing.T) {
	program := build(t)
	for name, open := range caches() {
		for _, apiType := range []string{"GRPC", "DELTA_GRPC"} {
			t.Run(name+" "+apiType, func(t *testing.T) { follow(t, program, apiType, open) })
		}
	}
}

func follow(t *testing.T, program, apiType string, open func() (cache.Cache, func(*testing.T, int, world))) {
	t.Helper()
	c, set := open()
	listen, a, b := free(t), named(t, "a"), named(t, "b")
	set(t, 1, leading(t, listen, a))
	var refused nacks
	p := startWith(t, "127.0.0.1:0", c, refused.callbacks())
	t.Cleanup(p.stop)
	runProxy(t, program, p.addr, apiType)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answers := func(want string) {
		t.Helper()
		eventually(t, "the proxy answers "+want, func() error {
			body, err := get(t.Context(), client, "http://"+listen+"/")
			if err == nil && body != want {
				err = fmt.Errorf("it answers %q", body)
			}
			return err
		})
	}
	answers("a")

	set(t, 2, leading(t, listen, b))
	answers("b")

	bad := leading(t, listen, a)
	bad = maps.Clone(bad)
	bad[resource.ClusterType] = append(bad[resource.ClusterType], parse(t, &clusterv3.Cluster{}, `{"name": "bad", "lbPolicy": "CLUSTER_PROVIDED"}`))
	set(t, 3, bad)
	eventually(t, "the server hears of it", func() error { return refused.has(resource.ClusterType, "bad", "lb_policy") })
	answers("a") // what is good of it

	set(t, 4, leading(t, listen, b))
	answers("b")
}

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
