package matchtree

import (
	"fmt"
	"iter"
	"net/netip"
)

// rangeMap finds the ranges that contain an address: one look-up for each length that
// occurs.
type rangeMap[V any] struct {
	keys    map[netip.Prefix]V
	lengths [2][]int // of IPv4 and of IPv6, the longest first
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// index is to be called once keys are complete.
func (m *rangeMap[V]) index() {
	for p := range m.keys {
		f := family(p.Addr())
		m.lengths[f] = append(m.lengths[f], p.Bits())
	}
	for f := range m.lengths {
		m.lengths[f] = descending(m.lengths[f])
	}
}

// containing goes over what there is for the ranges around an address, the longest
// first.
func (m *rangeMap[V]) containing(addr netip.Addr) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, n := range m.lengths[family(addr)] {
			key, _ := addr.Prefix(n) // of its own family, so that the length fits
			if v, ok := m.keys[key]; ok && !yield(v) {
				return
			}
		}
	}
}

// cidr reads a range as Envoy does: host bits are dropped, a length beyond the address
// is the whole address, an absent length is 0.
func cidr(address string, bits uint32) (netip.Prefix, error) {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("address_prefix: malformed IP address: %s", address)
	}
	addr = addr.WithZone("")
	return netip.PrefixFrom(addr, int(min(bits, uint32(addr.BitLen())))).Masked(), nil //nolint:gosec // at most 128
}
