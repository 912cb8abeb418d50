package proxy_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

var update = flag.Bool("update", false, "rewrite what is Xebec's own in testdata/admin/stats-at-rest.txt")

// golden reads what Envoy 1.40 answered for the bootstrap small.
func golden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "admin", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Proves AD-08: the parts of the configuration, as Envoy dumps them for the
// same bootstrap: resource, mask, name_regex and include_eds.
func TestConfigDump(t *testing.T) {
	r := start(t, small+adminHere)
	for query, file := range map[string]string{
		"resource=static_clusters":                     "static_clusters.json",
		"resource=static_clusters&mask=cluster.name":   "static_clusters-name.json",
		"resource=static_clusters&name_regex=on":       "empty.json",
		"resource=static_clusters&name_regex=no.e":     "static_clusters-none.json",
		"resource=static_endpoint_configs&include_eds": "static_endpoints.json",
		"resource=static_route_configs":                "static_routes.json",
		"mask=version_info":                            "version_info.json",
	} {
		var got, want adminv3.ConfigDump
		if err := protojson.Unmarshal([]byte(r.get(t, "/config_dump?"+query)), &got); err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal([]byte(golden(t, file)), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, &got, protocmp.Transform(), protocmp.IgnoreFields(&adminv3.ClustersConfigDump_StaticCluster{}, "last_updated"),
			protocmp.IgnoreFields(&adminv3.RoutesConfigDump_StaticRouteConfig{}, "last_updated")); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

// Proves AD-08: the whole dump, its order and its layout, and that a mask keeps
// only what it names.
func TestConfigDumpWhole(t *testing.T) {
	r := start(t, small+adminHere)
	text := r.get(t, "/config_dump")
	if !strings.HasPrefix(text, "{\n \"configs\": [\n  {\n   \"@type\": \"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump\",\n   \"bootstrap\": {\n    \"node\": {\n     \"id\": \"me\",\n") {
		t.Errorf("it begins %q", text[:200])
	}
	kinds := func(text string) []string {
		var out []string
		for _, m := range regexp.MustCompile(`envoy\.admin\.v3\.(\w+)"`).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		return out
	}
	all := []string{"BootstrapConfigDump", "ClustersConfigDump", "ListenersConfigDump", "ScopedRoutesConfigDump", "RoutesConfigDump", "SecretsConfigDump"}
	if diff := cmp.Diff(all, kinds(text)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(slices.Insert(slices.Clone(all), 2, "EndpointsConfigDump"), kinds(r.get(t, "/config_dump?include_eds"))); diff != "" {
		t.Error(diff)
	}
	const id = "{\n \"configs\": [\n  {\n   \"@type\": \"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump\",\n   \"bootstrap\": {\n    \"node\": {\n     \"id\": \"me\"\n    }\n   }\n  }\n ]\n}\n"
	if got := r.get(t, "/config_dump?mask=bootstrap.node.id"); got != id {
		t.Errorf("mask: %s", got)
	}
}

const secrets = `
static_resources:
  secrets:
  - name: from_file
    tls_certificate: {certificate_chain: {filename: CERT}, private_key: {filename: KEY}}
  - name: inline
    tls_certificate:
      certificate_chain: {filename: CERT}
      private_key: {inline_string: "INLINE"}
  listeners:
  - name: l
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: in
          route_config: {virtual_hosts: []}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificates: [{certificate_chain: {filename: CERT}, private_key: {inline_string: "INLINE"}}]
            validation_context: {trusted_ca: {filename: CERT}}
` + adminHere

// Proves AD-10 and TS-26: the certificates in use and when they end; and that no
// key is ever shown (AD-08).
func TestSecrets(t *testing.T) {
	cert, key := certificates(t)
	b, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	inline := strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", `\n`)
	r := start(t, strings.NewReplacer("CERT", cert, "KEY", key, "INLINE", inline).Replace(secrets))
	dump := r.get(t, "/config_dump?include_eds")
	if strings.Contains(dump, "PRIVATE KEY") || strings.Contains(dump, key) || strings.Count(dump, "[redacted]") < 6 {
		t.Errorf("the dump shows keys: %s", dump)
	}
	if got := r.get(t, "/config_dump?resource=static_secrets&name_regex=from_.*"); strings.Count(got, `"name": "from_file"`) != 2 || strings.Contains(got, `"inline"`) {
		t.Errorf("one secret: %s", got)
	}
	var c adminv3.Certificates
	if err := protojson.Unmarshal([]byte(r.get(t, "/certs")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.GetCertificates()) != 1 {
		t.Fatalf("%v", &c)
	}
	for _, d := range append(c.GetCertificates()[0].GetCertChain(), c.GetCertificates()[0].GetCaCert()...) {
		if d.GetPath() != cert || d.GetSerialNumber() == "" || d.GetSubjectAltNames()[0].GetDns() != "localhost" || !d.GetValidFrom().AsTime().Before(d.GetExpirationTime().AsTime()) {
			t.Errorf("%v", d)
		}
		days := r.get(t, "/stats?filter=^server.days_until_first_cert_expiring$")
		if want := "server.days_until_first_cert_expiring: " + jsonText(t, d.GetDaysUntilExpiration()) + "\n"; days != want {
			t.Errorf("%q, want %q", days, want)
		}
	}
}

// Proves AD-06 and CM-30: the lines of Envoy for the same bootstrap, and the
// same in JSON.
func TestAdminClusters(t *testing.T) {
	r := start(t, small+adminHere)
	if diff := cmp.Diff(golden(t, "clusters.txt"), r.get(t, "/clusters")); diff != "" {
		t.Error(diff)
	}
	if got := r.get(t, "/clusters?filter=^no"); strings.Contains(got, "\none::") || !strings.HasPrefix(got, "none::") {
		t.Errorf("filtered: %s", got)
	}
	var c adminv3.Clusters
	if err := protojson.Unmarshal([]byte(r.get(t, "/clusters?format=json")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.GetClusterStatuses()) != 2 || c.GetClusterStatuses()[0].GetHostStatuses()[0].GetWeight() != 7 {
		t.Errorf("%v", &c)
	}
}

// Proves ST-03, ST-06 and ST-08: the names of the statistics of a proxy at rest.
// In the file a space stands before a name that Envoy 1.40 has too, a minus
// before one that only Envoy has, and a plus before one that only Xebec has.
func TestStatisticsAtRest(t *testing.T) {
	r := start(t, small+adminHere)
	var got []string
	for line := range strings.Lines(r.get(t, "/stats")) {
		name, _, _ := strings.Cut(line, ": ")
		got = append(got, name)
	}
	slices.Sort(got)
	var want, out []string
	for line := range strings.Lines(golden(t, "stats-at-rest.txt")) {
		name := strings.TrimSpace(line[1:])
		has := slices.Contains(got, name)
		switch {
		case line[0] != '-':
			want = append(want, name)
		case has && !*update:
			t.Errorf("%s: it is in Xebec too", name)
		}
		if line[0] != '+' {
			out = append(out, map[bool]string{true: " ", false: "-"}[has]+name)
		}
	}
	if *update {
		for _, name := range got {
			if !slices.Contains(out, " "+name) {
				out = append(out, "+"+name)
			}
		}
		slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[1:], b[1:]) })
		if err := os.WriteFile(filepath.Join("testdata", "admin", "stats-at-rest.txt"), []byte(strings.Join(out, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The version of a proxy as a number, to see in a graph when it changed.
func TestVersionNumber(t *testing.T) {
	number := func(bootstrap, version string) string {
		r := start(t, bootstrap, func(_ *proxyrun.Flags, o *proxy.Options) { o.Version = version })
		return r.get(t, "/stats?filter=^server.version$")
	}
	if a, b := number(small+adminHere, "v1"), number(small+adminHere, "v2"); a == b {
		t.Errorf("two versions with one number: %s", a)
	}
	if got := number(small+adminHere+"\nstats_server_version_override: 42\n", "v1"); got != "server.version: 42\n" {
		t.Errorf("%q", got)
	}
}
