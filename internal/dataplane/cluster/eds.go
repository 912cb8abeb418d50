package cluster

import (
	"errors"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/filter"
)

const edsClusterType = "envoy.cluster.eds"

// isEDS reports whether a cluster's hosts come from EDS.
func isEDS(c *clusterv3.Cluster) bool {
	if t := c.GetClusterType(); t != nil {
		return t.GetName() == edsClusterType
	}
	return c.GetType() == clusterv3.Cluster_EDS
}

// configureEDS reads what an EDS cluster has in place of a load_assignment.
func (c *Cluster) configureEDS() error {
	c.assignment = &assignment{overprov: 140}
	if c.proto.GetLoadAssignment() != nil {
		return errors.New("load_assignment: an EDS cluster gets its endpoints from a management server; remove it")
	}
	if c.proto.GetEdsClusterConfig() == nil {
		return errors.New("eds_cluster_config: cannot create an EDS cluster without an EDS config")
	}
	if c.proto.GetEdsClusterConfig().GetEdsConfig() == nil {
		return errors.New("eds_cluster_config.eds_config: a config source is needed")
	}
	return nil
}

// EDS tells whether the hosts come from EDS, and then under which name and
// from which source (CM-11).
func (c *Cluster) EDS() (name string, source *corev3.ConfigSource, ok bool) {
	if c.kind != kindEDS {
		return "", nil, false
	}
	cfg := c.proto.GetEdsClusterConfig()
	name = cfg.GetServiceName()
	if name == "" {
		name = c.Name()
	}
	return name, cfg.GetEdsConfig(), true
}

// Assignment is an assignment that a cluster has read and found good.
type Assignment struct{ a *assignment }

// ReadAssignment reads an assignment for an EDS cluster, to be put in force by
// [Cluster.Use]. An error says what is wrong, with the path of the field. Localities
// with a collection have the endpoints that of tells; nil tells none. Safe for
// concurrent use.
func (c *Cluster) ReadAssignment(la *endpointv3.ClusterLoadAssignment, of Collected) (*Assignment, error) {
	a, err := newAssignment(c.kind, la, "", c.match, of)
	if err == nil {
		err = c.checkWeights(a)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.Name(), err)
	}
	return &Assignment{a}, nil
}

// Assign is ReadAssignment and Use; the hosts stay as they were if it fails, and
// that is counted.
func (c *Cluster) Assign(la *endpointv3.ClusterLoadAssignment) error {
	next, err := c.ReadAssignment(la, nil)
	if err != nil {
		c.sink.Add(c.Stats.Discovery.UpdateRejected, 1)
		return err
	}
	c.Use(next)
	return nil
}

// Use makes the endpoints of an assignment the hosts of an EDS cluster, in one
// step: hosts that stay keep their identity, those that are gone drain (CM-11,
// CM-17). An assignment is used once. It is called by one goroutine at a time, and
// costs what the assignment has.
func (c *Cluster) Use(read *Assignment) {
	c.sink.Add(c.Stats.UpdateSuccess, 1)
	c.Follow(read)
}

// Follow is Use for an assignment that was counted before, and of which
// collections have changed.
func (c *Cluster) Follow(read *Assignment) {
	next := read.a
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	policy := c.assignment.policyChange(next, len(c.latest()))
	c.assignment = next
	specs := next.unique()
	next.endpoints = nil // the hosts are what is kept of them
	if !c.replace(specs, policy) {
		c.sink.Add(c.Stats.UpdateNoRebuild, 1)
	}
	c.hostsKnown()
}

// GiveUp makes an EDS cluster ready that has waited for its assignment long
// enough (BS-25). It has no hosts until one comes.
func (c *Cluster) GiveUp() {
	if !c.known.Load() {
		c.sink.Add(c.Stats.Discovery.InitFetchTimeout, 1)
		c.nowKnown()
	}
}

// Skip makes an EDS cluster ready whose assignment does not exist.
func (c *Cluster) Skip() { c.nowKnown() }

// Stale empties an EDS cluster whose assignment was not refreshed within its
// endpoint_stale_after. It is called by the goroutine that calls Assign.
func (c *Cluster) Stale() {
	c.sink.Add(c.Stats.AssignmentStale, 1)
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	next := &assignment{overprov: 140}
	policy := c.assignment.policyChange(next, len(c.latest()))
	c.assignment = next
	c.replace(nil, policy)
}

// StaleAfter is an assignment's endpoint_stale_after; 0 for ever.
func StaleAfter(la *endpointv3.ClusterLoadAssignment) time.Duration {
	return la.GetPolicy().GetEndpointStaleAfter().AsDuration()
}

// unique are the hosts without those that were listed before: an address counts
// once, in whichever locality and by whichever name it is listed again.
func (a *assignment) unique() []hostSpec {
	specs := a.specs()
	if len(specs) <= fewHosts && !repeats(specs) {
		return specs
	}
	seen := make(map[filter.Address]bool, len(specs))
	n := 0
	for i := range specs {
		if k := specs[i].where.first; !seen[k] {
			seen[k] = true
			specs[n] = specs[i]
			n++
		}
	}
	return specs[:n]
}

// fewHosts are compared with one another faster than by a map.
const fewHosts = 16

// repeats reports whether an address is listed twice.
func repeats(specs []hostSpec) bool {
	for i := range specs {
		for j := range specs[:i] {
			if specs[i].where.first == specs[j].where.first {
				return true
			}
		}
	}
	return false
}
