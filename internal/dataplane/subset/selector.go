package subset

import (
	"errors"
	"slices"

	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Selector divides the hosts that have some keys in their metadata by the values
// of these.
type Selector struct {
	// Keys are in order, and each is there once.
	Keys []string
	// Fallback is of requests with criteria for these keys; FallbackKeys, in
	// order too, are those that FewerKeys leaves.
	Fallback     Fallback
	FallbackKeys []string
	// SingleHost leaves each of its subsets one host, of whatever health.
	SingleHost bool
}

// newSelector reads a selector. The texts of its errors are Envoy's.
func newSelector(m *subsetv3.Subset_LbSubsetSelector) (Selector, error) {
	s := Selector{Keys: set(m.GetKeys()), FallbackKeys: set(m.GetFallbackKeysSubset()), SingleHost: m.GetSingleHostPerSubset()}
	switch m.GetFallbackPolicy() {
	case subsetv3.Subset_LbSubsetSelector_NO_FALLBACK:
		s.Fallback = Nowhere
	case subsetv3.Subset_LbSubsetSelector_ANY_ENDPOINT:
		s.Fallback = Anywhere
	case subsetv3.Subset_LbSubsetSelector_DEFAULT_SUBSET:
		s.Fallback = ToDefault
	case subsetv3.Subset_LbSubsetSelector_KEYS_SUBSET:
		s.Fallback = FewerKeys
	}
	if len(s.Keys) == 0 {
		return s, nil // as in Envoy nothing of it is looked at
	}
	return s, s.checkFallback()
}

func (s *Selector) checkFallback() error {
	switch few := s.FallbackKeys; {
	case s.Fallback != FewerKeys && len(few) > 0:
		return errors.New("fallback_keys_subset can be set only for KEYS_SUBSET fallback_policy")
	case s.Fallback != FewerKeys:
		return nil
	case len(few) == 0:
		return errors.New("fallback_keys_subset cannot be empty")
	case slices.ContainsFunc(few, func(k string) bool { return !slices.Contains(s.Keys, k) }):
		return errors.New("fallback_keys_subset must be a subset of selector keys")
	case len(few) == len(s.Keys):
		return errors.New("fallback_keys_subset cannot be equal to keys")
	}
	return nil
}

// set are keys in order, each once.
func set(keys []string) []string { return slices.Compact(slices.Sorted(slices.Values(keys))) }

// within reports whether a list of criteria has all keys.
func (s *Selector) within(list []Criterion) bool {
	for _, k := range s.Keys {
		for len(list) > 0 && list[0].Key < k {
			list = list[1:]
		}
		if len(list) == 0 || list[0].Key != k {
			return false
		}
	}
	return true
}

// Only appends the criteria that have one of some ordered keys to dst, which may
// be the beginning of list itself.
func Only(dst, list []Criterion, keys []string) []Criterion {
	for _, c := range list {
		for len(keys) > 0 && keys[0] < c.Key {
			keys = keys[1:]
		}
		if len(keys) > 0 && keys[0] == c.Key {
			dst = append(dst, c)
		}
	}
	return dst
}

// names are those of the subsets that a host with some metadata is of: one, or
// with list_as_any one for each combination of the values in its lists, and none
// if it has no value for some key.
func (s *Selector) names(fields map[string]*structpb.Value, listAsAny bool) []string {
	for _, k := range s.Keys {
		if _, ok := fields[k]; !ok {
			return nil
		}
	}
	names := []string{""}
	for _, k := range s.Keys {
		var longer []string
		for _, name := range names {
			for _, v := range values(fields[k], listAsAny) {
				longer = append(longer, string(appendField([]byte(name), k, v)))
			}
		}
		names = longer
	}
	return names
}

// values are the elements of a list if any of them counts, else the value itself.
func values(v *structpb.Value, listAsAny bool) []*structpb.Value {
	if list := v.GetListValue(); list != nil && listAsAny {
		return list.GetValues()
	}
	return []*structpb.Value{v}
}
