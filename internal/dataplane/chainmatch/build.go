package chainmatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// New compiles the chains of a listener that has no filter_chain_matcher; hasDefault says whether it has a
// default_filter_chain. The chains are only read, and only during the call.
//
// Errors have Envoy's texts without its "error adding listener '<address>': ",
// which [ForListener] adds. All wrong chains are reported, joined. Two names
// are more than Envoy gives: of the chains that overlap. Stricter than Envoy:
// chains of one name, and a "*" inside a "*." server name, are refused.
// Source: spec FC-07, FC-08, FC-10, FC-11.
func New(chains []*listenerv3.FilterChain, hasDefault bool) (*Matcher, error) {
	if len(chains) == 0 && !hasDefault {
		return nil, errors.New("no filter chains specified")
	}
	b := builder{chains: chains, m: &Matcher{ports: portLevel{}}}
	b.checkNames()
	b.checkEqual()
	for i, c := range chains {
		if err := b.add(i, c.GetFilterChainMatch()); err != nil {
			b.errs = append(b.errs, err)
		}
	}
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	return b.m, nil
}

type builder struct {
	chains []*listenerv3.FilterChain
	m      *Matcher
	errs   []error
	// equal marks chains whose match equals an earlier one: reported once, not
	// as an overlap as well.
	equal map[int]bool
}

// label names a chain in an error: its name, or its place when it has none.
func (b *builder) label(i int) string {
	if n := b.chains[i].GetName(); n != "" {
		return "'" + n + "'"
	}
	return fmt.Sprintf("filter_chains[%d]", i)
}

func (b *builder) checkNames() {
	seen := map[string]int{}
	for i, c := range b.chains {
		name := c.GetName()
		if name == "" {
			continue
		}
		if first, ok := seen[name]; ok {
			b.errs = append(b.errs, fmt.Errorf(
				`filter_chains[%d].name: "name" field is duplicated with value '%s' (first used by filter_chains[%d])`, i, name, first))
			continue
		}
		seen[name] = i
	}
}

// checkEqual finds chains with the same match message, which Envoy reports
// with the message itself.
func (b *builder) checkEqual() {
	seen, equal := map[string]int{}, map[int]bool{}
	for i, c := range b.chains {
		match := c.GetFilterChainMatch()
		if match == nil {
			match = &listenerv3.FilterChainMatch{}
		}
		key, err := proto.MarshalOptions{Deterministic: true}.Marshal(match)
		if err != nil {
			b.errs = append(b.errs, fmt.Errorf("filter_chains[%d].filter_chain_match: %w", i, err))
			continue
		}
		first, ok := seen[string(key)]
		if !ok {
			seen[string(key)] = i
			continue
		}
		equal[i] = true
		b.errs = append(b.errs, fmt.Errorf("filter chain %s has the same matching rules defined as %s. duplicate matcher is: %s",
			b.label(i), b.label(first), compactJSON(match)))
	}
	b.equal = equal
}

func compactJSON(m proto.Message) string {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return string(text)
	}
	return out.String()
}

// rule is a match with its lists in the form the tree wants: never empty, one
// zero element standing for "not set".
type rule struct {
	chain                       int
	destPort                    uint16
	dest, direct, source        []netip.Prefix
	servers, protocols          []string
	transport                   string
	sourceType                  listenerv3.FilterChainMatch_ConnectionSourceType
	sourcePorts                 []uint16
	overlaps                    int // another chain with one of the same leaves
	overlapping, overlapsItself bool
}

func (b *builder) add(i int, match *listenerv3.FilterChainMatch) error {
	if match.GetAddressSuffix() != "" || match.GetSuffixLen() != nil {
		return fmt.Errorf("filter chain %s contains unimplemented fields (address_suffix, suffix_len: remove them)", b.label(i))
	}
	r, err := newRule(i, match)
	if err != nil {
		return fmt.Errorf("filter_chains[%d].filter_chain_match.%w", i, err)
	}
	b.m.needsTLS = b.m.needsTLS || needsTLS(match)
	if b.equal[i] {
		return nil
	}
	b.insert(r)
	const text = "multiple filter chains with overlapping matching rules are defined"
	switch {
	case r.overlapsItself:
		return fmt.Errorf("%s: %s lists a value twice", text, b.label(i))
	case r.overlapping:
		return fmt.Errorf("%s: %s and %s", text, b.label(r.overlaps), b.label(i))
	}
	return nil
}

// needsTLS reports whether only a ClientHello can show what a match asks for.
func needsTLS(match *listenerv3.FilterChainMatch) bool {
	named := len(match.GetServerNames()) > 0 || len(match.GetApplicationProtocols()) > 0
	return match.GetTransportProtocol() == TLS || match.GetTransportProtocol() == "" && named
}

func newRule(i int, match *listenerv3.FilterChainMatch) (*rule, error) {
	r := &rule{chain: i, transport: match.GetTransportProtocol(), sourceType: match.GetSourceType()}
	if r.sourceType < 0 || r.sourceType >= sourceTypes {
		return nil, fmt.Errorf("source_type: %d is not one of ANY, SAME_IP_OR_LOOPBACK, EXTERNAL", r.sourceType)
	}
	var err error
	if p := match.GetDestinationPort(); p != nil {
		if r.destPort, err = port(p.GetValue()); err != nil {
			return nil, fmt.Errorf("destination_port: %w", err)
		}
	}
	for n, v := range match.GetSourcePorts() {
		p, err := port(v)
		if err != nil {
			return nil, fmt.Errorf("source_ports[%d]: %w", n, err)
		}
		r.sourcePorts = append(r.sourcePorts, p)
	}
	if r.dest, err = prefixes("prefix_ranges", match.GetPrefixRanges()); err != nil {
		return nil, err
	}
	if r.direct, err = prefixes("direct_source_prefix_ranges", match.GetDirectSourcePrefixRanges()); err != nil {
		return nil, err
	}
	if r.source, err = prefixes("source_prefix_ranges", match.GetSourcePrefixRanges()); err != nil {
		return nil, err
	}
	if r.servers, err = serverNames(match.GetServerNames()); err != nil {
		return nil, err
	}
	r.protocols = orUnset(match.GetApplicationProtocols())
	r.sourcePorts = orUnset(r.sourcePorts)
	return r, nil
}

func orUnset[T any](list []T) []T {
	if len(list) == 0 {
		return make([]T, 1)
	}
	return list
}

func port(v uint32) (uint16, error) {
	if v < 1 || v > 65535 {
		return 0, fmt.Errorf("%d: value must be inside range [1, 65535]", v)
	}
	return uint16(v), nil
}

// prefixes reads CIDR ranges as Envoy does: host bits are dropped, a length
// beyond the address is the whole address, an absent length is 0.
func prefixes(field string, ranges []*corev3.CidrRange) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, max(1, len(ranges)))
	for i, r := range ranges {
		addr, err := netip.ParseAddr(r.GetAddressPrefix())
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: malformed IP address: %s", field, i, r.GetAddressPrefix())
		}
		addr = addr.WithZone("")
		bits := min(int(r.GetPrefixLen().GetValue()), addr.BitLen())
		out = append(out, netip.PrefixFrom(addr, bits).Masked())
	}
	if len(out) == 0 {
		out = append(out, netip.Prefix{})
	}
	return out, nil
}

// serverNames turns names into keys of serverLevel.
func serverNames(names []string) ([]string, error) {
	out := make([]string, 0, max(1, len(names)))
	for i, name := range names {
		key := lower(name)
		if rest, wildcard := strings.CutPrefix(key, "*."); wildcard && rest != "" {
			key = key[1:]
		}
		if strings.Contains(key, "*") {
			return nil, fmt.Errorf(`server_names[%d]: partial wildcards are not supported in "server_names": %q (write "*.domain", or leave server_names out to match any name)`, i, name)
		}
		out = append(out, key)
	}
	return orUnset(out), nil
}

// lower maps ASCII only, as clients and inspectors do.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
