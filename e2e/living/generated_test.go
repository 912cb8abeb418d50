//go:build interop

package living

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/xds"
)

// both are Xebec's proxy and Envoy, on one management server.
type both struct {
	*generator
	proxies  [2]*proxy
	at       [2][]string // addresses of the listeners of each
	one, two http.RoundTripper

	differences int // found so far
}

// generatedTables are the tables of the static listeners.
var generatedTables = []string{"plain", "edge"}

// listenersJSON are static listeners at ports of their own, whose routes are
// discovered.
func listenersJSON(ports []int) string {
	const filters = `[{"name":"mutate","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"}},
		{"name":"fault","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"}},
		{"name":"buffer","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer","max_request_bytes":1048576}},
		{"name":"router","typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]`
	more := []string{"", `,"use_remote_address":true,"normalize_path":true,"merge_slashes":true,"strip_any_host_port":true,"path_with_escaped_slashes_action":"UNESCAPE_AND_FORWARD","server_name":"edge","via":"test"`}
	var out []string
	for i, port := range ports {
		name := generatedTables[i]
		out = append(out, fmt.Sprintf(`{"name":%q,"address":{"socket_address":{"address":"127.0.0.1","port_value":%d}},"filter_chains":[{"filters":[{"name":"hcm","typed_config":{
			"@type":"type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager","stat_prefix":%q,
			"rds":{"route_config_name":%q,"config_source":{"ads":{},"resource_api_version":"V3"}},"http_filters":%s%s}}]}]}`, name, port, name, name, filters, more[i]))
	}
	return `"static_resources":{"listeners":[` + strings.ReplaceAll(strings.Join(out, ","), "\n", "") + `]}`
}

func number(t testing.TB, variable string, unless int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return unless
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// startBoth starts a server and both proxies, and waits until they have the
// first configuration.
func startBoth(t *testing.T, n uint64) *both {
	t.Helper()
	dir := newDirectory(t)
	random := rand.New(rand.NewPCG(n, 2)) //nolint:gosec // to be repeated
	v := variants()[0]
	b := &both{generator: &generator{
		world: &world{variant: v, dir: dir.path, random: random, held: map[xds.Key]proto.Message{}, wrong: map[xds.Key]proto.Message{}},
		dead:  harness.FreePort(t),
	}, one: &http.Transport{DisableCompression: true}, two: h2c()}
	for i := range 4 {
		b.hosts = append(b.hosts, startProbed(t, i))
	}
	t.Cleanup(func() {
		b.one.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // it is one
		b.two.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // it is one
	})
	b.next()
	dir.sync(t, v.layout(b.written()))
	s := newServer(t, dir.path)
	s.start(t)
	for i, command := range [][]string{{xebecBinary, "proxy"}, {envoyBinary}} {
		ports := []int{harness.FreePort(t), harness.FreePort(t)}
		for _, port := range ports {
			b.at[i] = append(b.at[i], "127.0.0.1:"+strconv.Itoa(port))
		}
		name := []string{"xebec proxy", "Envoy"}[i]
		b.proxies[i] = startProxyWith(t, name, v.bootstrap(t, dir.path, s.xds), listenersJSON(ports), command...)
	}
	for _, p := range b.proxies {
		p.live(t)
	}
	return b
}

// next makes the next configuration, and requests for it.
func (b *both) next() {
	b.probes = nil
	b.allClusters()
	for i, name := range generatedTables {
		b.set(b.table(name, i))
	}
	for i := range generatedTables {
		b.probes = append(b.probes, b.vary(probe{listener: i, host: "nobody.test", path: b.path()}))
	}
	b.random.Shuffle(len(b.probes), func(i, j int) { b.probes[i], b.probes[j] = b.probes[j], b.probes[i] })
	b.probes = b.probes[:min(len(b.probes), 10)]
}

// Envoy and the proxy, side by side on one server, do the same with 200 generated
// configurations: they have the same in force, by their own accounts, see the
// same hosts with the same weights, health, localities and limits, and answer
// requests alike, sent to hosts alike. XEBEC_SAME_SEED chooses other
// configurations, XEBEC_SAME_CONFIGURATIONS how many.
func TestGeneratedSameAsEnvoy(t *testing.T) {
	n := number(t, "XEBEC_SAME_SEED", 1)
	b := startBoth(t, uint64(n)) //nolint:gosec // positive
	dir := &directory{path: b.dir, temp: t.TempDir(), has: map[string][]byte{}}
	count, requests := number(t, "XEBEC_SAME_CONFIGURATIONS", 200), 0
	begin, bad := time.Now(), 0
	for i := range count {
		dir.sync(t, b.variant.layout(b.written()))
		for _, p := range b.proxies {
			b.arrived(t, p)
		}
		b.sameState(t, i)
		requests += b.sameAnswers(t, i)
		if bad != b.differences {
			bad = b.differences
			t.Logf("configuration %d of XEBEC_SAME_SEED=%d:\n%s", i, n, b.routesOf())
		}
		if bad > 5 {
			t.Fatal("too many differences")
		}
		b.next()
	}
	t.Logf("%d configurations, %d requests to each, %v", count, requests, time.Since(begin).Round(time.Millisecond))
}

// arrived waits until a proxy has the configuration in force.
func (b *both) arrived(t *testing.T, p *proxy) {
	t.Helper()
	harness.Eventually(t, convergePatience, p.Name+" has its configuration", func() error {
		p.Check(t)
		f, err := p.dump()
		if err != nil {
			return err
		}
		errs := []error{err}
		for k, want := range b.held {
			got := f.held[k]
			switch want := want.(type) {
			case *endpointv3.ClusterLoadAssignment:
				if b.usesAssignment(k.Name) && !maps.Equal(firsts(want), firsts(got)) {
					errs = append(errs, fmt.Errorf("another assignment %s: %v, not %v", k.Name, firsts(got), firsts(want)))
				}
			default:
				if got == nil || !proto.Equal(want, got) {
					errs = append(errs, fmt.Errorf("another %s %s", xds.Kind(k.Type), k.Name))
				}
			}
		}
		for k := range f.held {
			if b.held[k] == nil && k.Type != xds.EndpointType {
				errs = append(errs, fmt.Errorf("still a %s %s", xds.Kind(k.Type), k.Name))
			}
		}
		if len(f.pending) > 0 {
			errs = append(errs, fmt.Errorf("warming: %v", f.pending))
		}
		return errors.Join(errs...)
	})
}

// firsts are the hosts of an assignment by port. The first of an address counts.
func firsts(m proto.Message) map[uint32]string {
	out := map[uint32]string{}
	a, _ := m.(*endpointv3.ClusterLoadAssignment)
	for _, l := range a.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			if port := e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue(); out[port] == "" {
				out[port] = fmt.Sprint(l.GetPriority(), " ", l.GetLocality().GetZone(), " ", max(1, e.GetLoadBalancingWeight().GetValue()))
			}
		}
	}
	return out
}

// routesOf are the tables, to find out what a difference is due to.
func (b *both) routesOf() string {
	var out strings.Builder
	for _, k := range sortedKeys(b.held) {
		fmt.Fprintf(&out, "%s %s: %s\n", xds.Kind(k.Type), k.Name, encode(b.held[k]))
	}
	return out.String()
}

// sameState compares what both say of their state.
func (b *both) sameState(t *testing.T, i int) {
	t.Helper()
	failed := t.Failed()
	defer func() {
		if t.Failed() && !failed {
			t.Logf("configuration %d:\n%s", i, b.routesOf())
		}
	}()
	harness.Eventually(t, 10*time.Second, fmt.Sprintf("configuration %d: both are in the same state", i), func() error {
		var pages [2][]string
		for n, p := range b.proxies {
			var err error
			if pages[n], err = state(p); err != nil {
				return err
			}
		}
		return lines(pages[0], pages[1])
	})
}

// lines tells which lines only one of two lists has.
func lines(a, b []string) error {
	var errs []error
	for _, l := range a {
		if !slices.Contains(b, l) {
			errs = append(errs, errors.New("only Xebec: "+l))
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			errs = append(errs, errors.New("only Envoy: "+l))
		}
	}
	return errors.Join(errs...)
}

// counted are lines of /clusters that count connections and requests, and
// those of clusters of the bootstrap.
var counted = regexp.MustCompile(`::(cx|rq)_\w+::|^` + xdsCluster)

// state is what a proxy says of clusters, endpoints, routes and hosts, a line
// for each thing.
func state(p *proxy) ([]string, error) {
	out, err := dumped(p)
	if err != nil {
		return nil, err
	}
	page, err := p.Page("/clusters?format=json")
	if err != nil {
		return nil, err
	}
	var all adminv3.Clusters
	if err := protojson.Unmarshal([]byte(page), &all); err != nil {
		return nil, err
	}
	// With Envoy the gauges of a cluster that begins without hosts stay as they
	// were of the cluster that it replaces. Those of a removed one disappear at
	// once, and within a second with Xebec.
	has := map[string]bool{}
	for _, c := range all.GetClusterStatuses() {
		if !c.GetAddedViaApi() {
			continue
		}
		has[c.GetObservabilityName()] = len(c.GetHostStatuses()) > 0
		for _, h := range c.GetHostStatuses() {
			h.Stats = nil // of requests
			out = append(out, fmt.Sprintf("host of %s: %s", c.GetName(), text(h)))
		}
		c.HostStatuses = nil
		out = append(out, "cluster status: "+text(c))
	}
	if page, err = p.Page("/clusters"); err != nil {
		return nil, err
	}
	for line := range strings.Lines(page) {
		if !counted.MatchString(line) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	gauges, err := p.Numbers(`type=Gauges&filter=^cluster\.(c\d|alt\d*)\.(membership|circuit_breakers.*open|lb)`)
	for name, n := range gauges {
		if of := strings.Split(name, ".")[1]; has[of] {
			out = append(out, fmt.Sprintf("%s: %d", name, n))
		}
	}
	return out, err
}

// text is a message as JSON, the same each time.
func text(m proto.Message) string { return string(encode(m)) }

// dumped are the dynamic parts of the dump, without times.
func dumped(p *proxy) ([]string, error) {
	page, err := p.Page("/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	var all adminv3.ConfigDump
	if err := protojson.Unmarshal([]byte(page), &all); err != nil {
		return nil, err
	}
	var out []string
	add := func(m interface {
		proto.Message
		GetLastUpdated() *timestamppb.Timestamp
	},
	) {
		r := m.ProtoReflect()
		r.Clear(r.Descriptor().Fields().ByName("last_updated"))
		out = append(out, text(m))
	}
	for _, section := range all.GetConfigs() {
		m, err := section.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *adminv3.ClustersConfigDump:
			out = append(out, "clusters: "+m.GetVersionInfo())
			for _, c := range slices.Concat(m.GetDynamicActiveClusters(), m.GetDynamicWarmingClusters()) {
				add(c)
			}
		case *adminv3.RoutesConfigDump:
			for _, c := range m.GetDynamicRouteConfigs() {
				add(c)
			}
		case *adminv3.EndpointsConfigDump:
			for _, c := range m.GetDynamicEndpointConfigs() {
				add(c)
			}
		}
	}
	return out, nil
}

const (
	// sends is how often a request is sent at first, for where it goes may be a
	// matter of chance.
	sends = 3
	// moreSends is how often until each outcome of one proxy must have been seen
	// with the other, and tries how often all that may begin anew, for a machine may
	// be too slow for a timeout.
	moreSends, tries = 300, 4
)

// sameAnswers sends requests to both until each outcome was seen with both. It
// returns how many it sent.
func (b *both) sameAnswers(t *testing.T, i int) int {
	t.Helper()
	var mu sync.Mutex
	var work sync.WaitGroup
	total := 0
	for _, p := range b.probes {
		work.Go(func() {
			n, err := b.compare(&p)
			mu.Lock()
			defer mu.Unlock()
			total += n
			if err != nil {
				b.differences++
				t.Errorf("configuration %d: %s:\n%v", i, &p, err)
			}
		})
	}
	work.Wait()
	return total
}

func (b *both) compare(p *probe) (n int, err error) {
	for range tries {
		seen := [2]map[string]int{{}, {}}
		for sent := 0; sent < moreSends; sent += sends {
			// Later ones at once: with attempts in pairs, taking turns among two hosts
			// always ends with the same one.
			b.send(p, &seen, sent > 10*sends)
			n += sends
			if err = outcomes(seen); err == nil {
				return n, nil
			}
			if _, slow := p.headers["x-delay"]; slow && sent > 60 {
				break
			}
		}
	}
	return n, err
}

// send sends a probe to both, one after the other or all at once, and counts what
// comes of it.
func (b *both) send(p *probe, seen *[2]map[string]int, atOnce bool) {
	transport := b.one
	if p.http2 {
		transport = b.two
	}
	var mu sync.Mutex
	var work sync.WaitGroup
	for range sends {
		for k := range seen {
			one := func() {
				outcome := p.outcome(transport, b.at[k][p.listener])
				mu.Lock()
				defer mu.Unlock()
				seen[k][outcome]++
			}
			if atOnce {
				work.Go(one)
			} else {
				one()
			}
		}
	}
	work.Wait()
}

// outcomes tells which were seen with one proxy only.
func outcomes(seen [2]map[string]int) error {
	var errs []error
	for k, who := range []string{"Xebec", "Envoy"} {
		for outcome, n := range seen[k] {
			if seen[1-k][outcome] == 0 {
				errs = append(errs, fmt.Errorf("only %s, %d times: %s", who, n, outcome))
			}
		}
	}
	if errs == nil || len(seen[0])+len(seen[1]) == len(errs) {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w\n(besides what both do)", errors.Join(errs...))
}
