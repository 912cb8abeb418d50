package cluster

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	maglevv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/maglev/v3"
	ringhashv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/ring_hash/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/consistent"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
)

// HashConfig is how a policy that hashes does so (LB-05 to LB-07).
type HashConfig struct {
	// Ring is the ring's configuration; by default it has 1024 to 8 Mi entries.
	Ring consistent.RingConfig
	// TableSize is maglev's table_size, by default 65537.
	TableSize uint64
	// ByHostname places hosts by their names, not their addresses
	// (use_hostname_for_hashing).
	ByHostname bool
	// BalanceFactor bounds the load of a host, in percent of the average
	// (hash_balance_factor); 0 does not.
	BalanceFactor uint32
	// Policy is the balancer's own hash_policy, which is used in place of the
	// route's; nil without.
	Policy *hashpolicy.Policy
}

const (
	defaultRing      = 1024
	largestRing      = 8 << 20
	defaultTableSize = 65537
)

func (conf *LBConfig) hashFromEnum(c *clusterv3.Cluster) error {
	common := c.GetCommonLbConfig().GetConsistentHashingLbConfig()
	conf.Hash.ByHostname, conf.Hash.BalanceFactor = common.GetUseHostnameForHashing(), common.GetHashBalanceFactor().GetValue()
	conf.FailTrafficOnPanic = false // only policies that know of zones have it
	if c.GetLbPolicy() == clusterv3.Cluster_MAGLEV {
		return within("maglev_lb_config.table_size", conf.asMaglev(c.GetMaglevLbConfig().GetTableSize()))
	}
	m := c.GetRingHashLbConfig()
	conf.Hash.Ring.Murmur = m.GetHashFunction() == clusterv3.Cluster_RingHashLbConfig_MURMUR_HASH_2
	return within("ring_hash_lb_config", conf.asRing(m.GetMinimumRingSize(), m.GetMaximumRingSize()))
}

func (conf *LBConfig) ringHash(m *ringhashv3.RingHash) error {
	conf.Hash.Ring.Murmur = m.GetHashFunction() == ringhashv3.RingHash_MURMUR_HASH_2
	conf.LocalityWeighted = m.GetLocalityWeightedLbConfig() != nil
	//nolint:staticcheck // deprecated fields still work where the new message is not written
	conf.Hash.ByHostname, conf.Hash.BalanceFactor = m.GetUseHostnameForHashing(), m.GetHashBalanceFactor().GetValue()
	return errors.Join(
		within("typed_config", conf.asRing(m.GetMinimumRingSize(), m.GetMaximumRingSize())),
		conf.consistent(m.GetConsistentHashingLbConfig()),
	)
}

func (conf *LBConfig) maglev(m *maglevv3.Maglev) error {
	conf.LocalityWeighted = m.GetLocalityWeightedLbConfig() != nil
	return errors.Join(within("typed_config.table_size", conf.asMaglev(m.GetTableSize())), conf.consistent(m.GetConsistentHashingLbConfig()))
}

func (conf *LBConfig) consistent(m *commonv3.ConsistentHashingLbConfig) error {
	if m == nil {
		return nil
	}
	conf.Hash.ByHostname, conf.Hash.BalanceFactor = m.GetUseHostnameForHashing(), m.GetHashBalanceFactor().GetValue()
	var err error
	if conf.Hash.Policy, err = hashpolicy.New(m.GetHashPolicy()); err != nil {
		return fmt.Errorf("typed_config.consistent_hashing_lb_config.hash_policy%w", err)
	}
	return nil
}

func (conf *LBConfig) asRing(least, most *wrapperspb.UInt64Value) error {
	conf.Policy = RingHash
	r := &conf.Hash.Ring
	r.Least, r.Most = uint64Or(least, defaultRing), uint64Or(most, largestRing)
	if r.Least > r.Most {
		return fmt.Errorf("ring hash: minimum_ring_size (%d) > maximum_ring_size (%d)", r.Least, r.Most) // Envoy's text
	}
	return nil
}

func (conf *LBConfig) asMaglev(size *wrapperspb.UInt64Value) error {
	conf.Policy = Maglev
	conf.Hash.TableSize = uint64Or(size, defaultTableSize)
	if !consistent.IsPrime(conf.Hash.TableSize) {
		return errors.New("The table size of maglev must be prime number") //nolint:staticcheck // Envoy's text
	}
	return nil
}

// checkHostnames refuses to place hosts by name where several can have the same:
// as in Envoy anywhere but in a cluster of type STRICT_DNS.
func checkHostnames(c *clusterv3.Cluster) error {
	if !c.GetCommonLbConfig().GetConsistentHashingLbConfig().GetUseHostnameForHashing() ||
		c.GetClusterType() == nil && c.GetType() == clusterv3.Cluster_STRICT_DNS {
		return nil
	}
	kind := c.GetType().String()
	if custom := c.GetClusterType(); custom != nil {
		kind = custom.GetName()
	}
	return fmt.Errorf("common_lb_config.consistent_hashing_lb_config.use_hostname_for_hashing: Cannot use hostname for consistent hashing loadbalancing for cluster of type: '%s'; write type: STRICT_DNS", kind)
}

// within puts a field's path before an error.
func within(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

func uint64Or(v *wrapperspb.UInt64Value, or uint64) uint64 {
	if v == nil {
		return or
	}
	return v.GetValue()
}
