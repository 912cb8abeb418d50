package proxy_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

const webEndpoints = "xdstp://a/envoy.config.endpoint.v3.LbEndpoint/"

// collected is an assignment whose localities have their endpoints of collections.
func collected(name string, timeout time.Duration, collections ...string) *endpointv3.ClusterLoadAssignment {
	la := &endpointv3.ClusterLoadAssignment{ClusterName: name}
	for _, c := range collections {
		source := ads()
		source.InitialFetchTimeout = durationpb.New(timeout)
		la.Endpoints = append(la.Endpoints, &endpointv3.LocalityLbEndpoints{
			Locality: &corev3.Locality{Zone: c},
			LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{
				LedsConfig: source, LedsCollectionName: webEndpoints + c + "/*",
			}},
		})
	}
	return la
}

// come brings endpoints of a collection by their names.
func come(t *testing.T, r *proxy.Resources, collection string, addresses map[string]string, gone ...string) {
	t.Helper()
	must(t, r.SetLocalityEndpoints(ads(), webEndpoints+collection+"/*", changesOf(collection, addresses, gone...), "v"))
}

func changesOf(collection string, addresses map[string]string, gone ...string) (list []proxy.LocalityEndpoint) {
	for name, a := range addresses {
		e := assignment("", a).GetEndpoints()[0].GetLbEndpoints()[0]
		list = append(list, proxy.LocalityEndpoint{Name: webEndpoints + collection + "/" + name, Version: "v", Config: e})
	}
	for _, name := range gone {
		list = append(list, proxy.LocalityEndpoint{Name: webEndpoints + collection + "/" + name, Gone: true})
	}
	return list
}

// counted is how many connections the proxy has opened to a host, which "" is not
// there.
func (r *running) counted(t *testing.T, address string) string {
	t.Helper()
	for line := range strings.Lines(r.get(t, "/clusters")) {
		if n, ok := strings.CutPrefix(line, "x::"+address+"::cx_total::"); ok {
			return strings.TrimSpace(n)
		}
	}
	return ""
}

// A cluster whose endpoints come by themselves serves when all its collections have
// come; from then on a change of one is a change of one host, and the others keep
// their connections and counts. What is refused leaves what was there, and is shown
// by name. An assignment that names another collection is in force when that has
// come. Partly proves XN-29. Partly proves CM-04.
func TestLocalityEndpoints(t *testing.T) {
	a, b, c := namedBackend(t, "a"), namedBackend(t, "b"), namedBackend(t, "c")
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("x", "svc"), "1"))
	must(t, res.SetEndpoints(ads(), collected("svc", 0, "one", "two"), "1"))
	if w := s.all(); !w["LbEndpoint "+webEndpoints+"one/*"] || !w["LbEndpoint "+webEndpoints+"two/*"] {
		t.Fatalf("wanted: %v", w)
	}
	come(t, res, "one", map[string]string{"1": a})
	r.expect(t, "x", "503 ") // the second is waited for
	res.Missing(ads(), proxy.LocalityEndpointType, webEndpoints+"two/*")
	r.expect(t, "x", "200 a")
	come(t, res, "one", map[string]string{"2": b})
	r.expect(t, "x", "200 b")
	before := r.counted(t, a)
	come(t, res, "one", map[string]string{"2": c})
	r.expect(t, "x", "200 c")
	if after := r.counted(t, a); before == "" || after < before || r.counted(t, b) != "" {
		t.Errorf("connections to the host that stayed: %q, %q before; to the one that is gone: %q", after, before, r.counted(t, b))
	}
	refused := []proxy.LocalityEndpoint{{Name: webEndpoints + "one/2", Refused: errors.New("endpoint.address: bad")}}
	must(t, res.SetLocalityEndpoints(ads(), webEndpoints+"one/*", refused, "v"))
	r.expect(t, "x", "200 c")
	const says = `endpoint \"xdstp://a/envoy.config.endpoint.v3.LbEndpoint/one/2\" of \"xdstp://a/envoy.config.endpoint.v3.LbEndpoint/one/*\": endpoint.address: bad`
	if got := r.get(t, "/config_dump?include_eds"); !strings.Contains(got, says) || !strings.Contains(got, c[strings.LastIndexByte(c, ':')+1:]) {
		t.Errorf("the dump:\n%s", got)
	}
	come(t, res, "one", nil, "1")
	come(t, res, "one", map[string]string{"2": c})
	if got := r.counted(t, a); got != "" {
		t.Errorf("the host that is gone has opened %q", got)
	}
	if got := r.get(t, "/config_dump?include_eds"); strings.Contains(got, "error_state") {
		t.Errorf("the dump after that was made good:\n%s", got)
	}
	must(t, res.SetEndpoints(ads(), collected("svc", 0, "three"), "2"))
	r.expect(t, "x", "200 c") // until it has come
	come(t, res, "three", map[string]string{"1": b})
	r.expect(t, "x", "200 b")
	if w := s.all(); w["LbEndpoint "+webEndpoints+"one/*"] || !w["LbEndpoint "+webEndpoints+"three/*"] {
		t.Errorf("wanted: %v", w)
	}
	next := edsCluster("x", "svc")
	next.ConnectTimeout = durationpb.New(time.Second)
	must(t, res.SetCluster(next, "2")) // does not wait for what is there
	r.expect(t, "x", "200 b")
	const want = "cluster.x.leds.init_fetch_timeout: 0\ncluster.x.leds.update_attempt: 11\ncluster.x.leds.update_empty: 1\n" +
		"cluster.x.leds.update_failure: 0\ncluster.x.leds.update_rejected: 1\ncluster.x.leds.update_success: 6\n"
	if got := r.get(t, `/stats?filter=^cluster\.x\.leds\.(init|update_[aefrs])`); got != want {
		t.Errorf("statistics:\n%s", got)
	}
	must(t, res.SetEndpoints(ads(), assignment("svc", a), "3"))
	r.expect(t, "x", "200 a")
	res.RemoveCluster("x")
	if len(s.all()) != 0 {
		t.Errorf("still wanted: %v", s.all())
	}
}

// A cluster does not wait for a collection longer than its initial_fetch_timeout, and
// has the endpoints of the others then. Partly proves XN-29 and BS-25.
func TestLocalityEndpointsThatDoNotCome(t *testing.T) {
	a := namedBackend(t, "a")
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("x", "svc"), "1"))
	must(t, res.SetEndpoints(ads(), collected("svc", 300*time.Millisecond, "one", "two"), "1"))
	come(t, res, "one", map[string]string{"1": a})
	r.expect(t, "x", "503 ")
	r.becomesStat(t, "cluster.x.leds.init_fetch_timeout", "1")
	r.expect(t, "x", "200 a")
	come(t, res, "two", map[string]string{"1": namedBackend(t, "b")})
	r.expect(t, "x", "200 b")
}

// What cannot be a collection is refused, and leaves the former assignment. Partly
// proves XN-29.
func TestBadLocalities(t *testing.T) {
	a := namedBackend(t, "a")
	r := start(t, byHeader, newSource().by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("x", "svc"), "1"))
	must(t, res.SetEndpoints(ads(), assignment("svc", a), "1"))
	named := func(name string) *endpointv3.ClusterLoadAssignment {
		la := collected("svc", 0, "one")
		la.Endpoints[0].GetLedsClusterLocalityConfig().LedsCollectionName = name
		return la
	}
	both := collected("svc", 0, "one")
	both.Endpoints[0].LbEndpoints = assignment("svc", a).GetEndpoints()[0].GetLbEndpoints()
	without := collected("svc", 0, "one")
	without.Endpoints[0].GetLedsClusterLocalityConfig().LedsConfig = nil
	for want, la := range map[string]*endpointv3.ClusterLoadAssignment{
		"endpoints[0].leds_cluster_locality_config.leds_collection_name: ":                          named("one"),
		`"` + webEndpoints + `one" is no glob collection: write a name that ends in /*`:             named(webEndpoints + "one"),
		"envoy.config.cluster.v3.Cluster":                                                           named("xdstp://a/envoy.config.cluster.v3.Cluster/*"),
		"endpoints[0].leds_cluster_locality_config.leds_config: a config source is needed":          without,
		"endpoints[0].lb_endpoints: the locality has leds_cluster_locality_config (xdstp://a/envoy": both,
	} {
		if err := res.SetEndpoints(ads(), la, "2"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	static := staticCluster("y", a)
	static.LoadAssignment = collected("y", 0, "one")
	if err := res.SetCluster(static, "1"); err == nil || !strings.Contains(err.Error(), "load_assignment.endpoints[0].leds_cluster_locality_config: only an assignment that comes by EDS") {
		t.Errorf("a static cluster: %v", err)
	}
	for name, e := range map[string]*endpointv3.LbEndpoint{
		"endpoint.address:": assignment("", "a.name:80").GetEndpoints()[0].GetLbEndpoints()[0],
		"endpoint_name":     {HostIdentifier: &endpointv3.LbEndpoint_EndpointName{EndpointName: "e"}},
	} {
		if err := res.CheckLocalityEndpoint(e); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a bad endpoint: %v, want %q", err, name)
		}
	}
	r.expect(t, "x", "200 a")
}

// A management server, the protocol and the proxy together: of 10 000 endpoints one
// changes, and one host does; one that is bad is told to the server by its name, and
// the others stay. Proves XN-29 with TestLocalityEndpoints, TestBadLocalities,
// TestLocalityEndpointsThatDoNotCome, and those of the server and of discovery.
func TestManyLocalityEndpoints(t *testing.T) {
	const many = 10_000
	srv, port := managementServer(t)
	name := func(i int) string { return webEndpoints + "web/" + strconv.Itoa(i) }
	endpoint := func(i int, address string) *xds.Resource {
		e := assignment("", address).GetEndpoints()[0].GetLbEndpoints()[0]
		res, err := xds.Marshal(name(i), e)
		must(t, err)
		return res
	}
	set := func(list ...*xds.Resource) {
		must(t, srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {Set: list}}}))
	}
	var all []*xds.Resource
	for i := range many {
		all = append(all, endpoint(i, fmt.Sprintf("127.%d.%d.1:9", i/250, i%250)))
	}
	c, err := xds.Marshal("x", edsCluster("x", "svc"))
	must(t, err)
	la, err := xds.Marshal("svc", collected("svc", 0, "web"))
	must(t, err)
	set(append(all, c, la)...)
	r := start(t, strings.Replace(byHeader, "static_resources:\n", `
dynamic_resources:
  cds_config: {ads: {}}
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: xds}}]}
static_resources:
`, 1), func(f *proxyrun.Flags, _ *proxy.Options) {
		f.ConfigYAML = `static_resources: {clusters: [{name: xds, http2_protocol_options: {}, load_assignment: {cluster_name: xds, endpoints: [
			{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: ` + port + `}}}}]}]}}]}`
	})
	r.becomesStat(t, "cluster.x.membership_total", strconv.Itoa(many))
	successes, changes := r.stat(t, "cluster.x.leds.update_success"), r.stat(t, "cluster.x.membership_change")
	begin := time.Now()
	set(endpoint(77, "127.77.77.77:9"))
	n, err := strconv.Atoi(changes)
	must(t, err)
	r.becomesStat(t, "cluster.x.membership_change", strconv.Itoa(n+1))
	t.Logf("one of %d was there after %v", many, time.Since(begin))
	if r.counted(t, "127.77.77.77:9") == "" || r.counted(t, "127.0.77.1:9") != "" || r.counted(t, "127.0.78.1:9") == "" {
		t.Error("which hosts there are")
	}
	set(endpoint(78, "a.name:9"))
	r.becomesStat(t, "cluster.x.leds.update_rejected", "1")
	if r.counted(t, "127.0.78.1:9") == "" {
		t.Error("the host whose change is bad is gone")
	}
	same(t, "membership_change", r.stat(t, "cluster.x.membership_change"), strconv.Itoa(n+1))
	n, err = strconv.Atoi(successes)
	must(t, err)
	same(t, "update_success", r.stat(t, "cluster.x.leds.update_success"), strconv.Itoa(n+1))
	for _, client := range srv.Clients() {
		for _, s := range client.Types {
			if s.TypeURL == proxy.LocalityEndpointType && (s.Nack == nil || !strings.Contains(fmt.Sprint(*s.Nack), name(78))) {
				t.Errorf("the server was told %+v", s.Nack)
			}
		}
	}
}
