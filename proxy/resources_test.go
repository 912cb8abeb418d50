package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// source is a Discovery that says what it was asked for.
type source struct {
	mu     sync.Mutex
	wanted map[string]bool // "<kind> <name>"
	events []string
	res    *proxy.Resources
	answer func(r *proxy.Resources, typeURL, name string)
	first  func(r *proxy.Resources) // what cluster discovery brings
	then   func(r *proxy.Resources) // what listener discovery brings
}

func newSource() *source { return &source{wanted: map[string]bool{}} }

func (s *source) Start(_ context.Context, r *proxy.Resources) error { s.res = r; return nil }

func key(typeURL, name string) string {
	return typeURL[strings.LastIndexByte(typeURL, '.')+1:] + " " + name
}

func (s *source) Want(typeURL, name string, _ *corev3.ConfigSource) {
	s.mu.Lock()
	s.wanted[key(typeURL, name)] = true
	s.events = append(s.events, "+"+key(typeURL, name))
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(s.res, typeURL, name)
	}
}

func (s *source) Unwant(typeURL, name string, _ *corev3.ConfigSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wanted, key(typeURL, name))
	s.events = append(s.events, "-"+key(typeURL, name))
}

func (s *source) Clusters(context.Context) {
	if s.first != nil {
		s.first(s.res)
	}
}

func (s *source) Listeners(context.Context) {
	if s.then != nil {
		s.then(s.res)
	}
}

func (s *source) all() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]bool{}
	for k := range s.wanted {
		out[k] = true
	}
	return out
}

// by makes a proxy use a source.
func (s *source) by(_ *proxyrun.Flags, o *proxy.Options) {
	o.Discovery, o.ListenerDrainTime = s, time.Minute
}

// namedBackend is a backend that answers with its name.
func namedBackend(t testing.TB, name string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func assignment(name string, addresses ...string) *endpointv3.ClusterLoadAssignment {
	l := &endpointv3.LocalityLbEndpoints{}
	for _, a := range addresses {
		host, port, _ := net.SplitHostPort(a)
		n, _ := strconv.Atoi(port)
		l.LbEndpoints = append(l.LbEndpoints, &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(n)},
			}}},
		}}})
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{l}}
}

func staticCluster(name string, addresses ...string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, LoadAssignment: assignment(name, addresses...)}
}

func edsCluster(name, service string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{ServiceName: service, EdsConfig: ads()},
	}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
}

func inline(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

func yes() *wrapperspb.BoolValue { return wrapperspb.Bool(true) }

// byHeader is small, with a route to the cluster that a header names.
var byHeader = strings.Replace(small, "direct_response: {status: 200, body: {inline_string: old}}", "route: {cluster_header: x-to}", 1) + adminHere

// to asks for the cluster of a name and returns the status and the body.
func (r *running) to(t *testing.T, name string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Listeners()["front"][0], nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-To", name)
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b [100]byte
	n, _ := resp.Body.Read(b[:])
	return strconv.Itoa(resp.StatusCode) + " " + string(b[:n])
}

func (r *running) expect(t *testing.T, cluster, want string) {
	t.Helper()
	got := ""
	for range 500 { // workers hear of a change a moment later
		if got = r.to(t, cluster); got == want {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("a request to %s: %q, want %q", cluster, got, want)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Proves CM-02 and CM-05: clusters come, change and go while the proxy runs;
// equal content changes nothing; a bad one leaves the last good one; those of
// the bootstrap stay.
func TestClustersComeAndGo(t *testing.T) {
	a, b := namedBackend(t, "a"), namedBackend(t, "b")
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	r.expect(t, "x", "503 ")
	must(t, res.SetCluster(staticCluster("x", a), "1"))
	r.expect(t, "x", "200 a")
	must(t, res.SetCluster(staticCluster("x", a), "2"))
	must(t, res.SetCluster(staticCluster("x", b), "3"))
	r.expect(t, "x", "200 b")
	bad := staticCluster("x", a)
	bad.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().Address = "no.address"
	if err := res.SetCluster(bad, "4"); err == nil || !strings.Contains(err.Error(), "load_assignment.endpoints[0].lb_endpoints[0].endpoint.address") {
		t.Errorf("a bad cluster: %v", err)
	}
	unbuilt := staticCluster("x", a)
	unbuilt.PerConnectionBufferHighWatermarkTimeout = durationpb.New(time.Second)
	if err := res.SetCluster(unbuilt, "5"); err == nil || !strings.Contains(err.Error(), "per_connection_buffer_high_watermark_timeout") {
		t.Errorf("a cluster with what is not built: %v", err)
	}
	r.expect(t, "x", "200 b")
	must(t, res.SetCluster(staticCluster("one", a), "6"))
	res.RemoveCluster("one")
	if got := r.to(t, "one"); !strings.HasPrefix(got, "503 upstream connect error") { // there is nobody at its address
		t.Errorf("a cluster of the bootstrap: %q", got)
	}
	res.RemoveCluster("x")
	res.RemoveCluster("never")
	r.expect(t, "x", "503 ")
	for range 300 { // its statistics go, a moment later
		if r.get(t, "/stats?filter=^cluster.x[.]") == "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := r.get(t, "/stats?filter=^cluster.x[.]"); got != "" {
		t.Errorf("a cluster that is gone is shown:\n%s", got)
	}
	want := "cluster_manager.active_clusters: 2\ncluster_manager.cluster_added: 3\ncluster_manager.cluster_modified: 1\n" +
		"cluster_manager.cluster_removed: 1\ncluster_manager.warming_clusters: 0\n"
	if got := r.get(t, "/stats?filter=^cluster_manager.(cluster_(added|modified|removed)|active_clusters|warming_clusters)$"); got != want {
		t.Errorf("statistics:\n%s", got)
	}
}

// Proves CM-04 and CM-11: a cluster whose hosts come from EDS serves when they
// have come, is replaced without waiting for them again where nobody can say that
// they were sent again, and follows them.
// Partly proves XC-43: a new cluster waits. Partly proves XC-16: endpoints are dropped
// with their cluster.
func TestEndpointsComeAndGo(t *testing.T) {
	a, b := namedBackend(t, "a"), namedBackend(t, "b")
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	must(t, res.SetEndpoints(nil, assignment("unknown", a), "0"))
	must(t, res.SetCluster(edsCluster("x", "svc"), "1"))
	if !s.all()["ClusterLoadAssignment svc"] {
		t.Fatalf("wanted: %v", s.all())
	}
	r.expect(t, "x", "503 ") // warming: not there yet
	must(t, res.SetEndpoints(ads(), assignment("svc", a), "1"))
	r.expect(t, "x", "200 a")
	must(t, res.SetEndpoints(ads(), assignment("svc", b), "2"))
	r.expect(t, "x", "200 b")
	bad := assignment("svc", a)
	bad.Endpoints[0].LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress().Address = "no.address"
	if err := res.SetEndpoints(ads(), bad, "3"); err == nil || !strings.Contains(err.Error(), "endpoints[0].lb_endpoints[0].endpoint.address") {
		t.Errorf("a bad assignment: %v", err)
	}
	other := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Self{Self: &corev3.SelfConfigSource{}}}
	must(t, res.SetEndpoints(other, assignment("svc", a), "4"))
	r.expect(t, "x", "200 b")
	next := edsCluster("x", "svc")
	next.ConnectTimeout = durationpb.New(time.Second)
	must(t, res.SetCluster(next, "2"))
	r.expect(t, "x", "200 b")
	must(t, res.SetEndpoints(ads(), &endpointv3.ClusterLoadAssignment{ClusterName: "svc"}, "5"))
	r.expect(t, "x", "503 no healthy upstream")
	res.RemoveCluster("x")
	if len(s.all()) != 0 {
		t.Errorf("still wanted: %v", s.all())
	}
	if got, want := fmt.Sprint(s.events), "[+ClusterLoadAssignment svc -ClusterLoadAssignment svc]"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// Proves BS-25, CM-04 and XC-27 (TestADS of xdsclient/configsource has the
// default): a cluster that gets no endpoints goes on without them after
// initial_fetch_timeout, or when they do not exist.
func TestEndpointsThatDoNotCome(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	x := edsCluster("x", "")
	x.EdsClusterConfig.EdsConfig.InitialFetchTimeout = durationpb.New(10 * time.Millisecond)
	must(t, res.SetCluster(x, "1"))
	for r.to(t, "x") == "503 " {
		time.Sleep(time.Millisecond)
	}
	r.expect(t, "x", "503 no healthy upstream")
	if got := r.get(t, "/stats?filter=cluster.x.init_fetch_timeout"); got != "cluster.x.init_fetch_timeout: 1\n" {
		t.Error(got)
	}
	y := edsCluster("y", "svc")
	y.EdsClusterConfig.EdsConfig.InitialFetchTimeout = durationpb.New(0)
	must(t, res.SetCluster(y, "1"))
	r.expect(t, "y", "503 ")
	res.Missing(nil, proxy.EndpointType, "svc")
	r.expect(t, "y", "503 no healthy upstream")
}

// Partly proves CM-11: endpoints with endpoint_stale_after go when nobody
// refreshes them.
func TestEndpointsGrowStale(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("x", ""), "1"))
	la := assignment("x", namedBackend(t, "a"))
	la.Policy = &endpointv3.ClusterLoadAssignment_Policy{EndpointStaleAfter: durationpb.New(300 * time.Millisecond)}
	must(t, res.SetEndpoints(nil, la, "1"))
	r.expect(t, "x", "200 a")
	r.expect(t, "x", "503 no healthy upstream")
	must(t, res.SetEndpoints(nil, la, "2"))
	r.expect(t, "x", "200 a")
}

// Proves BS-24: connections are accepted when the clusters that discovery
// brought have their endpoints.
func TestDiscoveryComesFirst(t *testing.T) {
	a := namedBackend(t, "a")
	s := newSource()
	release := make(chan struct{})
	s.first = func(r *proxy.Resources) { must(t, r.SetCluster(edsCluster("x", ""), "1")) }
	s.answer = func(r *proxy.Resources, _, name string) {
		go func() {
			<-release
			must(t, r.SetEndpoints(nil, assignment(name, a), "1"))
		}()
	}
	r := begin(t, byHeader, s.by)
	select {
	case <-r.Ready():
		t.Fatal("ready without endpoints")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	<-r.Ready()
	r.expect(t, "x", "200 a")
}

// Proves CM-01 in part: an EDS cluster whose source is nowhere is refused.
func TestDiscoveryIsRefusedWithoutASource(t *testing.T) {
	loaded, o, _ := load(t, strings.Replace(byHeader, "  - name: none", `  - {name: e, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}
  - name: none`, 1))
	_, err := proxy.New(loaded.Bootstrap, o)
	if err == nil || !strings.Contains(err.Error(), "eds_cluster_config.eds_config.ads: the bootstrap has no dynamic_resources.ads_config") {
		t.Errorf("%v", err)
	}
}

// What is wrong with where discovery is to begin is told, whatever refers to it.
func TestDiscoveryThatCannotBegin(t *testing.T) {
	for name, refers := range map[string]string{
		"endpoints": `{name: e, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}`,
		"a secret": `{name: e, transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext,
      common_tls_context: {tls_certificate_sds_secret_configs: [{name: s, sds_config: {ads: {}}}]}}}}`,
	} {
		loaded, o, _ := load(t, `
dynamic_resources:
  ads_config: {api_type: GRPC, grpc_services: [{envoy_grpc: {cluster_name: gone}}]}
static_resources:
  clusters:
  - `+refers+"\n")
		_, err := proxy.New(loaded.Bootstrap, o)
		if err == nil || !strings.Contains(err.Error(), "dynamic_resources.ads_config.grpc_services[0]: envoy_grpc.cluster_name: static_resources has no cluster 'gone'") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Proves BS-17: unknown fields of what is discovered count and are warned of, or
// only count, or refuse it.
func TestUnknownFieldsOfResources(t *testing.T) {
	odd := edsCluster("x", "")
	odd.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 4001, protowire.VarintType), 1))
	const text = "type envoy.config.cluster.v3.Cluster with unknown field set {4001}"
	for _, c := range []struct {
		name            string
		reject, silent  bool
		counts, refuses bool
		warns           bool
	}{
		{name: "accepted", counts: true, warns: true},
		{name: "ignored", silent: true, counts: true},
		{name: "rejected", reject: true, refuses: true},
		{name: "both", reject: true, silent: true, refuses: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSource()
			r := begin(t, byHeader, s.by, func(f *proxyrun.Flags, _ *proxy.Options) {
				f.RejectUnknownDynamicFields, f.IgnoreUnknownDynamicFields = c.reject, c.silent
			})
			<-r.Ready()
			err := r.Resources().SetCluster(odd, "1")
			if refused := err != nil && strings.Contains(err.Error(), "Protobuf message ("+text+") has unknown fields"); refused != c.refuses || refused != (err != nil) {
				t.Errorf("%v", err)
			}
			if got := r.get(t, "/stats?filter=^server.dynamic_unknown_fields$"); (got == "server.dynamic_unknown_fields: 1\n") != c.counts || c.refuses && got != "server.dynamic_unknown_fields: 0\n" {
				t.Error(got)
			}
			if warned := strings.Contains(r.log.String(), "Unknown field: "+text); warned != c.warns {
				t.Errorf("warned: %t", warned)
			}
		})
	}
}

// Proves CM-31: a load-balancing policy that is unknown or not built refuses its
// cluster by name, and no other.
func TestPoliciesThatAreNotBuilt(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	old, extension := staticCluster("old", "127.0.0.1:1"), staticCluster("extension", "127.0.0.1:1")
	old.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	extension.LoadBalancingPolicy = &clusterv3.LoadBalancingPolicy{Policies: []*clusterv3.LoadBalancingPolicy_Policy{
		{TypedExtensionConfig: &corev3.TypedExtensionConfig{Name: "mine", TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/my.Policy"}}},
	}}
	for want, c := range map[string]*clusterv3.Cluster{"lb_policy": old, "my.Policy": extension} {
		if err := r.Resources().SetCluster(c, "1"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.GetName()) {
			t.Errorf("%s: %v", c.GetName(), err)
		}
	}
	must(t, r.Resources().SetCluster(staticCluster("good", namedBackend(t, "good")), "1"))
	r.expect(t, "good", "200 good")
	r.expect(t, "old", "503 ")
}
