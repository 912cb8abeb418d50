package chainmatch

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// leaf is one combination of single values of a chain's criteria.
type leaf struct {
	chain                int
	port                 uint32
	dest, direct, source *corev3.CidrRange
	server, transport    string
	protocol             string
	kind                 listenerv3.FilterChainMatch_ConnectionSourceType
	sourcePort           uint32
}

func leaves(chains []*listenerv3.FilterChain) []leaf {
	var out []leaf
	for i, c := range chains {
		m := c.GetFilterChainMatch()
		for _, dest := range orUnset(m.GetPrefixRanges()) {
			for _, server := range orUnset(m.GetServerNames()) {
				for _, protocol := range orUnset(m.GetApplicationProtocols()) {
					for _, direct := range orUnset(m.GetDirectSourcePrefixRanges()) {
						for _, source := range orUnset(m.GetSourcePrefixRanges()) {
							for _, port := range orUnset(m.GetSourcePorts()) {
								out = append(out, leaf{
									i, m.GetDestinationPort().GetValue(), dest, direct, source,
									server, m.GetTransportProtocol(), protocol, m.GetSourceType(), port,
								})
							}
						}
					}
				}
			}
		}
	}
	return out
}

// prune keeps the leaves with the highest score; a negative score is a
// mismatch.
func prune(in []leaf, score func(leaf) int) []leaf {
	var out []leaf
	best := 0
	for _, l := range in {
		switch s := score(l); {
		case s < best:
		case s > best:
			best, out = s, []leaf{l}
		default:
			out = append(out, l)
		}
	}
	return out
}

func scorePrefix(r *corev3.CidrRange, a netip.Addr) int {
	if r == nil {
		return 0
	}
	p := netip.PrefixFrom(netip.MustParseAddr(r.GetAddressPrefix()), int(r.GetPrefixLen().GetValue()))
	if !p.Contains(a) {
		return -1
	}
	return 1 + p.Bits()
}

func scoreServer(pattern, name string) int {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	switch {
	case pattern == "":
		return 0
	case !wildcard && pattern == name:
		return 1000
	case wildcard && len(name) > len(suffix) && strings.HasSuffix(name, suffix):
		return len(suffix)
	}
	return -1
}

func scoreEqual[T comparable](pattern, value T) int {
	var unset T
	switch pattern {
	case unset:
		return 0
	case value:
		return 1
	}
	return -1
}

func scoreType(kind listenerv3.FilterChainMatch_ConnectionSourceType, in *Input) int {
	local := in.Source == in.DestIP || in.Source == netip.MustParseAddr("127.0.0.1")
	switch {
	case kind == listenerv3.FilterChainMatch_ANY:
		return 0
	case local == (kind == listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK):
		return 1
	}
	return -1
}

// reference follows the text of FilterChainMatch: prune the set of chains by
// one criterion after the other.
func reference(chains []*listenerv3.FilterChain, in *Input) int {
	set := leaves(chains)
	for _, score := range []func(leaf) int{
		func(l leaf) int { return scoreEqual(l.port, uint32(in.DestPort)) },
		func(l leaf) int { return scorePrefix(l.dest, in.DestIP) },
		func(l leaf) int { return scoreServer(l.server, in.SNI) },
		func(l leaf) int { return scoreEqual(l.transport, in.Transport) },
		func(l leaf) int {
			if l.protocol == "" {
				return 0
			}
			if at := slices.Index(in.ALPN, l.protocol); at >= 0 {
				return 100 - at
			}
			return -1
		},
		func(l leaf) int { return scorePrefix(l.direct, in.DirectSource) },
		func(l leaf) int { return scoreType(l.kind, in) },
		func(l leaf) int { return scorePrefix(l.source, in.Source) },
		func(l leaf) int { return scoreEqual(l.sourcePort, uint32(in.SourcePort)) },
	} {
		set = prune(set, score)
	}
	if len(set) == 0 {
		return -1
	}
	return set[0].chain
}

func someOf[T any](t *rapid.T, label string, from []T) []T {
	if rapid.IntRange(0, 2).Draw(t, label+"?") > 0 {
		return nil
	}
	var out []T
	for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(from)-1), 1, 2, rapid.ID[int]).Draw(t, label) {
		out = append(out, from[i])
	}
	return out
}

func drawRange(prefix string, bits uint32) *corev3.CidrRange {
	return &corev3.CidrRange{AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(bits)}
}

func drawChain(t *rapid.T) *listenerv3.FilterChain {
	ranges := []*corev3.CidrRange{
		drawRange("10.0.0.0", 8), drawRange("10.1.0.0", 16), drawRange("10.1.1.1", 32),
		drawRange("0.0.0.0", 0), drawRange("2001:db8::", 32), drawRange("127.0.0.0", 8),
	}
	m := &listenerv3.FilterChainMatch{
		PrefixRanges:             someOf(t, "dest", ranges),
		DirectSourcePrefixRanges: someOf(t, "direct", ranges),
		SourcePrefixRanges:       someOf(t, "source", ranges),
		ServerNames:              someOf(t, "names", []string{"a.com", "w.a.com", "*.a.com", "*.w.a.com", "*.com", "b.org"}),
		ApplicationProtocols:     someOf(t, "protocols", []string{"h2", "http/1.1", "x"}),
		SourcePorts:              someOf(t, "ports", []uint32{1, 2, 3}),
		TransportProtocol:        rapid.SampledFrom([]string{"", "", "tls", "raw_buffer"}).Draw(t, "transport"),
		SourceType:               listenerv3.FilterChainMatch_ConnectionSourceType(rapid.SampledFrom([]int32{0, 0, 1, 2}).Draw(t, "type")),
	}
	if p := rapid.SampledFrom([]uint32{0, 0, 80, 443}).Draw(t, "port"); p != 0 {
		m.DestinationPort = wrapperspb.UInt32(p)
	}
	return &listenerv3.FilterChain{FilterChainMatch: m}
}

func drawInput(t *rapid.T) *Input {
	addr := func(label string) netip.Addr {
		return netip.MustParseAddr(rapid.SampledFrom([]string{
			"10.1.1.1", "10.1.2.2", "10.2.2.2", "192.0.2.1",
			"127.0.0.1", "127.0.0.2", "2001:db8::1", "2001:db9::1",
		}).Draw(t, label))
	}
	return &Input{
		DestPort: rapid.SampledFrom([]uint16{80, 443, 8080}).Draw(t, "dest port"), DestIP: addr("dest ip"),
		SNI:       rapid.SampledFrom([]string{"", "a.com", "w.a.com", "x.w.a.com", "x.com", "b.org", "c.net"}).Draw(t, "sni"),
		Transport: rapid.SampledFrom([]string{"tls", "raw_buffer"}).Draw(t, "detected"),
		ALPN:      rapid.SampledFrom([][]string{nil, {"h2"}, {"http/1.1", "h2"}, {"x", "h2"}, {"y"}}).Draw(t, "alpn"),

		DirectSource: addr("direct ip"), Source: addr("source ip"),
		SourcePort: rapid.SampledFrom([]uint16{1, 2, 3, 4}).Draw(t, "source port"),
	}
}

// Proves FC-01, FC-02 and FC-09: for any set of chains the matcher and a
// pruning of the set, criterion by criterion, agree. FC-08: a set is refused
// exactly when two of its leaves are equal.
func TestMatchAgreesWithPruning(t *testing.T) {
	matched, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		chains := rapid.SliceOfN(rapid.Custom(drawChain), 1, 8).Draw(t, "chains")
		if rapid.IntRange(0, 3).Draw(t, "twin") == 0 {
			chains = append(chains, rapid.SampledFrom(chains).Draw(t, "of"))
		}
		m, err := New(chains, false)
		if ambiguous := hasEqualLeaves(chains); ambiguous != (err != nil) {
			t.Fatalf("ambiguous: %v, error: %v", ambiguous, err)
		}
		if err != nil {
			refused++
			return
		}
		for range 20 {
			in := drawInput(t)
			want := reference(chains, in)
			if got := m.Match(in); got != want {
				t.Fatalf("%+v gets %d, want %d", in, got, want)
			}
			if want >= 0 {
				matched++
			}
		}
	})
	if matched == 0 || refused == 0 {
		t.Errorf("%d matches, %d refusals: the property was not put to the test", matched, refused)
	}
}

func hasEqualLeaves(chains []*listenerv3.FilterChain) bool {
	type key struct {
		leaf
		dest, direct, source string
	}
	seen := map[key]bool{}
	for _, l := range leaves(chains) {
		k := key{l, l.dest.String(), l.direct.String(), l.source.String()}
		k.leaf.chain, k.leaf.dest, k.leaf.direct, k.leaf.source = 0, nil, nil, nil
		if seen[k] {
			return true
		}
		seen[k] = true
	}
	return false
}
