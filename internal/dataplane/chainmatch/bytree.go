package chainmatch

import (
	"errors"
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/matchtree"
)

// NoSuchChain is what a filter_chain_matcher decides on by a name that no chain has: there is no default then.
const NoSuchChain = -2

// newTree compiles a filter_chain_matcher: chains have names there, and what their own
// filter_chain_match says has no effect. Source: spec FC-13.
func newTree(l *listenerv3.Listener, env Env) (*Matcher, error) {
	m := &Matcher{}
	names, err := m.named(l.GetFilterChains())
	errs := []error{err}
	looksIntoTLS := false
	m.tree, err = matchtree.New("filter_chain_matcher", l.GetFilterChainMatcher(), matchtree.Env[*Input, int]{
		Unpack: env.Unpack,
		Input: func(cfg proto.Message) (treeInput, bool, error) {
			switch cfg.(type) {
			case *networkv3.ServerNameInput, *networkv3.TransportProtocolInput, *networkv3.ApplicationProtocolInput:
				looksIntoTLS = true
			}
			return treeInputOf(cfg)
		},
		Action: func(cfg proto.Message) (int, bool, error) {
			name, ok := cfg.(*wrapperspb.StringValue)
			if !ok {
				return 0, false, nil
			}
			i, ok := names[name.GetValue()]
			if !ok {
				m.notes = append(m.notes, fmt.Sprintf("filter_chain_matcher: there is no filter chain %q: connections that are led to it are closed", name.GetValue()))
				i = NoSuchChain
			}
			return i, true, nil
		},
		Count: func(counter string) func(*Input) {
			c := env.Counter(counter)
			return func(in *Input) {
				if in.Stats != nil {
					in.Stats.Inc(c)
				}
			}
		},
	})
	m.looksIntoTLS = looksIntoTLS
	return m, errors.Join(append(errs, err)...)
}

// named numbers chains by name; each must have one of its own.
func (m *Matcher) named(chains []*listenerv3.FilterChain) (map[string]int, error) {
	var errs []error
	names := make(map[string]int, len(chains))
	for i, c := range chains {
		name := c.GetName()
		first, taken := names[name]
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf(`filter_chains[%d].name: "name" field is required when using a listener matcher`, i))
		case taken:
			errs = append(errs, fmt.Errorf(`filter_chains[%d].name: "name" field is duplicated with value '%s' (first used by filter_chains[%d])`, i, name, first))
		default:
			names[name] = i
		}
		match := c.GetFilterChainMatch()
		if match == nil {
			continue
		}
		if match.GetAddressSuffix() != "" || match.GetSuffixLen() != nil {
			errs = append(errs, fmt.Errorf("filter chain '%s' contains unimplemented fields (address_suffix, suffix_len: remove them)", name))
		}
		m.needsTLS = m.needsTLS || needsTLS(match)
		m.notes = append(m.notes, fmt.Sprintf("filter_chains[%d].filter_chain_match has no effect: filter_chain_matcher decides", i))
	}
	return names, errors.Join(errs...)
}

// byTree is Match by a filter_chain_matcher.
func (m *Matcher) byTree(in *Input) int {
	if i, ok := m.tree.Match(in); ok {
		return i
	}
	return -1
}

// Notes are what the owner of the configuration should know of it, each a sentence.
func (m *Matcher) Notes() []string { return m.notes }

// LooksIntoTLS reports whether a filter_chain_matcher looks at what only listener
// filters find out: server name, transport protocol or application protocols.
func (m *Matcher) LooksIntoTLS() bool { return m.looksIntoTLS }
