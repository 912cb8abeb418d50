package matchtree

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
)

func (b *builder[D, A]) ranges(path string, m *xdsmatcherv3.IPMatcher, in Input[D], none *branch[D, A]) node[D, A] {
	out := &ranges[D, A]{input: in, none: none}
	keys := map[netip.Prefix][]rangeBranch[D, A]{}
	if len(m.GetRangeMatchers()) == 0 {
		b.fail(path, errors.New("the list is empty"))
	}
	for i, r := range m.GetRangeMatchers() {
		at := fmt.Sprintf("%s[%d]", path, i)
		then := rangeBranch[D, A]{b.branch(at+".on_match", r.GetOnMatch()), r.GetExclusive()}
		if len(r.GetRanges()) == 0 {
			b.fail(at+".ranges", errors.New("the list is empty"))
		}
		for n, c := range r.GetRanges() {
			p, err := cidr(c.GetAddressPrefix(), c.GetPrefixLen().GetValue())
			if err != nil {
				b.fail(fmt.Sprintf("%s.ranges[%d]", at, n), err)
				continue
			}
			keys[p] = append(keys[p], then)
		}
	}
	out.keys.keys = keys
	out.keys.index()
	return out
}

func (b *builder[D, A]) domains(path string, m *xdsmatcherv3.ServerNameMatcher, in Input[D], none *branch[D, A]) node[D, A] {
	out := &domains[D, A]{input: in, names: map[string]*branch[D, A]{}, wildcards: map[string]*branch[D, A]{}, none: none}
	if len(m.GetDomainMatchers()) == 0 {
		b.fail(path, errors.New("the list is empty"))
	}
	seen := map[string]bool{}
	for i, dm := range m.GetDomainMatchers() {
		at := fmt.Sprintf("%s[%d]", path, i)
		then := b.branch(at+".on_match", dm.GetOnMatch())
		if len(dm.GetDomains()) == 0 {
			b.fail(at+".domains", errors.New("the list is empty"))
		}
		for n, name := range dm.GetDomains() {
			if err := checkDomain(name); err != nil {
				b.fail(fmt.Sprintf("%s.domains[%d]", at, n), err)
				continue
			}
			if seen[name] {
				b.fail(fmt.Sprintf("%s.domains[%d]", at, n), fmt.Errorf("Duplicate domain in ServerNameMatcher: %s", name)) //nolint:staticcheck // Envoy's text
			}
			seen[name] = true
			out.add(name, then)
		}
	}
	return out
}

func (m *domains[D, A]) add(name string, then *branch[D, A]) {
	switch suffix, wildcard := strings.CutPrefix(name, "*."); {
	case name == "*":
		m.any = then
	case wildcard:
		m.wildcards[suffix] = then
	default:
		m.names[name] = then
	}
}

//nolint:staticcheck // Envoy's texts
func checkDomain(name string) error {
	rest, _ := strings.CutPrefix(name, "*.")
	switch {
	case name == "*":
		return nil
	case name == "":
		return errors.New("Empty domain in ServerNameMatcher")
	case rest == "" || strings.Contains(rest, "*"):
		return fmt.Errorf("Invalid wildcard domain format: %s. Only '*' and '*.domain' patterns are supported", name)
	}
	return nil
}
