package cluster

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
)

// The hosts that are found again are those that a search by key alone finds.
func TestLeftoverFindsHostsByTheirKeys(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) hostSpec {
		s := hostSpec{logical: rapid.IntRange(0, 9).Draw(t, "logical") == 0, hostname: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "hostname")}
		at := func() filter.Address {
			return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, rapid.Byte().Draw(t, "address")}), 80))
		}
		if s.where.first = at(); rapid.IntRange(0, 4).Draw(t, "more") == 0 {
			s.where.more = []filter.Address{at()}
		}
		if rapid.IntRange(0, 4).Draw(t, "check") == 0 {
			s.check = &checkTarget{port: rapid.Uint16Range(1, 2).Draw(t, "port")}
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(one, 0, 40).Draw(t, "before")
		next := slices.Clone(before)
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			if i := rapid.IntRange(0, len(next)).Draw(t, "at"); rapid.Bool().Draw(t, "remove") && i < len(next) {
				next = slices.Delete(next, i, i+1)
			} else {
				next = slices.Insert(next, i, one.Draw(t, "new"))
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "shuffle") == 0 {
			next = rapid.Permutation(next).Draw(t, "order")
		}
		var old []*Host
		byKey := map[string][]*Host{}
		for _, s := range before {
			h := &Host{logical: s.logical, hostname: s.hostname, check: s.check}
			h.where.Store(&s.where)
			old = append(old, h)
			byKey[h.key()] = append(byKey[h.key()], h)
		}
		left := newLeftover(old)
		found := map[*Host]bool{}
		for i := range next {
			var want *Host
			if list := byKey[next[i].key()]; len(list) > 0 {
				want, byKey[next[i].key()] = list[0], list[1:]
				found[want] = true
			}
			if got := left.take(&next[i]); got != want {
				t.Fatalf("spec %d of %d is found as %p, want %p", i, len(next), got, want)
			}
		}
		if got, want := left.rest(), slices.DeleteFunc(old, func(h *Host) bool { return found[h] }); !slices.Equal(got, want) {
			t.Fatalf("%v are left, want %v", got, want)
		}
	})
}
