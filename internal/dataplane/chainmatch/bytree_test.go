package chainmatch

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/ip/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/metadata/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func testEnv() Env {
	return Env{
		Unpack:  func(a *anypb.Any) (proto.Message, error) { return a.UnmarshalNew() },
		Counter: func(string) stats.Counter { return 0 },
	}
}

func listenerOf(t *testing.T, text string) *listenerv3.Listener {
	t.Helper()
	var plain any
	if err := yaml.Unmarshal([]byte(text), &plain); err != nil {
		t.Fatal(err)
	}
	v, err := structpb.NewValue(plain)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	l := &listenerv3.Listener{}
	if err := protojson.Unmarshal(raw, l); err != nil {
		t.Fatal(err)
	}
	return l
}

// tlv is a filter state with parts.
type tlv map[string]string

func (v tlv) Field(name string) (string, bool) { s, ok := v[name]; return s, ok }
func (v tlv) String() string                   { return "whole" }

// Proves FC-13 (each input, and what is there without a value).
func TestInputs(t *testing.T) {
	info := &filter.StreamInfo{}
	info.SetState("tlv", tlv{"zone": "z1"})
	info.SetState("text", "plain")
	info.SetState("mute", struct{}{})
	info.SetMetadata("n", "k", structpb.NewStringValue("v"))
	full := &Input{
		DestPort: 443, DestIP: netip.MustParseAddr("10.0.0.1"), SNI: "a.test", Transport: TLS, ALPN: []string{"h2", "http/1.1"},
		DirectSource: netip.MustParseAddr("192.0.2.9"), Source: netip.MustParseAddr("fd00::1"), SourcePort: 1, Stream: info,
	}
	local := &Input{DestIP: netip.MustParseAddr("10.0.0.1"), Source: netip.MustParseAddr("10.0.0.1"), Stream: &filter.StreamInfo{}}
	for _, c := range []struct {
		input, fields string
		in            *Input
		want          string // "-" is no value
	}{
		{"DestinationIPInput", "", full, "10.0.0.1"},
		{"DestinationPortInput", "", full, "443"},
		{"SourceIPInput", "", full, "fd00::1"},
		{"SourcePortInput", "", full, "1"},
		{"DirectSourceIPInput", "", full, "192.0.2.9"},
		{"SourceTypeInput", "", full, "-"},
		{"SourceTypeInput", "", local, "local"},
		{"SourceTypeInput", "", &Input{}, "local"}, // a UNIX socket
		{"ServerNameInput", "", full, "a.test"},
		{"TransportProtocolInput", "", full, "tls"},
		{"ApplicationProtocolInput", "", full, "'h2','http/1.1'"},
		{"FilterStateInput", "key: tlv", full, "whole"},
		{"FilterStateInput", "key: tlv, field: zone", full, "z1"},
		{"FilterStateInput", "key: tlv, field: other", full, "-"},
		{"FilterStateInput", "key: text, field: any", full, "plain"},
		{"FilterStateInput", "key: mute", full, "-"},
		{"FilterStateInput", "key: none", full, "-"},
		{"FilterStateInput", "key: none", local, "-"},
		{"FilterStateInput", "key: none", &Input{}, "-"},
		{"DestinationIPInput", "", &Input{}, "-"},
		{"DestinationPortInput", "", &Input{}, "-"},
		{"SourceIPInput", "", &Input{}, "-"},
		{"SourcePortInput", "", &Input{}, "-"},
		{"DirectSourceIPInput", "", &Input{}, "-"},
		{"ServerNameInput", "", &Input{}, "-"},
		{"TransportProtocolInput", "", &Input{}, "-"},
		{"ApplicationProtocolInput", "", &Input{}, "-"},
	} {
		l := listenerOf(t, strings.NewReplacer("INPUT", c.input, "FIELDS", c.fields, "WANT", strings.ReplaceAll(c.want, "'", "''")).Replace(`
filter_chains: [{name: equal}, {name: other}, {name: none}]
filter_chain_matcher:
  matcher_tree:
    input: &in {name: in, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.INPUT, FIELDS}}
    exact_match_map: {map: {'WANT': &equal {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: equal}}}}}
  on_no_match:
    matcher:
      matcher_tree:
        input: *in
        prefix_match_map: {map: {"": {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: other}}}}}
      on_no_match: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: none}}}
`))
		m, err := ForListener(l, testEnv())
		if err != nil {
			t.Fatal(c.input, err)
		}
		want := 0
		if c.want == "-" {
			want = 2
		}
		if got := m.Match(c.in); got != want {
			t.Errorf("%s {%s} of %+v: chain %d, want %d for %q", c.input, c.fields, c.in, got, want, c.want)
		}
	}
}

// Proves FC-13 (dynamic metadata).
func TestMetadataInput(t *testing.T) {
	l := listenerOf(t, `
filter_chains: [{name: a}]
filter_chain_matcher:
  matcher_list:
    matchers:
    - predicate:
        single_predicate:
          input: {name: in, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.DynamicMetadataInput, filter: n, path: [{key: k}, {key: l}]}}
          custom_match: {name: m, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.input_matchers.metadata.v3.Metadata, value: {string_match: {exact: v}}}}
      on_match: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: a}}}
`)
	m, err := ForListener(l, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	info, flat := &filter.StreamInfo{}, &filter.StreamInfo{}
	info.SetMetadata("n", "k", structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"l": structpb.NewStringValue("v")}}))
	flat.SetMetadata("n", "k", structpb.NewStringValue("v"))
	for _, c := range []struct {
		in   *Input
		want int
	}{{&Input{Stream: info}, 0}, {&Input{Stream: flat}, -1}, {&Input{Stream: &filter.StreamInfo{}}, -1}, {&Input{}, -1}} {
		if got := m.Match(c.in); got != c.want {
			t.Errorf("chain %d, want %d", got, c.want)
		}
	}
}

// Proves FC-13 (names, and what has no effect).
func TestTreeChoosesByName(t *testing.T) {
	l := listenerOf(t, `
filter_chains: [{name: a, filter_chain_match: {destination_port: 1}}, {name: b, filter_chain_match: {destination_port: 1, server_names: [x]}}]
filter_chain_matcher:
  matcher_tree:
    input: {name: in, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.ServerNameInput}}
    exact_match_map:
      map:
        x: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: b}}}
        y: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: nobody}}}
`)
	m, err := ForListener(l, testEnv())
	if err != nil {
		t.Fatal(err)
	}
	for sni, want := range map[string]int{"x": 1, "y": NoSuchChain, "z": -1} {
		if got := m.Match(&Input{DestPort: 1, SNI: sni}); got != want {
			t.Errorf("%s: chain %d, want %d", sni, got, want)
		}
	}
	if !m.LooksIntoTLS() || !m.NeedsTLSInspector() {
		t.Error("it does not say that it looks into TLS")
	}
	want := []string{
		`filter_chain_matcher: there is no filter chain "nobody": connections that are led to it are closed`,
		"filter_chains[0].filter_chain_match has no effect: filter_chain_matcher decides",
		"filter_chains[1].filter_chain_match has no effect: filter_chain_matcher decides",
	}
	if got := slices.Sorted(slices.Values(m.Notes())); !slices.Equal(got, want) {
		t.Errorf("notes\n%s", strings.Join(got, "\n"))
	}
}

// Proves FC-13 (what is counted).
func TestTreeCounts(t *testing.T) {
	l := listenerOf(t, `
filter_chains: [{name: a}]
filter_chain_matcher:
  matcher_list:
    matchers:
    - predicate:
        single_predicate:
          input: {name: in, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.ServerNameInput}}
          custom_match: {name: m, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.input_matchers.ip.v3.Ip, stat_prefix: p, cidr_ranges: [{address_prefix: "::"}]}}
      on_match: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: a}}}
`)
	r, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	shard := r.NewShard(func(f func()) bool { go f(); return true })
	env := testEnv()
	env.Counter = r.Scope("").Counter
	m, err := ForListener(l, env)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Match(&Input{SNI: "no.address", Stats: shard}); got != -1 {
		t.Errorf("chain %d", got)
	}
	if got := m.Match(&Input{SNI: "no.address"}); got != -1 {
		t.Errorf("chain %d", got)
	}
	snap, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := snap.Counter(r.Scope("").Counter("p.ip_parsing_failed")); got != 1 {
		t.Errorf("counted %d", got)
	}
}

// Proves FC-13 (what is refused).
func TestTreeErrors(t *testing.T) {
	raw, err := os.ReadFile("testdata/trees.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Listener any
		Want     []string
	}
	if err := yaml.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		text, err := yaml.Marshal(c.Listener)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ForListener(listenerOf(t, string(text)), testEnv())
		if err == nil {
			t.Errorf("%d: taken", i)
			continue
		}
		if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, c.Want) {
			t.Errorf("%d: got\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(c.Want, "\n"))
		}
	}
}
