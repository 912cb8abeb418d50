package cluster

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/common/v3"
	leastrequestv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/least_request/v3"
	maglevv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/maglev/v3"
	randomv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/random/v3"
	ringhashv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/ring_hash/v3"
	roundrobinv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/round_robin/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// LBPolicy is how a host is chosen.
type LBPolicy uint8

// The policies that are built.
const (
	RoundRobin LBPolicy = iota
	LeastRequest
	Random
	RingHash
	Maglev
)

// Hashes tells whether the policy chooses by a hash of the request.
func (p LBPolicy) Hashes() bool { return p == RingHash || p == Maglev }

// LBConfig is a cluster's load balancing, whichever of the two forms it was
// written in (LB-01).
type LBConfig struct {
	Policy LBPolicy
	// ChoiceCount is least request's choice_count, by default 2.
	ChoiceCount uint32
	// ActiveRequestBias is least request's active_request_bias, by default 1;
	// BiasKey is its runtime key.
	ActiveRequestBias float64
	BiasKey           string
	// FullScan is least request's selection_method FULL_SCAN.
	FullScan bool
	// LocalityWeighted is locality_weighted_lb_config (LB-11).
	LocalityWeighted bool
	// FailTrafficOnPanic is that of zone_aware_lb_config: no host instead of
	// any host in panic (LB-10).
	FailTrafficOnPanic bool
	// PanicThreshold is healthy_panic_threshold in percent, by default 50.
	PanicThreshold uint32
	// Hash is set of policies that hash.
	Hash HashConfig
	// Subsets divides the hosts, among which Policy chooses then (LB-15); nil
	// of most clusters.
	Subsets *subset.Config
}

// Asks tells whether the choice of a host depends on the request.
func (conf *LBConfig) Asks() bool { return conf.Policy.Hashes() || conf.Subsets != nil }

const lbPackage = "envoy.extensions.load_balancing_policies."

func newLBConfig(c *clusterv3.Cluster) (LBConfig, error) {
	common := c.GetCommonLbConfig()
	conf := LBConfig{ChoiceCount: 2, ActiveRequestBias: 1, PanicThreshold: 50}
	if p := common.GetHealthyPanicThreshold(); p != nil {
		conf.PanicThreshold = uint32(math.Round(p.GetValue()))
	}
	if common.GetOverrideHostStatus() != nil {
		return conf, errors.New("common_lb_config.override_host_status: known but not built; remove it")
	}
	if c.GetLoadBalancingPolicy() == nil {
		return conf, errors.Join(conf.fromEnum(c), conf.subsetsFromCluster(c.GetLbSubsetConfig()))
	}
	if c.GetLbSubsetConfig() != nil {
		return conf, errors.New("cluster: load_balancing_policy cannot be combined with lb_subset_config")
	}
	if common.GetLocalityConfigSpecifier() != nil || common.GetConsistentHashingLbConfig() != nil {
		return conf, errors.New("cluster: load_balancing_policy cannot be combined with partial fields (zone_aware_lb_config, locality_weighted_lb_config, consistent_hashing_lb_config) of common_lb_config")
	}
	missing, err := conf.fromPolicies(c.GetName(), "load_balancing_policy.", c.GetLoadBalancingPolicy())
	if err == nil && missing != nil {
		// Envoy's text.
		err = fmt.Errorf("cluster: didn't find a registered load balancer factory implementation for cluster: '%s' with names from [%s]",
			c.GetName(), strings.Join(missing, ", "))
	}
	return conf, err
}

// errProvided is Envoy's text.
func errProvided(name string) error {
	return fmt.Errorf("cluster manager: cluster provided LB specified but cluster '%s' did not provide one. Check cluster documentation.", name) //nolint:staticcheck,revive // Envoy's text
}

func (conf *LBConfig) fromEnum(c *clusterv3.Cluster) error {
	common := c.GetCommonLbConfig()
	conf.LocalityWeighted = common.GetLocalityWeightedLbConfig() != nil
	conf.FailTrafficOnPanic = common.GetZoneAwareLbConfig().GetFailTrafficOnPanic()
	switch c.GetLbPolicy() {
	case clusterv3.Cluster_ROUND_ROBIN:
		if c.GetRoundRobinLbConfig().GetSlowStartConfig() != nil {
			return errors.New("round_robin_lb_config.slow_start_config: known but not built; remove it")
		}
		return nil
	case clusterv3.Cluster_LEAST_REQUEST:
		conf.Policy = LeastRequest
		lr := c.GetLeastRequestLbConfig()
		if lr.GetSlowStartConfig() != nil {
			return errors.New("least_request_lb_config.slow_start_config: known but not built; remove it")
		}
		conf.ChoiceCount = uint32Or(lr.GetChoiceCount(), 2)
		conf.bias(lr.GetActiveRequestBias())
		return nil
	case clusterv3.Cluster_RANDOM:
		conf.Policy = Random
		return nil
	case clusterv3.Cluster_RING_HASH, clusterv3.Cluster_MAGLEV:
		return conf.hashFromEnum(c)
	case clusterv3.Cluster_CLUSTER_PROVIDED:
		if len(c.GetLbSubsetConfig().GetSubsetSelectors()) > 0 {
			return errors.New("cluster: LB policy CLUSTER_PROVIDED cannot be combined with lb_subset_config") // Envoy's text
		}
		return errProvided(c.GetName())
	case clusterv3.Cluster_LOAD_BALANCING_POLICY_CONFIG:
		return errors.New("cluster: field load_balancing_policy need to be set") // Envoy's text
	default:
		return fmt.Errorf("lb_policy: %s is known but not built; use ROUND_ROBIN, LEAST_REQUEST, RANDOM, RING_HASH or MAGLEV", c.GetLbPolicy())
	}
}

// fromPolicies takes the first policy of the list that is known; missing, not
// nil, are the names of all if there is none. One that is known to Envoy but not
// built is an error: to skip it would quietly balance otherwise than Envoy does.
func (conf *LBConfig) fromPolicies(cluster, path string, list *clusterv3.LoadBalancingPolicy) (missing []string, err error) {
	missing = []string{}
	for i, p := range list.GetPolicies() {
		ext := p.GetTypedExtensionConfig()
		missing = append(missing, ext.GetName())
		known, err := conf.fromTyped(cluster, ext.GetTypedConfig())
		if err != nil {
			return nil, fmt.Errorf("%spolicies[%d].typed_extension_config.%w", path, i, err)
		}
		if known {
			return nil, nil
		}
	}
	return missing, nil
}

func (conf *LBConfig) fromTyped(name string, config *anypb.Any) (known bool, err error) {
	policy := string(config.MessageName())
	switch policy {
	case lbPackage + "round_robin.v3.RoundRobin":
		var m roundrobinv3.RoundRobin
		if err := unpack(config, &m); err != nil {
			return false, err
		}
		return true, conf.typed(RoundRobin, m.GetSlowStartConfig(), m.GetLocalityLbConfig())
	case lbPackage + "least_request.v3.LeastRequest":
		var m leastrequestv3.LeastRequest
		if err := unpack(config, &m); err != nil {
			return false, err
		}
		conf.ChoiceCount = uint32Or(m.GetChoiceCount(), 2)
		conf.FullScan = m.GetSelectionMethod() == leastrequestv3.LeastRequest_FULL_SCAN || m.GetEnableFullScan().GetValue() //nolint:staticcheck // still accepted by Envoy
		conf.bias(m.GetActiveRequestBias())
		return true, conf.typed(LeastRequest, m.GetSlowStartConfig(), m.GetLocalityLbConfig())
	case lbPackage + "random.v3.Random":
		var m randomv3.Random
		if err := unpack(config, &m); err != nil {
			return false, err
		}
		return true, conf.typed(Random, nil, m.GetLocalityLbConfig())
	case lbPackage + "ring_hash.v3.RingHash":
		var m ringhashv3.RingHash
		if err := unpack(config, &m); err != nil {
			return false, err
		}
		return true, conf.ringHash(&m)
	case lbPackage + "maglev.v3.Maglev":
		var m maglevv3.Maglev
		if err := unpack(config, &m); err != nil {
			return false, err
		}
		return true, conf.maglev(&m)
	case lbPackage + "subset.v3.Subset":
		var m subsetv3.Subset
		if err := config.UnmarshalTo(&m); err != nil {
			return false, fmt.Errorf("typed_config: %w", err)
		}
		return true, conf.subsetsFromPolicy(name, &m)
	case lbPackage + "cluster_provided.v3.ClusterProvided":
		return false, fmt.Errorf("typed_config: %w", errProvided(name))
	}
	rest, ours := strings.CutPrefix(policy, lbPackage)
	kind, _, _ := strings.Cut(rest, ".")
	if ours && slices.Contains(unbuiltPolicies(), kind) {
		return false, fmt.Errorf("typed_config: %s is known but not built; use round_robin, least_request, random, ring_hash, maglev or subset", policy)
	}
	return false, nil
}

// unbuiltPolicies are those of Envoy 1.40 that this proxy does not have.
func unbuiltPolicies() []string {
	return []string{
		"client_side_weighted_round_robin", "dynamic_modules", "load_aware_locality", "override_host",
		"pick_first", "random_subsetting", "wrr_locality",
	}
}

func (conf *LBConfig) typed(p LBPolicy, slow *commonv3.SlowStartConfig, locality *commonv3.LocalityLbConfig) error {
	conf.Policy = p
	if slow != nil {
		return errors.New("typed_config.slow_start_config: known but not built; remove it")
	}
	conf.LocalityWeighted = locality.GetLocalityWeightedLbConfig() != nil
	conf.FailTrafficOnPanic = locality.GetZoneAwareLbConfig().GetFailTrafficOnPanic()
	return nil
}

// bias takes over active_request_bias; a negative one counts as 1, as in Envoy.
func (conf *LBConfig) bias(b *corev3.RuntimeDouble) {
	if b == nil {
		return
	}
	conf.BiasKey = b.GetRuntimeKey()
	conf.ActiveRequestBias = sound(b.GetDefaultValue())
}

func sound(bias float64) float64 {
	if bias < 0 || math.IsNaN(bias) {
		return 1
	}
	return bias
}

// zoneAware refuses what depends on the local cluster: without one Envoy's
// zone aware routing never acts, so that its configuration can be accepted.
func zoneAware(conf LBConfig, local string) error {
	if local != "" && !conf.LocalityWeighted && !conf.Policy.Hashes() {
		return errors.New("zone aware routing (cluster_manager.local_cluster_name is set) is known but not built; use locality_weighted_lb_config or remove local_cluster_name")
	}
	return nil
}

// unpack reads an Any and checks what its message says of itself.
func unpack(a *anypb.Any, m interface {
	proto.Message
	ValidateAll() error
},
) error {
	if err := a.UnmarshalTo(m); err != nil {
		return fmt.Errorf("typed_config: %w", err)
	}
	if err := m.ValidateAll(); err != nil {
		return fmt.Errorf("typed_config: Proto constraint validation failed (%w)", err)
	}
	return nil
}
