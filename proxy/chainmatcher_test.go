package proxy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

// chainMatcher leads by a part of what a PROXY header says, kept as filter state.
const (
	statedHeader = `listener_filters: [{name: proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol,
	  allow_requests_without_proxy_protocol: true, tlv_location: FILTER_STATE, rules: [{tlv_type: 5, on_tlv_present: {key: zone}}]}}]`
	byZone = `filter_chain_matcher: {matcher_tree: {
	  input: {name: zone, typed_config: {"@type": type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.FilterStateInput, key: envoy.network.proxy_protocol.tlv, field: zone}},
	  exact_match_map: {map: {left: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: left}}},
	    gone: {action: {name: a, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: gone}}}}}}}`
	leftAndDefault = "{name: left, filters: [" + echoFilter + "]}"
)

// Proves FC-13 and LF-09 (rules into the filter state), partly proves AL-04: %FILTER_STATE(…:FIELD:…)%
// of what the header's rules kept.
func TestChainByMatcher(t *testing.T) {
	log := &syncBuffer{}
	r := start(t, bootstrapOf(listenChains("l", leftAndDefault, byZone, statedHeader,
		"default_filter_chain: {name: other, filters: ["+echoFilter+"]}",
		logTo("log", "%FILTER_CHAIN_NAME% %FILTER_STATE(envoy.network.proxy_protocol.tlv:FIELD:zone)% %FILTER_STATE(envoy.network.proxy_protocol.tlv:FIELD:else)% %FILTER_STATE(envoy.network.proxy_protocol.tlv:PLAIN)%")), ""), logged(log))
	header := func(zone string) string {
		return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x13\x0a\x00\x00\x01\x0a\x00\x00\x02\x00\x05\x00\x50\x05\x00\x04" + zone
	}
	for _, zone := range []string{"left", "near"} {
		c := r.dial(t, "l")
		say(t, c, header(zone)+"hello")
		hear(t, c, "hello")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		r.until(t, "listener.l.downstream_cx_active: 0")
	}
	c := r.dial(t, "l")
	say(t, c, header("gone")+"hello")
	hear(t, c, "")
	r.until(t, "listener.l.no_filter_chain_match: 1")
	r.finish(t)
	want := "log left left - {\"zone\":\"left\"}\nlog other near - {\"zone\":\"near\"}\nlog - gone - {\"zone\":\"gone\"}\n"
	if got := log.String(); got != want {
		t.Errorf("log:\n%s\nwant\n%s", got, want)
	}
	if got := r.log.String(); !strings.Contains(got, `there is no filter chain`) {
		t.Errorf("nothing says that a chain is missing:\n%s", got)
	}
}

// toChain leads everybody from an address to a chain.
func toChain(address, chain string) *xdsmatcherv3.Matcher {
	return &xdsmatcherv3.Matcher{MatcherType: &xdsmatcherv3.Matcher_MatcherTree_{MatcherTree: &xdsmatcherv3.Matcher_MatcherTree{
		Input: &xdscorev3.TypedExtensionConfig{Name: "in", TypedConfig: packed(&networkv3.SourceIPInput{})},
		TreeType: &xdsmatcherv3.Matcher_MatcherTree_ExactMatchMap{ExactMatchMap: &xdsmatcherv3.Matcher_MatcherTree_MatchMap{Map: map[string]*xdsmatcherv3.Matcher_OnMatch{
			address: {OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{Action: &xdscorev3.TypedExtensionConfig{Name: "filter-chain-name", TypedConfig: packed(wrapperspb.String(chain))}}},
		}}},
	}}}
}

// Proves LM-05 (of the matcher): when only it changes, connections stay as they are, and
// new ones are led by the new one.
func TestMatcherChangesInPlace(t *testing.T) {
	r := start(t, byHeader, newSource().by, drainingAtOnce)
	res := r.Resources()
	at := freeAddress(t)
	chain := func(name string) *listenerv3.FilterChain {
		c := chainOf(manager(with(saying("r", name))))
		c.Name = name
		return c
	}
	by := func(m *xdsmatcherv3.Matcher) *listenerv3.Listener {
		l := listenerAt("l", at, chain("a"), chain("b"))
		l.FilterChainMatcher = m
		return l
	}
	must(t, res.SetListener(by(toChain("127.0.0.2", "a")), "1"))
	first := dialLine(t, at, "127.0.0.2")
	first.expect(t, "a", true)
	must(t, res.SetListener(by(toChain("127.0.0.2", "b")), "2"))
	dialLine(t, at, "127.0.0.2").expect(t, "b", true)
	first.expect(t, "a", true)
	if err := res.SetListener(by(&xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{}}), "3"); err == nil || !strings.Contains(err.Error(), "Matcher_OnMatch.OnMatch: value is required") {
		t.Errorf("got %v", err)
	}
	dialLine(t, at, "127.0.0.2").expect(t, "b", true)
	if got := r.get(t, "/stats?filter=^listener_manager.listener_in_place_updated$"); got != "listener_manager.listener_in_place_updated: 1\n" {
		t.Error(got)
	}
}

// Proves FC-15: it is refused, for Envoy has taken the field away.
func TestOnDemandChainsAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "envoy.yaml")
	text := bootstrapOf(listenChains("l", "{on_demand_configuration: {}, filters: ["+echoFilter+"]}"), "")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := proxyrun.Load(proxyrun.Flags{ConfigPath: path, Concurrency: 1, LogLevel: "info"}, proxyrun.Environment{})
	if err == nil || !strings.Contains(err.Error(), "filter_chains[0].on_demand_configuration") {
		t.Errorf("got %v", err)
	}
}
