package cluster

import (
	"errors"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

func (conf *LBConfig) subsetsFromCluster(m *clusterv3.Cluster_LbSubsetConfig) (err error) {
	if conf.Subsets, err = subset.FromCluster(m); err != nil {
		return fmt.Errorf("lb_subset_config.%w", err)
	}
	return nil
}

// subsetsFromPolicy reads the extension that divides, and the policy that it
// chooses by among the hosts of a subset.
func (conf *LBConfig) subsetsFromPolicy(cluster string, m *subsetv3.Subset) error {
	if conf.Subsets != nil {
		return errors.New("typed_config: subsets of subsets are known but not built; use selectors with more keys")
	}
	var err error
	if conf.Subsets, err = subset.FromPolicy(m); err != nil {
		return fmt.Errorf("typed_config.%w", err)
	}
	missing, err := conf.fromPolicies(cluster, "typed_config.subset_lb_policy.", m.GetSubsetLbPolicy())
	switch {
	case err != nil:
		return err
	case missing != nil:
		// Envoy's text.
		return fmt.Errorf("typed_config.subset_lb_policy: cluster: didn't find a registered load balancer factory implementation for subset lb with names from [%s]", strings.Join(missing, ", "))
	}
	if err := m.ValidateAll(); err != nil {
		return fmt.Errorf("typed_config: Proto constraint validation failed (%w)", err)
	}
	return nil
}
