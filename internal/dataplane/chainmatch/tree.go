package chainmatch

import (
	"net/netip"
	"strings"

	"github.com/gaissmai/bart"
)

// The tree has one level per criterion. In every level the zero key (port 0,
// the empty string, an absent prefix) holds the chains that do not set the
// criterion.
type (
	portLevel      map[uint16]*prefixLevel[serverLevel]
	serverLevel    map[string]transportLevel
	transportLevel map[string]protocolLevel
	protocolLevel  map[string]*prefixLevel[*typeLevel]
	// typeLevel is indexed by FilterChainMatch.ConnectionSourceType; nil where
	// no chain asks for that type.
	typeLevel [sourceTypes]*prefixLevel[sourcePortLevel]
	// sourcePortLevel ends in the index of a chain.
	sourcePortLevel map[uint16]int
)

const sourceTypes = 3

// prefixLevel finds the longest prefix that contains an address.
type prefixLevel[V any] struct {
	unset    V
	hasUnset bool
	table    *bart.Table[V] // nil without prefixes
}

// get returns what holds the prefix, made by create when absent. An invalid
// prefix stands for "not set".
func (l *prefixLevel[V]) get(p netip.Prefix, create func() V) V {
	if !p.IsValid() {
		if !l.hasUnset {
			l.unset, l.hasUnset = create(), true
		}
		return l.unset
	}
	if l.table == nil {
		l.table = new(bart.Table[V])
	}
	v, ok := l.table.Get(p)
	if !ok {
		v = create()
		l.table.Insert(p, v)
	}
	return v
}

func (l *prefixLevel[V]) lookup(a netip.Addr) (V, bool) {
	if l.table != nil {
		if v, ok := l.table.Lookup(a); ok {
			return v, true
		}
	}
	return l.unset, l.hasUnset
}

// lookup tries the name itself, then each wildcard that covers it from the
// longest on, then the chains without server names. Wildcards are kept by
// their suffix: ".example.com" for "*.example.com".
func (l serverLevel) lookup(name string) (transportLevel, bool) {
	if v, ok := l[""]; ok && len(l) == 1 {
		return v, true // no chain asks for a name
	}
	if v, ok := l[name]; ok {
		return v, true
	}
	for at := nextDot(name, 1); at >= 0 && at < len(name)-1; at = nextDot(name, at+1) {
		if v, ok := l[name[at:]]; ok {
			return v, true
		}
	}
	v, ok := l[""]
	return v, ok
}

func nextDot(s string, from int) int {
	if from >= len(s) {
		return -1
	}
	i := strings.IndexByte(s[from:], '.')
	if i < 0 {
		return -1
	}
	return from + i
}

func (l transportLevel) lookup(name string) (protocolLevel, bool) {
	if v, ok := l[name]; ok {
		return v, true
	}
	v, ok := l[""]
	return v, ok
}

// lookup walks the client's list in its order and takes the first protocol
// that any chain lists.
func (l protocolLevel) lookup(offered []string) (*prefixLevel[*typeLevel], bool) {
	for _, p := range offered {
		if v, ok := l[p]; ok {
			return v, true
		}
	}
	v, ok := l[""]
	return v, ok
}

func (l sourcePortLevel) lookup(port uint16) (int, bool) {
	if v, ok := l[port]; ok {
		return v, true
	}
	v, ok := l[0]
	return v, ok
}
