package configload_test

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	_ "github.com/xebec-proxy/xebec/internal/alltypes"
	"github.com/xebec-proxy/xebec/internal/configload"
)

// pair is a lenient form of a message and what it means in canonical JSON.
type pair struct {
	name, file, lenient, canonical string
	message                        proto.Message
}

func checkPairs(t *testing.T, pairs []pair) {
	t.Helper()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			want := p.message.ProtoReflect().New().Interface()
			if err := protojson.Unmarshal([]byte(p.canonical), want); err != nil {
				t.Fatalf("canonical form: %v", err)
			}
			file := p.file
			if file == "" {
				file = "f.yaml"
			}
			got := p.message.ProtoReflect().New().Interface()
			if _, errs := configload.Message(file, []byte(p.lenient), got); len(errs) > 0 {
				t.Fatalf("problems: %v", errs)
			}
			if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
				t.Errorf("-canonical +lenient:\n%s", d)
			}
		})
	}
}

// Proves BS-09.
func TestLeniences(t *testing.T) {
	cluster, listener, node := &clusterv3.Cluster{}, &listenerv3.Listener{}, &corev3.Node{}
	checkPairs(t, []pair{
		{"duration as a mapping", "", `connect_timeout: {seconds: 5}`, `{"connectTimeout":"5s"}`, cluster},
		{"duration as a mapping with nanos", "", `connect_timeout: {seconds: 5, nanos: 250000000}`, `{"connectTimeout":"5.25s"}`, cluster},
		{"duration as a string", "", `connect_timeout: 0.25s`, `{"connectTimeout":"0.250s"}`, cluster},
		{"empty duration mapping", "", `connect_timeout: {}`, `{"connectTimeout":"0s"}`, cluster},
		{"bare wrapper", "", `per_connection_buffer_limit_bytes: 32768`, `{"perConnectionBufferLimitBytes":32768}`, cluster},
		{"wrapper as a mapping", "", `per_connection_buffer_limit_bytes: {value: 32768}`, `{"perConnectionBufferLimitBytes":32768}`, cluster},
		{"empty wrapper mapping", "", `per_connection_buffer_limit_bytes: {}`, `{"perConnectionBufferLimitBytes":0}`, cluster},
		{"wrapper of a string number", "", `per_connection_buffer_limit_bytes: "7"`, `{"perConnectionBufferLimitBytes":7}`, cluster},
		{"null wrapper", "", `per_connection_buffer_limit_bytes: null`, `{}`, cluster},
		{"boolean wrapper", "", `use_original_dst: {value: true}`, `{"useOriginalDst":true}`, listener},
		{"one message for a list", "", `filter_chains: {name: a}`, `{"filterChains":[{"name":"a"}]}`, listener},
		{"one scalar for a list", "", `client_features: a`, `{"clientFeatures":["a"]}`, node},
		{"enum in lower case", "", `lb_policy: least_request`, `{"lbPolicy":"LEAST_REQUEST"}`, cluster},
		{"enum in mixed case", "", `type: Strict_Dns`, `{"type":"STRICT_DNS"}`, cluster},
		{"enum as a number", "", `type: 3`, `{"type":"EDS"}`, cluster},
		{"enum as a number in quotes", "", `type: "3"`, `{"type":"EDS"}`, cluster},
		{"camelCase names", "", `connectTimeout: 1s`, `{"connectTimeout":"1s"}`, cluster},
		{"numbers as strings", "", `load_assignment: {endpoints: [{priority: "2"}]}`, `{"loadAssignment":{"endpoints":[{"priority":2}]}}`, cluster},
		{"exponent for an integer", "", `load_assignment: {endpoints: [{priority: 1e1}]}`, `{"loadAssignment":{"endpoints":[{"priority":10}]}}`, cluster},
		{"trailing commas", "f.json", `{"id": "a", "clientFeatures": ["x", "y",],}`, `{"id":"a","clientFeatures":["x","y"]}`, node},
		{"lenient duration in JSON", "f.json", `{"connect_timeout": {"seconds": "5"}}`, `{"connectTimeout":"5s"}`, cluster},
		{"null for a list", "", `client_features:`, `{}`, node},
		{"null for a message", "", `locality: ~`, `{}`, node},
		{"suffix in upper case", "F.YAML", `id: a`, `{"id":"a"}`, node},
	})
}

// Proves BS-10.
func TestYAMLScalarsInFields(t *testing.T) {
	address := func(v string) string { return "address: {socket_address: {port_value: " + v + "}}" }
	listener, node := &listenerv3.Listener{}, &corev3.Node{}
	checkPairs(t, []pair{
		{"quoted port", "", address(`"80"`), `{"address":{"socketAddress":{"portValue":80}}}`, listener},
		{"hexadecimal port", "", address(`0x50`), `{"address":{"socketAddress":{"portValue":80}}}`, listener},
		{"octal port", "", address(`0120`), `{"address":{"socketAddress":{"portValue":80}}}`, listener},
		{"exponent port", "", address(`1e3`), `{"address":{"socketAddress":{"portValue":1000}}}`, listener},
		{"yes", "", `use_original_dst: yes`, `{"useOriginalDst":true}`, listener},
		{"Off", "", `use_original_dst: Off`, `{"useOriginalDst":false}`, listener},
		{"quoted yes", "", `id: "yes"`, `{"id":"yes"}`, node},
		{"quoted number", "", `id: '12'`, `{"id":"12"}`, node},
		{"number with tag !!str", "", `id: !!str 12`, `{"id":"12"}`, node},
		{"block scalar", "", "id: |\n  12\n", `{"id":"12\n"}`, node},
		{
			"types in a Struct", "", `metadata: {a: yes, b: 1.5, c: 0x10, d: ~, e: .nan, f: "1", g: 3000000000, h: [1, x]}`,
			`{"metadata":{"a":true,"b":1.5,"c":16,"d":null,"e":".nan","f":"1","g":"3000000000","h":[1,"x"]}}`, node,
		},
	})
}

// Proves BS-11.
func TestAnchorsAliasesAndMerges(t *testing.T) {
	static := &bootstrapv3.Bootstrap{}
	checkPairs(t, []pair{
		{
			"anchor under an ignored key, used twice", "", `
!ignore defaults:
- &timeout 3s
- &base {connect_timeout: 1s, lb_policy: RANDOM}
static_resources:
  clusters:
  - {<<: *base, name: a}
  - {name: b, <<: *base, connect_timeout: *timeout}
`, `{"staticResources":{"clusters":[
			{"name":"a","connectTimeout":"1s","lbPolicy":"RANDOM"},
			{"name":"b","connectTimeout":"3s","lbPolicy":"RANDOM"}]}}`, static,
		},
		{
			"list of merges, the first wins", "", `
!ignore a: &a {id: a, cluster: ca}
!ignore b: &b {id: b, user_agent_name: ub}
node:
  <<: [*a, *b]
`, `{"node":{"id":"a","cluster":"ca","userAgentName":"ub"}}`, static,
		},
		{
			"written camelCase wins over merged snake_case", "", `
!ignore a: &a {user_agent_name: merged}
node: {userAgentName: written, <<: *a}
`, `{"node":{"userAgentName":"written"}}`, static,
		},
		{"quoted << is a key", "", `node: {metadata: {"<<": 1}}`, `{"node":{"metadata":{"<<":1}}}`, static},
	})
}

// Proves BS-12: the type alone picks the message, the name beside it is free,
// and an Any with two types or with none is an error.
func TestAnyByType(t *testing.T) {
	const url = "type.googleapis.com/"
	route := &routev3.Route{}
	checkPairs(t, []pair{
		{
			"@type need not come first", "", `
typed_per_filter_config:
  whatever:
    stat_prefix: p
    "@type": ` + url + `envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy`,
			`{"typedPerFilterConfig":{"whatever":{"@type":"` + url + `envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy","statPrefix":"p"}}}`, route,
		},
		{
			"message with a JSON form of its own", "",
			`typed_per_filter_config: {d: {"@type": ` + url + `google.protobuf.Duration, value: {seconds: 2}}}`,
			`{"typedPerFilterConfig":{"d":{"@type":"` + url + `google.protobuf.Duration","value":"2s"}}}`, route,
		},
		{
			"Struct", "",
			`typed_per_filter_config: {d: {"@type": ` + url + `google.protobuf.Struct, value: {a: [1]}}}`,
			`{"typedPerFilterConfig":{"d":{"@type":"` + url + `google.protobuf.Struct","value":{"a":[1]}}}}`, route,
		},
		{
			"Empty without value", "",
			`typed_per_filter_config: {d: {"@type": ` + url + `google.protobuf.Empty}}`,
			`{"typedPerFilterConfig":{"d":{"@type":"` + url + `google.protobuf.Empty","value":{}}}}`, route,
		},
		{
			"Any in an Any", "",
			`typed_per_filter_config: {d: {"@type": ` + url + `google.protobuf.Any, value: {"@type": ` + url + `google.protobuf.StringValue, value: x}}}`,
			`{"typedPerFilterConfig":{"d":{"@type":"` + url + `google.protobuf.Any","value":{"@type":"` + url + `google.protobuf.StringValue","value":"x"}}}}`, route,
		},
	})
	for lenient, code := range map[string]string{
		`typed_per_filter_config: {d: {}}`:                                                       configload.CodeMissingType,
		`typed_per_filter_config: {d: {stat_prefix: p}}`:                                         configload.CodeMissingType,
		`typed_per_filter_config: {d: {"@type": a/google.protobuf.Empty, "@type": a/acme.None}}`: configload.CodeDuplicateKey,
	} {
		_, errs := configload.Message("f.yaml", []byte(lenient), &routev3.Route{})
		if len(errs) != 1 || problemOf(t, errs[0]).Code != code || errs[0].Path != `typed_per_filter_config["d"]` {
			t.Errorf("%s: problems %v, want one with code %s", lenient, errs, code)
		}
	}
}

// Proves BS-13.
func TestTypedStruct(t *testing.T) {
	const (
		url  = "type.googleapis.com/"
		rbac = url + "envoy.extensions.filters.http.rbac.v3.RBAC"
		want = `{"typedPerFilterConfig":{"f":{"@type":"` + rbac + `","rules":{"action":"DENY","policies":{"p":{"principals":[{"any":true}]}}}}}}`
	)
	route := &routev3.Route{}
	yaml := func(outer string) string {
		return `typed_per_filter_config: {f: {"@type": ` + url + outer + `, type_url: ` + rbac +
			`, value: {rules: {action: deny, policies: {p: {principals: {any: yes}}}}}}}`
	}
	text := `typed_per_filter_config { key: "f" value { [` + url + `xds.type.v3.TypedStruct] { type_url: "` + rbac + `"
		value { fields { key: "rules" value { struct_value {
			fields { key: "action" value { string_value: "deny" } }
			fields { key: "policies" value { struct_value { fields { key: "p" value { struct_value {
				fields { key: "principals" value { list_value { values { struct_value { fields { key: "any" value { bool_value: true } } } } } } }
			} } } } } }
		} } } } } } }`
	unlinked := `{"typedPerFilterConfig":{"f":{"@type":"` + url + `xds.type.v3.TypedStruct","typeUrl":"` + url + `acme.Filter","value":{"a":1}}}}`
	checkPairs(t, []pair{
		{"udpa", "", yaml("udpa.type.v1.TypedStruct"), want, route},
		{"xds", "", yaml("xds.type.v3.TypedStruct"), want, route},
		{"text format", "f.pb_text", text, want, route},
		{"type that is not linked in stays", "f.json", unlinked, unlinked, route},
	})
	binary, err := proto.Marshal(decode(t, text, &routev3.Route{}, false))
	if err != nil {
		t.Fatal(err)
	}
	checkPairs(t, []pair{{"binary", "f.pb", string(binary), want, route}})
}

// Partly proves BS-06: the fields of the minimal ADS bootstraps load as written.
func TestMinimalBootstraps(t *testing.T) {
	checkPairs(t, []pair{{"one grpc_services, keepalives", "", `
dynamic_resources:
  ads_config: {api_type: GRPC, grpc_services: {envoy_grpc: {cluster_name: ads}}}
static_resources:
  clusters:
  - name: ads
    connect_timeout: {seconds: 5}
    http2_protocol_options: {connection_keepalive: {interval: 30s, timeout: 5s}}
    upstream_connection_options: {tcp_keepalive: {}}
`, `{"dynamicResources":{"adsConfig":{"apiType":"GRPC","grpcServices":[{"envoyGrpc":{"clusterName":"ads"}}]}},
"staticResources":{"clusters":[{"name":"ads","connectTimeout":"5s",
"http2ProtocolOptions":{"connectionKeepalive":{"interval":"30s","timeout":"5s"}},
"upstreamConnectionOptions":{"tcpKeepalive":{}}}]}}`, &bootstrapv3.Bootstrap{}}})
}

// Partly proves BS-07: the upgrade and the warning.
func TestHostsAreUpgraded(t *testing.T) {
	const hosts = `
name: c
hosts:
- socket_address: {address: 10.0.0.1, port_value: 1}
- socket_address: {address: 10.0.0.2, port_value: 2}
`
	const want = `{"name":"c","loadAssignment":{"clusterName":"c","endpoints":[{"lbEndpoints":[
		{"endpoint":{"address":{"socketAddress":{"address":"10.0.0.1","portValue":1}}}},
		{"endpoint":{"address":{"socketAddress":{"address":"10.0.0.2","portValue":2}}}}]}]}}`
	checkPairs(t, []pair{
		{"list", "", hosts, want, &clusterv3.Cluster{}},
		{
			"one host", "", `{name: c, hosts: {pipe: {path: /p}}}`,
			`{"name":"c","loadAssignment":{"clusterName":"c","endpoints":[{"lbEndpoints":[{"endpoint":{"address":{"pipe":{"path":"/p"}}}}]}]}}`, &clusterv3.Cluster{},
		},
	})
	ps, errs := configload.Message("f.yaml", []byte(hosts), &clusterv3.Cluster{})
	if len(errs) > 0 || len(ps.Warnings()) != 1 {
		t.Fatalf("problems %v, warnings %v; want one warning", errs, ps.Warnings())
	}
	if w := ps.Warnings()[0]; w.Pos.Line != 3 || problemOf(t, w).Code != configload.CodeDeprecated {
		t.Errorf("warning %v", w)
	}
	at := ps.Position("load_assignment.endpoints[0].lb_endpoints[1].endpoint.address.socket_address.port_value")
	if at.Line != 5 {
		t.Errorf("the second host's port is at %v, want line 5", at)
	}
}
