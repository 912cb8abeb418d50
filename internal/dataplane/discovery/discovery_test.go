package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// management is a management server on loopback.
type management struct {
	srv  *xdsserver.Server
	addr string
}

func manage(t *testing.T, more ...grpc.ServerOption) *management {
	t.Helper()
	srv, err := xdsserver.New()
	if err != nil {
		t.Fatal(err)
	}
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(append(srv.GRPCOptions(), more...)...)
	srv.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &management{srv, lis.Addr().String()}
}

func (m *management) apply(t *testing.T, c snapshot.Changes) {
	t.Helper()
	if err := m.srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: c}}); err != nil {
		t.Fatal(err)
	}
}

func resource(t *testing.T, name string, m proto.Message) *xds.Resource {
	t.Helper()
	r, err := xds.Marshal(name, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// target writes down what it is told. What is called "bad…" it refuses.
type target struct {
	mu  sync.Mutex
	log []string
	// missing gets what is missing, if it is not nil; then nothing is noted.
	missing chan string
	// refused is a name that is refused, for now.
	refused string
}

func (g *target) refuses(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused != "" && name == g.refused
}

func (g *target) refuse(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = name
}

func (g *target) note(format string, args ...any) {
	if g.missing != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, fmt.Sprintf(format, args...))
}

func (g *target) set(kind, name, version string) error {
	if strings.HasPrefix(name, "bad") || g.refuses(name) {
		g.note("refuse %s %s", kind, name)
		return errors.New("field: I do not like it")
	}
	if version == "" {
		return errors.New("there is no version")
	}
	g.note("set %s %s", kind, name)
	return nil
}

func (g *target) SetCluster(c *clusterv3.Cluster, version string) error {
	return g.set("cluster", c.GetName(), version)
}
func (g *target) RemoveCluster(name string) { g.note("remove cluster %s", name) }
func (g *target) SetListener(l *listenerv3.Listener, version string) error {
	return g.set("listener", l.GetName(), version)
}
func (g *target) RemoveListener(name string) { g.note("remove listener %s", name) }
func (g *target) Leaving(listeners []string) {
	if len(listeners) > 0 {
		g.note("leaving %s", strings.Join(listeners, " "))
	}
}

func (g *target) SetEncodedEndpoints(_ *corev3.ConfigSource, la *endpointv3.ClusterLoadAssignment, _ []byte, version string) error {
	name := la.GetClusterName()
	for key := range la.GetNamedEndpoints() { // which tells them apart
		name = key + " of " + name[strings.LastIndexByte(name, '/')+1:]
	}
	return g.set("endpoints", name, version)
}

func (g *target) CheckLocalityEndpoint(e *endpointv3.LbEndpoint) error {
	if e.GetEndpoint().GetHostname() == "bad" {
		return errors.New("field: I do not like it")
	}
	return nil
}

func (g *target) SetLocalityEndpoints(_ *corev3.ConfigSource, collection string, changes []LocalityEndpoint, _ string) error {
	var list []string
	for _, c := range changes {
		name, sign := c.Name[strings.LastIndexByte(c.Name, '/')+1:], ""
		switch {
		case c.Config != nil:
			sign = "+" + c.Config.GetEndpoint().GetHostname() + "@"
		case c.Gone:
			sign = "-"
		}
		if c.Refused != nil {
			sign += "!"
		}
		list = append(list, sign+name)
	}
	if len(list) > 100 {
		list = []string{fmt.Sprint(len(list), " changes")}
	}
	collection = strings.TrimSuffix(collection, "/*")
	g.note("endpoints of %s: %s", collection[strings.LastIndexByte(collection, '/')+1:], strings.Join(list, " "))
	return nil
}

func (g *target) SetRoutes(_ *corev3.ConfigSource, rc *routev3.RouteConfiguration, version string) error {
	return g.set("routes", rc.GetName(), version)
}

func (g *target) SetScopedRoutes(_ *corev3.ConfigSource, set []*routev3.ScopedRouteConfiguration, removed []string, version string) error {
	names := []string{}
	for _, s := range set {
		names = append(names, s.GetName()+"="+s.GetKey().GetFragments()[0].GetStringKey())
	}
	slices.Sort(names)
	slices.Sort(removed)
	if len(names) > 0 && strings.HasPrefix(names[0], "bad") {
		g.note("refuse scopes %v", names)
		return errors.New("field: I do not like it")
	}
	if version == "" {
		return errors.New("there is no version")
	}
	g.note("set scopes %v, remove %v", names, removed)
	return nil
}

func (g *target) SetSecret(_ *corev3.ConfigSource, s *tlsv3.Secret, version string) error {
	return g.set("secret", s.GetName(), version)
}

func (g *target) SetRuntime(_ *corev3.ConfigSource, rt *runtimev3.Runtime, version string) error {
	return g.set("runtime", rt.GetName(), version)
}

func (g *target) SetExtension(_ *corev3.ConfigSource, c *corev3.TypedExtensionConfig, version string) error {
	return g.set("extension", c.GetName(), version)
}

func (g *target) SetVirtualHosts(_ *corev3.ConfigSource, table string, changes []VirtualHost) error {
	var names []string
	for _, c := range changes {
		if strings.HasPrefix(c.Config.GetName(), "bad") {
			g.note("refuse %s of %s", c.Name, table)
			return errors.New("the domain is taken")
		}
		sign := "+"
		if c.Config == nil {
			sign = "-"
		}
		names = append(names, sign+c.Name)
	}
	slices.Sort(names)
	g.note("hosts of %s: %s", table, strings.Join(names, " "))
	return nil
}

func (g *target) Answered(_ *corev3.ConfigSource, table, _ string, err error) {
	g.note("answered %s: %t", table, err == nil)
}

func (g *target) Resolved(_ *corev3.ConfigSource, typeURL, name string) {
	g.note("resolved %s %s", xds.Kind(typeURL), name)
}

func (g *target) Accepted(typeURL, version string) {
	if version != "" {
		g.note("accepted %s", xds.Kind(typeURL))
	}
}

func (g *target) Refused(_ *corev3.ConfigSource, typeURL, name string) {
	g.note("refused %s %s", xds.Kind(typeURL), name)
}

func (g *target) Missing(_ *corev3.ConfigSource, typeURL, name string) {
	if g.missing != nil {
		g.missing <- name
	}
	g.note("missing %s %s", xds.Kind(typeURL), name)
}

func (g *target) Failed(_ *corev3.ConfigSource, typeURL, name string) {
	g.note("failed %s %s", xds.Kind(typeURL), name)
}

// until waits for a line.
func (g *target) until(t *testing.T, line string) {
	t.Helper()
	for range 500 {
		g.mu.Lock()
		ok := slices.Contains(g.log, line)
		g.mu.Unlock()
		if ok {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%q does not come; the log is %q", line, g.log)
}

func bootstrap(t *testing.T, text string) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{}
	if err := protojson.Unmarshal([]byte(text), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func dynamic(apiType, source string) string {
	return fmt.Sprintf(`{"node": {"id": "n"}, "dynamicResources": {"cdsConfig": %[2]s, "ldsConfig": %[2]s,
		"adsConfig": {"apiType": %[1]q, "transportApiVersion": "V3", "setNodeOnFirstMessageOnly": true, "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}}`, apiType, source)
}

// start runs a Discovery until the test ends.
func start(t *testing.T, b *bootstrapv3.Bootstrap, addr string, g *target) *Discovery {
	t.Helper()
	return startWith(t, b, addr, g, func(*Config) {})
}

func startWith(t *testing.T, b *bootstrapv3.Bootstrap, addr string, g *target, change func(*Config)) *Discovery {
	t.Helper()
	reg, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Bootstrap: b, Stats: reg, Logger: slog.New(slog.DiscardHandler), Cluster: func(name string) bool { return name == "xds" },
		Dial: func(ctx context.Context, name, _ string) (net.Conn, bool, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return c, name == "xds", err
		},
	}
	change(&cfg)
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.Start(ctx, g)
	t.Cleanup(func() {
		cancel()
		d.Wait()
	})
	return d
}

// Each variant of gRPC brings clusters, endpoints, listeners and routes, changes
// and removals; what is refused is told to the server by name, and the rest of
// its response is used; what nobody wants any more is given up.
// Proves BS-26 with TestREST, TestFiles and TestSelf. Proves LM-09.
// Proves XC-16 with TestListenerWaitsForItsRoutes of the proxy, whose listeners drop
// their routes: the name of what nobody refers to is unsubscribed, of each type.
func TestVariants(t *testing.T) {
	api := func(kind string) string {
		return fmt.Sprintf(`{"apiConfigSource": {"apiType": %q, "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}`, kind)
	}
	for name, c := range map[string]struct{ ads, source string }{
		"ads":              {"GRPC", `{"ads": {}}`},
		"delta ads":        {"DELTA_GRPC", `{"ads": {}}`},
		"grpc":             {"GRPC", api("GRPC")},
		"delta":            {"GRPC", api("DELTA_GRPC")},
		"aggregated":       {"GRPC", api("AGGREGATED_GRPC")},
		"aggregated delta": {"GRPC", api("AGGREGATED_DELTA_GRPC")},
	} {
		t.Run(name, func(t *testing.T) {
			m := manage(t)
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{
				resource(t, "a", &clusterv3.Cluster{Name: "a"}), resource(t, "bad", &clusterv3.Cluster{Name: "bad"}),
				resource(t, "l", &listenerv3.Listener{Name: "l"}), resource(t, "bad", &listenerv3.Listener{Name: "bad"}),
				resource(t, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a"}),
				resource(t, "r", &routev3.RouteConfiguration{Name: "r"}), resource(t, "s", &tlsv3.Secret{Name: "s"}),
				resource(t, "x", &corev3.TypedExtensionConfig{Name: "x"}), resource(t, "rt", &runtimev3.Runtime{Name: "rt"}),
			}})
			g := &target{}
			b := bootstrap(t, dynamic(c.ads, c.source))
			d := start(t, b, m.addr, g)
			d.Clusters(t.Context())
			g.until(t, "set cluster a")
			g.until(t, "refuse cluster bad")
			cs := b.GetDynamicResources().GetCdsConfig()
			d.Want(xds.EndpointType, "a", cs)
			g.until(t, "set endpoints a")
			d.Listeners(t.Context())
			g.until(t, "set listener l")
			g.until(t, "refuse listener bad")
			rejected(t, m, xds.ListenerType, "bad")
			d.Want(xds.RouteType, "r", cs)
			g.until(t, "set routes r")
			d.Want(xds.SecretType, "s", cs)
			g.until(t, "set secret s")
			d.Want(xds.ExtensionConfigType, "x", cs)
			g.until(t, "set extension x")
			d.Want(xds.RuntimeType, "rt", cs)
			g.until(t, "set runtime rt")
			m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "b", &clusterv3.Cluster{Name: "b"})}})
			g.until(t, "set cluster b")
			m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "b"}, {Type: xds.ListenerType, Name: "l"}}})
			g.until(t, "remove cluster b")
			g.until(t, "remove listener l")
			for typeURL, name := range map[string]string{
				xds.EndpointType: "a", xds.RouteType: "r", xds.SecretType: "s", xds.ExtensionConfigType: "x", xds.RuntimeType: "rt",
			} {
				d.Unwant(typeURL, name, cs)
				given(t, m, typeURL)
			}
			rejected(t, m, xds.ClusterType, "bad")
		})
	}
}

// The same by REST, where the server is asked again and again, and told of what
// is refused too.
func TestREST(t *testing.T) {
	m := manage(t)
	web := httptest.NewServer(m.srv.RESTHandler())
	t.Cleanup(web.Close)
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{
		resource(t, "a", &clusterv3.Cluster{Name: "a"}), resource(t, "bad", &clusterv3.Cluster{Name: "bad"}),
		resource(t, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a"}),
	}})
	g := &target{}
	b := bootstrap(t, `{"node": {"id": "n"}, "dynamicResources": {"cdsConfig": {"apiConfigSource": {
		"apiType": "REST", "transportApiVersion": "V3", "clusterNames": ["xds"], "refreshDelay": "0.02s"}}}}`)
	d := start(t, b, web.Listener.Addr().String(), g)
	d.Clusters(t.Context())
	g.until(t, "set cluster a")
	d.Want(xds.EndpointType, "a", b.GetDynamicResources().GetCdsConfig())
	g.until(t, "set endpoints a")
	rejected(t, m, xds.ClusterType, "bad")
	m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "a"}}})
	g.until(t, "remove cluster a")
}

// The same from files, which are replaced by moving others onto them.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name+".new"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cluster := func(name string) string {
		return `{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: ` + name + "}"
	}
	write("cds.yaml", "version_info: '1'\nresources: ["+cluster("a")+", "+cluster("bad")+"]")
	write("eds.yaml", `version_info: "7"
resources: [{"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: a}]`)
	g := &target{}
	b := bootstrap(t, `{"dynamicResources": {"cdsConfig": {"pathConfigSource": {"path": "`+filepath.Join(dir, "cds.yaml")+`"}}}}`)
	d := start(t, b, "", g)
	d.Clusters(t.Context())
	g.until(t, "set cluster a")
	g.until(t, "refuse cluster bad")
	eds := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: filepath.Join(dir, "eds.yaml")}}}
	d.Want(xds.EndpointType, "a", eds)
	g.until(t, "set endpoints a")
	write("cds.yaml", "version_info: '2'\nresources: ["+cluster("b")+"]")
	g.until(t, "set cluster b")
	g.until(t, "remove cluster a")
}

// rejected waits until the server knows that a resource was rejected, and why.
func rejected(t *testing.T, m *management, typeURL, name string) {
	t.Helper()
	refused(t, m, typeURL, name, "I do not like it")
}

// refused waits until the server knows that a resource was rejected, for a reason.
func refused(t *testing.T, m *management, typeURL, name, why string) {
	t.Helper()
	await(t, m, "rejected "+name, func(ty *xdsserver.TypeStatus) bool {
		n := ty.Nack
		return ty.TypeURL == typeURL && n != nil && strings.Contains(fmt.Sprint(*n), name) && strings.Contains(fmt.Sprint(*n), why)
	})
}

// given waits until the server knows that nothing of a type is wanted any more:
// the subscription is empty, or the stream for it has ended.
func given(t *testing.T, m *management, typeURL string) {
	t.Helper()
	for range 500 {
		names := 0
		for _, c := range m.srv.Clients() {
			for _, ty := range c.Types {
				if ty.TypeURL == typeURL {
					names += ty.Names
				}
			}
		}
		if names == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s is still subscribed to", typeURL)
}

// await waits until the server knows something of a type of a client.
func await(t *testing.T, m *management, what string, known func(*xdsserver.TypeStatus) bool) {
	t.Helper()
	for range 500 {
		for _, c := range m.srv.Clients() {
			for i := range c.Types {
				if known(&c.Types[i]) {
					return
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the server does not know: %s: %+v", what, m.srv.Clients())
}

// Two that want the same share a subscription, and both have it.
func TestSharedWant(t *testing.T) {
	m := manage(t)
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a"})}})
	g := &target{}
	d := start(t, bootstrap(t, dynamic("DELTA_GRPC", `{"ads": {}}`)), m.addr, g)
	first := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
	second := proto.Clone(first).(*corev3.ConfigSource)
	d.Want(xds.EndpointType, "a", first)
	g.until(t, "set endpoints a")
	d.Want(xds.EndpointType, "a", second)
	d.Unwant(xds.EndpointType, "a", first)
	d.Want(xds.EndpointType, "gone", first)
	g.until(t, "missing ClusterLoadAssignment gone")
	g.mu.Lock()
	n := 0
	for _, l := range g.log {
		if l == "set endpoints a" {
			n++
		}
	}
	g.mu.Unlock()
	if n != 2 {
		t.Errorf("the assignment was set %d times, want 2: %q", n, g.log)
	}
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a", Policy: &endpointv3.ClusterLoadAssignment_Policy{}})}})
	for range 500 {
		if len(g.lines()) > 3 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("a change does not come: %q", g.lines())
}

func (g *target) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.log)
}

// A server that says nothing is waited for until initial_fetch_timeout, which is
// counted. Partly proves BS-25 and XC-27: for clusters.
func TestSilentServer(t *testing.T) {
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	d := start(t, bootstrap(t, dynamic("GRPC", `{"ads": {}, "initialFetchTimeout": "0.2s"}`)), lis.Addr().String(), &target{})
	began := time.Now()
	d.Clusters(t.Context())
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("it waited %v", took)
	}
	snap, err := d.cfg.Stats.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := snap.Counter(d.cfg.Stats.Scope("cluster_manager.cds").Counter("init_fetch_timeout")); n != 1 {
		t.Errorf("init_fetch_timeout is %d, want 1", n)
	}
}

// What is wrong or not built is refused by its field's name.
func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		dynamic("REST", `{"ads": {}}`):                                                                                                  "dynamic_resources.ads_config.cluster_names: name the cluster",
		dynamic("GRPC", `{"path": "x"}`):                                                                                                "dynamic_resources.cds_config.path_config_source: ",
		dynamic("GRPC", `{"self": {}}`):                                                                                                 "dynamic_resources.lds_config.self: ",
		dynamic("GRPC", `{}`):                                                                                                           "dynamic_resources.cds_config.config_source_specifier: is not set",
		`{"dynamicResources": {"cdsConfig": {"ads": {}}}}`:                                                                              "dynamic_resources.cds_config.ads: the bootstrap has no dynamic_resources.ads_config",
		strings.Replace(dynamic("GRPC", `{"ads": {}}`), `"xds"`, `"other"`, 1):                                                          "ads_config.grpc_services[0]: envoy_grpc.cluster_name: static_resources has no cluster 'other'",
		strings.Replace(dynamic("GRPC", `{"ads": {}}`), `"V3"`, `"V2"`, 1):                                                              "ads_config.transport_api_version: V2",
		`{"dynamicResources": {"adsConfig": {"apiType": "GRPC"}}}`:                                                                      "ads_config.grpc_services: name the service",
		`{"dynamicResources": {"cdsResourcesLocator": "xdstp:///x"}}`:                                                                   "cds_resources_locator",
		`{"dynamicResources": {"adsConfig": {"apiType": "GRPC", "grpcServices": [{}]}}}`:                                                "ads_config.grpc_services[0]: target_specifier",
		`{"dynamicResources": {"adsConfig": {"apiType": "GRPC", "configValidators": [{}]}}}`:                                            "ads_config.config_validators",
		`{"dynamicResources": {"cdsConfig": {"apiConfigSource": {"apiType": "REST", "clusterNames": ["xds"]}}}}`:                        "cds_config.api_config_source.refresh_delay: is required",
		`{"dynamicResources": {"cdsConfig": {"apiConfigSource": {"apiType": "REST", "clusterNames": ["gone"], "refreshDelay": "1s"}}}}`: "cds_config.api_config_source.cluster_names[0]: static_resources has no cluster 'gone'",
	} {
		reg, err := stats.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{Bootstrap: bootstrap(t, text), Stats: reg, Cluster: func(name string) bool { return name == "xds" }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v, want %s", text, err, want)
		}
	}
}
