package subset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Fallback is where requests go for whose criteria there is no subset.
type Fallback uint8

// The fallbacks.
const (
	// Undefined leaves it to the fallback of the cluster.
	Undefined Fallback = iota
	// Nowhere is NO_FALLBACK: there is no host for them.
	Nowhere
	// Anywhere is ANY_ENDPOINT: any host of the cluster.
	Anywhere
	// ToDefault is DEFAULT_SUBSET: the hosts that default_subset describes.
	ToDefault
	// FewerKeys is KEYS_SUBSET: what a part of the criteria leads to.
	FewerKeys
)

// Config is how a cluster is divided into subsets (Cluster.LbSubsetConfig, and
// envoy.load_balancing_policies.subset). It is immutable.
type Config struct {
	// Selectors have different keys. With AllowRedundantKeys those with more
	// keys come first.
	Selectors []Selector
	// Fallback is of requests that no selector's own is for.
	Fallback Fallback
	// PanicModeAny sends them anywhere if Fallback leads to no host.
	PanicModeAny bool
	// LocalityWeightAware gives the localities of a subset their weights, and
	// ScaleLocalityWeight the part of them that its hosts are of the locality's.
	LocalityWeightAware, ScaleLocalityWeight bool
	// FallbackList tries the criteria of a request's fallback_list one after
	// another.
	FallbackList bool
	// AllowRedundantKeys leaves out criteria that no selector asks for.
	AllowRedundantKeys bool

	listAsAny bool
	standard  map[string]*structpb.Value // default_subset
}

// FromCluster reads a lb_subset_config; nil if it has no selectors, which divides
// nothing. An error names the field below it.
func FromCluster(m *clusterv3.Cluster_LbSubsetConfig) (*Config, error) {
	if len(m.GetSubsetSelectors()) == 0 {
		return nil, nil //nolint:nilnil // that is no error, and no division
	}
	// The extension's message is the same with one field more.
	s := &subsetv3.Subset{
		FallbackPolicy:         subsetv3.Subset_LbSubsetFallbackPolicy(m.GetFallbackPolicy()),
		DefaultSubset:          m.GetDefaultSubset(),
		LocalityWeightAware:    m.GetLocalityWeightAware(),
		ScaleLocalityWeight:    m.GetScaleLocalityWeight(),
		PanicModeAny:           m.GetPanicModeAny(),
		ListAsAny:              m.GetListAsAny(),
		MetadataFallbackPolicy: subsetv3.Subset_LbSubsetMetadataFallbackPolicy(m.GetMetadataFallbackPolicy()),
	}
	for _, k := range m.GetSubsetSelectors() {
		s.SubsetSelectors = append(s.SubsetSelectors, &subsetv3.Subset_LbSubsetSelector{
			Keys: k.GetKeys(), FallbackKeysSubset: k.GetFallbackKeysSubset(), SingleHostPerSubset: k.GetSingleHostPerSubset(),
			FallbackPolicy: subsetv3.Subset_LbSubsetSelector_LbSubsetSelectorFallbackPolicy(k.GetFallbackPolicy()),
		})
	}
	return FromPolicy(s)
}

// FromPolicy reads the configuration of the extension, but for its
// subset_lb_policy. Without selectors all requests take the fallback. An error
// names the field.
func FromPolicy(m *subsetv3.Subset) (*Config, error) {
	c := &Config{
		PanicModeAny:        m.GetPanicModeAny(),
		LocalityWeightAware: m.GetLocalityWeightAware(),
		ScaleLocalityWeight: m.GetScaleLocalityWeight(),
		FallbackList:        m.GetMetadataFallbackPolicy() == subsetv3.Subset_FALLBACK_LIST,
		AllowRedundantKeys:  m.GetAllowRedundantKeys(),
		Fallback:            Nowhere,
		listAsAny:           m.GetListAsAny(),
		standard:            m.GetDefaultSubset().GetFields(),
	}
	switch m.GetFallbackPolicy() {
	case subsetv3.Subset_ANY_ENDPOINT:
		c.Fallback = Anywhere
	case subsetv3.Subset_DEFAULT_SUBSET:
		c.Fallback = ToDefault
	}
	var errs []error
	for i, k := range m.GetSubsetSelectors() {
		s, err := newSelector(k)
		if err != nil {
			errs = append(errs, fmt.Errorf("subset_selectors[%d].%w", i, err))
		}
		// One without keys selects nothing, and of those with the same keys the
		// first counts.
		if len(s.Keys) > 0 && !slices.ContainsFunc(c.Selectors, func(o Selector) bool { return slices.Equal(o.Keys, s.Keys) }) {
			c.Selectors = append(c.Selectors, s)
		}
	}
	if c.AllowRedundantKeys {
		slices.SortStableFunc(c.Selectors, func(a, b Selector) int { return cmp.Compare(len(b.Keys), len(a.Keys)) })
	}
	return c, errors.Join(errs...)
}

// NeedsAny reports whether requests may go to any host.
func (c *Config) NeedsAny() bool { return c.PanicModeAny || c.has(Anywhere) }

// NeedsDefault reports whether requests may go to the hosts that default_subset
// describes.
func (c *Config) NeedsDefault() bool { return c.has(ToDefault) }

func (c *Config) has(f Fallback) bool {
	return c.Fallback == f || slices.ContainsFunc(c.Selectors, func(s Selector) bool { return s.Fallback == f })
}

// Widest is the selector with the most keys of which all are in a list of
// criteria, or nil.
func (c *Config) Widest(list []Criterion) *Selector {
	for i := range c.Selectors {
		if s := &c.Selectors[i]; s.within(list) {
			return s
		}
	}
	return nil
}

// SelectorOf is the selector whose keys are those of a list of criteria, or nil.
func (c *Config) SelectorOf(list []Criterion) *Selector {
	for i := range c.Selectors {
		if s := &c.Selectors[i]; len(s.Keys) == len(list) && s.within(list) {
			return s
		}
	}
	return nil
}

// Memberships are what the metadata of a host put it into.
type Memberships struct {
	// Subsets are without repetition.
	Subsets []Membership
	// Default is set of hosts that default_subset describes.
	Default bool
}

// Membership is one subset that a host is of.
type Membership struct {
	Name string
	// Single is set if the subset has but one host.
	Single bool
}

// Of is what the metadata of a host put it into; nil is nothing.
func (c *Config) Of(m *corev3.Metadata) *Memberships {
	fields := m.GetFilterMetadata()[Namespace].GetFields()
	out := &Memberships{Default: c.describes(fields)}
	for i := range c.Selectors {
		s := &c.Selectors[i]
		for _, name := range s.names(fields, c.listAsAny) {
			if k := (Membership{name, s.SingleHost}); !slices.Contains(out.Subsets, k) { // a list may say a value twice
				out.Subsets = append(out.Subsets, k)
			}
		}
	}
	return out
}

// describes reports whether default_subset describes a host.
func (c *Config) describes(fields map[string]*structpb.Value) bool {
	for key, want := range c.standard {
		have, ok := fields[key]
		if !ok || !slices.ContainsFunc(values(have, c.listAsAny), func(v *structpb.Value) bool { return equal(v, want) }) {
			return false
		}
	}
	return true
}
