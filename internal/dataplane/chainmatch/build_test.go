package chainmatch

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type object = map[string]any

func cidr(prefix string, bits int) []object {
	return []object{{"address_prefix": prefix, "prefix_len": bits}}
}

// Proves FC-03, FC-07, FC-08, FC-10 and FC-11. The texts are Envoy's, the
// names of overlapping chains excepted.
func TestConfigurationErrors(t *testing.T) {
	const overlap = "multiple filter chains with overlapping matching rules are defined"
	for _, c := range []struct {
		name   string
		chains []*listenerv3.FilterChain
		want   string
	}{
		{"no chains", nil, "no filter chains specified"},
		{
			"equal",
			[]*listenerv3.FilterChain{chain(t, "a", object{"destination_port": 1}), chain(t, "b", object{"destination_port": 1})},
			`filter chain 'b' has the same matching rules defined as 'a'. duplicate matcher is: {"destination_port":1}`,
		},
		{
			"two empty",
			[]*listenerv3.FilterChain{chain(t, "a", object{}), {Name: "b"}},
			`filter chain 'b' has the same matching rules defined as 'a'. duplicate matcher is: {}`,
		},
		{
			"overlapping names",
			[]*listenerv3.FilterChain{chain(t, "a", object{"server_names": []string{"a.com", "b.com"}}), chain(t, "b", object{"server_names": []string{"B.com"}})},
			overlap + ": 'a' and 'b'",
		},
		{
			"overlapping, unnamed",
			[]*listenerv3.FilterChain{chain(t, "", object{"server_names": []string{"a.com", "b.com"}}), chain(t, "", object{"server_names": []string{"b.com"}})},
			overlap + ": filter_chains[0] and filter_chains[1]",
		},
		{
			"the other order",
			[]*listenerv3.FilterChain{chain(t, "a", object{"source_ports": []int{1, 2}}), chain(t, "b", object{"source_ports": []int{2, 1}})},
			overlap + ": 'a' and 'b'",
		},
		{
			"overlap with the third",
			[]*listenerv3.FilterChain{chain(t, "a", object{"source_ports": []int{1, 2}}), chain(t, "b", object{"source_ports": []int{3}}), chain(t, "c", object{"source_ports": []int{4, 3}})},
			overlap + ": 'b' and 'c'",
		},
		{
			"overlapping protocols",
			[]*listenerv3.FilterChain{chain(t, "a", object{"application_protocols": []string{"h2", "h3"}}), chain(t, "b", object{"application_protocols": []string{"h3"}})},
			overlap + ": 'a' and 'b'",
		},
		{
			"overlapping addresses",
			[]*listenerv3.FilterChain{chain(t, "a", object{"prefix_ranges": cidr("10.1.1.1", 8)}), chain(t, "b", object{"prefix_ranges": cidr("10.2.2.2", 8)})},
			overlap + ": 'a' and 'b'",
		},
		{
			"overlapping sources",
			[]*listenerv3.FilterChain{chain(t, "a", object{"source_prefix_ranges": cidr("::1", 0)}), chain(t, "b", object{"source_prefix_ranges": cidr("::", 0)})},
			overlap + ": 'a' and 'b'",
		},
		{
			"overlapping direct sources",
			[]*listenerv3.FilterChain{chain(t, "a", object{"direct_source_prefix_ranges": cidr("10.0.0.1", 24)}), chain(t, "b", object{"direct_source_prefix_ranges": cidr("10.0.0.2", 24)})},
			overlap + ": 'a' and 'b'",
		},
		{
			"empty protocol",
			[]*listenerv3.FilterChain{chain(t, "a", object{"application_protocols": []string{""}}), chain(t, "b", object{})},
			overlap + ": 'a' and 'b'",
		},
		{
			"one value twice",
			[]*listenerv3.FilterChain{chain(t, "a", object{"server_names": []string{"a.com", "A.com"}})},
			overlap + ": 'a' lists a value twice",
		},
		{
			"star",
			[]*listenerv3.FilterChain{chain(t, "a", object{"server_names": []string{"*"}})},
			`filter_chains[0].filter_chain_match.server_names[0]: partial wildcards are not supported in "server_names": "*"`,
		},
		{
			"inner wildcard",
			[]*listenerv3.FilterChain{chain(t, "a", object{"server_names": []string{"a.x", "w*.x"}})},
			`server_names[1]: partial wildcards are not supported in "server_names": "w*.x"`,
		},
		{
			"second wildcard",
			[]*listenerv3.FilterChain{chain(t, "a", object{"server_names": []string{"*.a.*.x"}})},
			`partial wildcards are not supported in "server_names": "*.a.*.x"`,
		},
		{
			"wildcard of nothing",
			[]*listenerv3.FilterChain{chain(t, "a", object{"server_names": []string{"*."}})},
			`partial wildcards are not supported in "server_names": "*."`,
		},
		{"address suffix", []*listenerv3.FilterChain{chain(t, "a", object{"address_suffix": "0.0.0.1"})}, "filter chain 'a' contains unimplemented fields"},
		{"suffix length", []*listenerv3.FilterChain{chain(t, "a", object{"suffix_len": 8})}, "filter chain 'a' contains unimplemented fields"},
		{
			"names",
			[]*listenerv3.FilterChain{chain(t, "a", object{"destination_port": 1}), chain(t, "a", object{"destination_port": 2})},
			`filter_chains[1].name: "name" field is duplicated with value 'a'`,
		},
		{
			"address",
			[]*listenerv3.FilterChain{chain(t, "a", object{"prefix_ranges": cidr("10.0.0", 8)})},
			"filter_chains[0].filter_chain_match.prefix_ranges[0]: malformed IP address: 10.0.0",
		},
		{"source address", []*listenerv3.FilterChain{chain(t, "a", object{"source_prefix_ranges": cidr("x", 8)})}, "source_prefix_ranges[0]: malformed IP address: x"},
		{"direct source address", []*listenerv3.FilterChain{chain(t, "a", object{"direct_source_prefix_ranges": cidr("y", 8)})}, "direct_source_prefix_ranges[0]: malformed IP address: y"},
		{"port 0", []*listenerv3.FilterChain{chain(t, "a", object{"destination_port": 0})}, "destination_port: 0: value must be inside range [1, 65535]"},
		{"port too large", []*listenerv3.FilterChain{chain(t, "a", object{"source_ports": []int{1, 65536}})}, "source_ports[1]: 65536: value must be inside range [1, 65535]"},
		{"source type", []*listenerv3.FilterChain{{FilterChainMatch: &listenerv3.FilterChainMatch{SourceType: 7}}}, "source_type: 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(c.chains, false)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestAllErrorsAreReported(t *testing.T) {
	_, err := New([]*listenerv3.FilterChain{
		chain(t, "a", object{"server_names": []string{"*"}}),
		chain(t, "b", object{"address_suffix": "1"}),
		chain(t, "c", object{}), chain(t, "d", object{}),
	}, false)
	if err == nil {
		t.Fatal("no error")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != 3 {
		t.Errorf("%d errors: %v", got, err)
	}
}

// Proves FC-11 (unnamed chains are allowed).
func TestAcceptedConfigurations(t *testing.T) {
	for name, chains := range map[string][]*listenerv3.FilterChain{
		"unnamed":       {chain(t, "", object{"destination_port": 1}), chain(t, "", object{"destination_port": 2})},
		"families":      {chain(t, "a", object{"prefix_ranges": cidr("0.0.0.0", 0)}), chain(t, "b", object{"prefix_ranges": cidr("::", 0)})},
		"zone":          {chain(t, "a", object{"prefix_ranges": cidr("fe80::1%eth0", 64)})},
		"all and unset": {chain(t, "a", object{"prefix_ranges": cidr("0.0.0.0", 0)}), chain(t, "b", object{})},
		"source types":  {chain(t, "a", object{"source_type": 1}), chain(t, "b", object{"source_type": 2}), chain(t, "c", object{})},
	} {
		if _, err := New(chains, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

func TestForListener(t *testing.T) {
	l := &listenerv3.Listener{
		Address:             socketAddress("127.0.0.1", 80),
		AdditionalAddresses: []*listenerv3.AdditionalAddress{{Address: socketAddress("::1", 81)}},
		FilterChains:        []*listenerv3.FilterChain{chain(t, "a", object{})},
	}
	if _, err := ForListener(l, testEnv()); err != nil {
		t.Fatal(err)
	}
	l.FilterChains = nil
	wantError(t, l, "error adding listener '127.0.0.1:80,[::1]:81': no filter chains specified")
	l.DefaultFilterChain = &listenerv3.FilterChain{}
	if _, err := ForListener(l, testEnv()); err != nil {
		t.Fatal(err)
	}
	l.Address = &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/x"}}}
	l.AdditionalAddresses = nil
	l.FilterChains = []*listenerv3.FilterChain{{UseProxyProto: wrapperspb.Bool(false)}}
	wantError(t, l, "error adding listener '/run/x': filter_chains[0].use_proxy_proto: not implemented")
}

func wantError(t *testing.T, l *listenerv3.Listener, want string) {
	t.Helper()
	if _, err := ForListener(l, testEnv()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v\nwant %s", err, want)
	}
}
