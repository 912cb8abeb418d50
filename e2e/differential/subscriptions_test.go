//go:build interop

package differential

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/testcert"
)

// subscribing has each kind of subscription, in files.
func subscribing() map[string]string {
	from := func(file string) string {
		return `{"resource_api_version": "V3", "path_config_source": {"path": "${dir}/` + file + `"}}`
	}
	const hcm = `{"name": "hcm", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": "hp", "rds": {"route_config_name": "rc", "config_source": RDS},
		"http_filters": [{"name": "r", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}`
	filters := strings.Replace(hcm, "RDS", from("rds.yaml"), 1)
	const address = `{"socket_address": {"address": "127.0.0.1", "port_value": 0}}`
	return map[string]string{
		"bootstrap.json": `{"node": {"id": "id", "cluster": "c"}, "admin": {"address": ` + address + `},
			"dynamic_resources": {"lds_config": ` + from("lds.yaml") + `, "cds_config": ` + from("cds.yaml") + `},
			"layered_runtime": {"layers": [{"name": "r", "rtds_layer": {"name": "r", "rtds_config": ` + from("rtds.yaml") + `}}]}}`,
		"lds.yaml": `resources:
- {"@type": type.googleapis.com/envoy.config.listener.v3.Listener, name: plain, stat_prefix: plain, address: ` + address + `, filter_chains: [{filters: [` + filters + `]}]}
- {"@type": type.googleapis.com/envoy.config.listener.v3.Listener, name: secure, stat_prefix: secure, address: ` + address + `, filter_chains: [{filters: [` + filters + `],
    transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext,
      common_tls_context: {tls_certificate_sds_secret_configs: [{name: cert, sds_config: ` + from("sds.yaml") + `}]}}}}]}
`,
		"cds.yaml":  `{version_info: one, resources: [{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: eds, type: EDS, connect_timeout: 1s, eds_cluster_config: {eds_config: ` + from("eds.yaml") + `}}]}`,
		"eds.yaml":  `{version_info: one, resources: [{"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: eds, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}}]}]}]}`,
		"rds.yaml":  `{version_info: one, resources: [{"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration, name: rc, virtual_hosts: [{name: v, domains: ["*"]}]}]}`,
		"rtds.yaml": `{version_info: one, resources: [{"@type": type.googleapis.com/envoy.service.runtime.v3.Runtime, name: r, layer: {a: 1}}]}`,
		"sds.yaml": `{version_info: one, resources: [{"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret, name: cert,
			tls_certificate: {certificate_chain: {filename: "${dir}/cert.pem"}, private_key: {filename: "${dir}/key.pem"}}}]}`,
		"cert.pem": certPEM, "key.pem": keyPEM,
	}
}

var (
	subscriptionStat = regexp.MustCompile(`^(cluster_manager\.cds|listener_manager\.lds|http\.hp\.rds\.rc|cluster\.eds|sds\.cert|runtime)\.(config_reload\w*|init_fetch_timeout|update_\w+|version|version_text)$`)
	moment           = regexp.MustCompile(`update_time|config_reload_time_ms`)
)

// subscriptions are the statistics of subscriptions.
func subscriptions(s *side) map[string]string {
	out := map[string]string{}
	page, err := s.admin.Page("/stats")
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case !subscriptionStat.MatchString(name):
			continue
		case strings.HasSuffix(name, "update_duration"):
			value = "" // Envoy does not measure files
		case moment.MatchString(name) && value != "0":
			value = "<time>"
		}
		out[name] = value
	}
	return out
}

// Proves ST-07: subscriptions have the names that Envoy's have, and count what
// it counts: what is good, a bad push, and a file that makes no sense.
func TestSubscriptionStatistics(t *testing.T) {
	files := subscribing()
	p := startPair(t, files)
	p.alike(t, "at the start", func(s *side) any { return subscriptions(s) })
	names := slices.Sorted(maps.Keys(subscriptions(p[0])))
	if len(names) < 50 {
		t.Errorf("%d names are compared: %q", len(names), names)
	}
	other, err := testcert.NewAuthority("another")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := other.Issue("another")
	if err != nil {
		t.Fatal(err)
	}
	p.both(func(s *side) {
		s.write(t, "new-cert.pem", string(cert))
		s.write(t, "new-key.pem", string(key))
	})
	good := map[string][]string{
		"cds.yaml": {"1s", "2s"}, "rds.yaml": {`["*"]`, "[a]"}, "sds.yaml": {"/cert.pem", "/new-cert.pem", "/key.pem", "/new-key.pem"}, "eds.yaml": {"port_value: 1", "port_value: 2"}, "rtds.yaml": {"a: 1", "a: 2"},
	}
	bad := map[string][]string{
		"cds.yaml": {"name: eds,", "name: '',"}, "rds.yaml": {`["*"]`, "[]"}, "sds.yaml": {"/cert.pem", "/key.pem"}, "eds.yaml": {"port_value: 1", "port_value: 77777"},
	}
	for _, step := range []struct {
		name   string
		change func(name, text string) string
	}{
		{"after good ones", func(name, text string) string {
			return strings.NewReplacer(append(good[name], "version_info: one", "version_info: two")...).Replace(text)
		}},
		{"after bad ones", func(name, text string) string {
			if bad[name] == nil {
				return ""
			}
			return strings.NewReplacer(append(bad[name], "version_info: one", "version_info: three")...).Replace(text)
		}},
		{"after files without sense", func(string, string) string { return "resources: [" }},
	} {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			text := step.change(name, files[name])
			if !strings.HasSuffix(name, "ds.yaml") || text == "" || name == "lds.yaml" {
				continue
			}
			p.both(func(s *side) { s.write(t, name, text) })
			time.Sleep(100 * time.Millisecond)
		}
		p.alike(t, step.name, func(s *side) any { return subscriptions(s) })
	}
}

var (
	listenerStat = regexp.MustCompile(`^listener\.(plain|secure)\.`)
	// beyond are names that docs/differences.md tells of, and those that only
	// connections make.
	beyond = regexp.MustCompile(`\.connections_accepted_per_socket_event$|\.server_ssl_socket_factory\.|\.ssl\.certificate\.|\.worker_\d+\.`)
)

// Proves ST-02 as far as names go: those below a listener's prefix are Envoy's.
func TestListenerStatisticsNames(t *testing.T) {
	p := startPair(t, subscribing())
	p.alike(t, "names", func(s *side) any {
		page, err := s.admin.Page("/stats")
		if err != nil {
			return err.Error()
		}
		var names []string
		for line := range strings.Lines(page) {
			name, _, _ := strings.Cut(line, ": ")
			if listenerStat.MatchString(name) && !beyond.MatchString(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	})
}
