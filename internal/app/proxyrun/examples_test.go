package proxyrun_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/testcert"
)

// load loads a bootstrap that must be in order.
func load(t testing.TB, f proxyrun.Flags) *proxyrun.Loaded {
	t.Helper()
	l, err := proxyrun.Load(f, environment())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// certificates puts the files that the examples name into the working folder.
func certificates(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "certs", "servercert.pem"), filepath.Join(dir, "certs", "serverkey.pem")
	if err := os.Mkdir(filepath.Dir(cert), 0o755); err != nil {
		t.Fatal(err)
	}
	authority, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := authority.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func abs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "bootstrap", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Proves BS-05: a cluster with a name only, absent types and times, and a sink
// that names it.
func TestLifeOfARequest(t *testing.T) {
	path := abs(t, "life-of-a-request.yaml")
	certificates(t)
	l := load(t, proxyrun.Flags{ConfigPath: path})
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].Message, "node 'id' and 'cluster'") {
		t.Errorf("warnings %v, want one about the node that the sink asks for", l.Warnings)
	}
	l = load(t, proxyrun.Flags{ConfigPath: path, ServiceNode: "front", ServiceCluster: "edge"})
	if len(l.Warnings) != 0 {
		t.Errorf("warnings %v with a node", l.Warnings)
	}
	var names []string
	for _, c := range l.Bootstrap.GetStaticResources().GetClusters() {
		names = append(names, c.GetName())
	}
	if diff := cmp.Diff([]string{"some_service", "some_statsd_sink"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestBenchmarkBootstrap(t *testing.T) {
	path := abs(t, "five-listeners.yaml")
	certificates(t)
	if l := load(t, proxyrun.Flags{ConfigPath: path}); len(l.Warnings) != 0 || len(l.Bootstrap.GetStaticResources().GetListeners()) != 5 {
		t.Errorf("%d listeners, warnings %v", len(l.Bootstrap.GetStaticResources().GetListeners()), l.Warnings)
	}
}

// The bootstraps of the xDS documents are read, the old one with its v2 field
// too (BS-06, BS-07).
func TestADSBootstraps(t *testing.T) {
	for _, name := range []string{"ads-minimal.yaml", "ads-keepalive.yaml"} {
		l := load(t, proxyrun.Flags{ConfigPath: abs(t, name)})
		dyn := l.Bootstrap.GetDynamicResources()
		if dyn.GetCdsConfig().GetAds() == nil || dyn.GetAdsConfig().GetGrpcServices()[0].GetEnvoyGrpc().GetClusterName() != "ads_cluster" {
			t.Errorf("%s: %v", name, dyn)
		}
		if n := len(l.Bootstrap.GetStaticResources().GetClusters()[0].GetLoadAssignment().GetEndpoints()); n != 1 {
			t.Errorf("%s: %d localities", name, n)
		}
	}
}

const small = `
static_resources:
  clusters:
  - {name: a, type: STATIC}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}
`

// Proves BS-01: four encodings of a bootstrap give one message, and the case of
// the suffix does not matter.
func TestEncodings(t *testing.T) {
	want := load(t, proxyrun.Flags{ConfigYAML: small}).Bootstrap
	js, err := protojson.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	text, err := prototext.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"b.yaml": []byte(small), "b.YML": []byte(small), "b.json": js, "b.JSON": js, "b.pb": bin, "b.pb_text": text,
	} {
		got := load(t, proxyrun.Flags{ConfigPath: write(t, name, data)}).Bootstrap
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, err := proxyrun.Load(proxyrun.Flags{ConfigPath: write(t, "b.toml", []byte(small))}, environment()); err == nil || !strings.Contains(err.Error(), ".pb_text") {
		t.Errorf("another suffix gives %v", err)
	}
}

// Proves BS-02: what is given inline is merged over the file.
func TestInlineIsMerged(t *testing.T) {
	path := write(t, "b.yaml", []byte(small))
	l := load(t, proxyrun.Flags{ConfigPath: path, ConfigYAML: "admin: {address: {socket_address: {port_value: 2}}}\nstatic_resources: {clusters: [{name: b}]}"})
	address := l.Bootstrap.GetAdmin().GetAddress().GetSocketAddress()
	if address.GetPortValue() != 2 || address.GetAddress() != "127.0.0.1" {
		t.Errorf("admin at %v", address)
	}
	if c := l.Bootstrap.GetStaticResources().GetClusters(); len(c) != 2 || c[0].GetName() != "a" || c[1].GetName() != "b" {
		t.Errorf("clusters %v", c)
	}
	if _, err := proxyrun.Load(proxyrun.Flags{}, environment()); !errors.Is(err, proxyrun.ErrNoConfig) {
		t.Errorf("without any configuration: %v", err)
	}
}

// Places in what was merged are those of the part that each came from.
func TestPositionsOfMerged(t *testing.T) {
	path := write(t, "b.yaml", []byte(small))
	inline := "admin: {address: {socket_address: {port_value: 2}}}\n" +
		"static_resources:\n  clusters:\n  - name: b\n    metadata: {filter_metadata: {x: {y: 1}}}\n"
	p := load(t, proxyrun.Flags{ConfigPath: path, ConfigYAML: inline}).Positions
	for at, want := range map[string]string{
		"static_resources.clusters[0].type":                          path + ":4:15",
		"static_resources.clusters[1].name":                          "--config-yaml:4:5",
		"static_resources.clusters[1].nothing":                       path + ":3:3",
		"admin.address.socket_address.port_value":                    "--config-yaml:1:36",
		"admin.address.socket_address.address":                       path + ":5:36",
		`static_resources.clusters[1].metadata.filter_metadata["x"]`: "--config-yaml:5:34",
		"static_resources.clusters[9].name":                          path + ":3:3",
		"static_resources.clusters[x].name":                          path + ":3:3",
	} {
		if got := p.Position(at).String(); got != want {
			t.Errorf("%s is at %s, want %s", at, got, want)
		}
	}
	var none *proxyrun.Positions
	if got := none.Position("x").String(); got != "" {
		t.Errorf("no positions know %s", got)
	}
}

// Errors in what is given inline name it, and paths are those of the whole.
func TestErrorsInInline(t *testing.T) {
	path := write(t, "b.yaml", []byte(small))
	for inline, want := range map[string]string{
		"static_resources: {clusters: [{name: a}]}":           "--config-yaml:1:32: error: static_resources.clusters[1].name: cluster manager: duplicate cluster 'a'",
		"static_resources: {clusters: [{name: b, bogus: 1}]}": "--config-yaml:1:41: error: static_resources.clusters[0].bogus: Protobuf message",
		"header_prefix: x": "--config-yaml:1:1: error: header_prefix: known but not built",
	} {
		_, err := proxyrun.Load(proxyrun.Flags{ConfigPath: path, ConfigYAML: inline}, environment())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", inline, err, want)
		}
	}
}

// Proves BS-16: unknown fields are errors with a path, in a nested Any too, or
// warnings that count.
func TestUnknownFields(t *testing.T) {
	goldenLoad(t, "fields")
	l := load(t, proxyrun.Flags{ConfigYAML: "bogus: 1\nadmin: {x: 2}", AllowUnknownStaticFields: true})
	if l.UnknownFields != 2 || len(l.Warnings) != 2 {
		t.Errorf("%d unknown fields, warnings %v", l.UnknownFields, l.Warnings)
	}
}

// Proves BS-22 as far as the bootstrap goes: flags override the node's fields.
func TestNodeOverrides(t *testing.T) {
	const node = "node: {id: a, cluster: b, locality: {region: r, zone: c}}"
	got := load(t, proxyrun.Flags{ConfigYAML: node, ServiceNode: "x", ServiceZone: "z"}).Bootstrap.GetNode()
	if got.GetId() != "x" || got.GetCluster() != "b" || got.GetLocality().GetZone() != "z" || got.GetLocality().GetRegion() != "r" {
		t.Errorf("node %v", got)
	}
	got = load(t, proxyrun.Flags{ConfigYAML: "{}", ServiceNode: "x", ServiceCluster: "y", ServiceZone: "z"}).Bootstrap.GetNode()
	if got.GetId() != "x" || got.GetCluster() != "y" || got.GetLocality().GetZone() != "z" {
		t.Errorf("node %v", got)
	}
}

const filtered = `
static_resources:
  listeners:
  - name: l
    address: {pipe: {path: /x}}
    filter_chains:
    - filters:
      - name: e
        typed_config: {"@type": type.googleapis.com/%s}
`

// Proves BS-49: a disabled extension is unregistered, and a name that is of none
// here is only warned about.
func TestDisabledExtensions(t *testing.T) {
	echo := fmt.Sprintf(filtered, "envoy.extensions.filters.network.echo.v3.Echo")
	load(t, proxyrun.Flags{ConfigYAML: echo})
	_, err := proxyrun.Load(proxyrun.Flags{ConfigYAML: echo, DisableExtensions: []string{"envoy.filters.network.echo"}}, environment())
	want := "Didn't find a registered implementation for 'e' with type URL: 'envoy.extensions.filters.network.echo.v3.Echo'"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	l := load(t, proxyrun.Flags{ConfigYAML: echo, DisableExtensions: []string{"envoy.filters.http.lua"}})
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0].Message, "envoy.filters.http.lua") {
		t.Errorf("warnings %v", l.Warnings)
	}
}

// Extensions of the program around are accepted as they are.
func TestOwnExtensions(t *testing.T) {
	own := fmt.Sprintf(filtered, "envoy.extensions.filters.network.sni_cluster.v3.SniCluster")
	if _, err := proxyrun.Load(proxyrun.Flags{ConfigYAML: own}, environment()); err == nil {
		t.Error("an extension that is not built is accepted")
	}
	env := environment()
	env.Extensions = []string{"envoy.extensions.filters.network.sni_cluster.v3.SniCluster"}
	_, err := proxyrun.Load(proxyrun.Flags{ConfigYAML: own}, env)
	// The rules of a chain still hold: this filter cannot end one.
	if err == nil || strings.Contains(err.Error(), "not implemented") || !strings.Contains(err.Error(), "non-terminal filter") {
		t.Errorf("an extension of the program around gives %v", err)
	}
}

// What only gRPC clients mind is no warning for a proxy.
func TestWarningsAreAboutTheProxy(t *testing.T) {
	const e = "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 80}}}}"
	l := load(t, proxyrun.Flags{ConfigYAML: "static_resources: {clusters: [{name: a, load_assignment: {cluster_name: a, endpoints: [" +
		"{priority: 2, locality: {zone: z}, lb_endpoints: [" + e + ", " + e + "]}, {priority: 2, locality: {zone: z}}]}}]}"})
	if len(l.Warnings) != 0 {
		t.Errorf("warnings %v", l.Warnings)
	}
}

// Proves BS-53 as far as loading goes: 16,000 routes.
func TestManyRoutes(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector")
	}
	load(t, proxyrun.Flags{ConfigPath: write(t, "b.yaml", manyRoutes(16_000))})
}

func manyRoutes(n int) []byte {
	var b strings.Builder
	b.WriteString("static_resources:\n  clusters: [{name: a}]\n  listeners:\n  - name: l\n    address: {pipe: {path: /x}}\n" +
		"    filter_chains:\n    - filters:\n      - name: h\n        typed_config:\n" +
		"          \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n" +
		"          stat_prefix: x\n          http_filters: [{name: r, typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]\n" +
		"          route_config:\n            virtual_hosts:\n            - name: v\n              domains: [\"*\"]\n              routes:\n")
	for i := range n {
		fmt.Fprintf(&b, "              - {match: {prefix: /%d}, route: {cluster: a, timeout: 1s}}\n", i)
	}
	return []byte(b.String())
}

func BenchmarkLoad16kRoutes(b *testing.B) {
	path := write(b, "b.yaml", manyRoutes(16_000))
	b.ReportAllocs()
	for b.Loop() {
		load(b, proxyrun.Flags{ConfigPath: path})
	}
}

// FuzzLoad: no YAML makes loading panic, and what loads can be loaded again.
func FuzzLoad(f *testing.F) {
	seeds, err := filepath.Glob("testdata/bootstrap/*.yaml")
	if err != nil || len(seeds) == 0 {
		f.Fatal(seeds, err)
	}
	for _, s := range seeds {
		data, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(small)
	f.Add("a: &a [*a]")
	f.Add("static_resources: {listeners: [{filter_chains: [{filters: [{typed_config: {\"@type\": 3}}]}]}]}")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := proxyrun.Load(proxyrun.Flags{ConfigYAML: text}, environment())
		if err != nil {
			return
		}
		js, err := protojson.Marshal(l.Bootstrap)
		if err != nil {
			return // text that is not UTF-8 has no JSON
		}
		again := &bootstrapv3.Bootstrap{}
		if err := protojson.Unmarshal(js, again); err != nil {
			t.Fatalf("what was loaded cannot be read again: %v", err)
		}
		if !proto.Equal(again, l.Bootstrap) {
			t.Fatal("what was loaded reads differently")
		}
	})
}
