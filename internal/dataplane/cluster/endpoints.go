package cluster

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
)

// endpoint is one lb_endpoint of the configuration.
type endpoint struct {
	target   target
	more     []filter.Address
	hostname string
	attrs    Attributes
	check    *checkTarget
}

// assignment is a load_assignment: its endpoints in order and its policy.
type assignment struct {
	endpoints []endpoint
	weights   map[localityKey]uint32
	groups    int // of lb_endpoints, empty ones too
	overprov  uint32
	weighted  bool
	drop      Drop
}

// policyChange is what an assignment that comes next, by EDS, changes besides endpoints,
// of clusters with so many priorities.
func (a *assignment) policyChange(next *assignment, priorities int) change {
	ch := change{batch: true, extra: a.drop != next.drop}
	if a.overprov != next.overprov || a.weighted != next.weighted {
		ch.touches.alterAll(priorities)
	}
	for k, w := range a.weights {
		if now, ok := next.weights[k]; !ok || now != w {
			ch.touches.add(k.priority, altered)
		}
	}
	for k := range next.weights {
		if _, ok := a.weights[k]; !ok {
			ch.touches.add(k.priority, altered)
		}
	}
	return ch
}

// newAssignment reads a load_assignment for a cluster of this kind. All errors
// are reported together, each with the path of its field below at.
func newAssignment(k kind, la *endpointv3.ClusterLoadAssignment, at string, match func(endpoint, locality *corev3.Metadata) int, of Collected) (*assignment, error) {
	a := &assignment{groups: len(la.GetEndpoints()), overprov: 140}
	errs := []error{a.policy(at, la.GetPolicy())}
	n := 0
	for _, l := range la.GetEndpoints() {
		n += len(l.GetLbEndpoints())
	}
	a.endpoints = make([]endpoint, 0, n)
	for i, l := range la.GetEndpoints() {
		if err := checkLocality(k, l); err != nil {
			errs = append(errs, fmt.Errorf("%sendpoints[%d].%w", at, i, err))
			continue
		}
		loc := LocalityOf(l.GetLocality())
		a.weigh(localityKey{l.GetPriority(), loc}, l.GetLoadBalancingWeight().GetValue())
		add := func(ep endpoint) {
			ep.attrs.Locality, ep.attrs.Priority = loc, l.GetPriority()
			ep.attrs.LocalityMetadata = l.GetMetadata()
			ep.attrs.TransportSocket = match(ep.attrs.Metadata, l.GetMetadata())
			a.endpoints = append(a.endpoints, ep)
		}
		if c := l.GetLedsClusterLocalityConfig(); c != nil && of != nil {
			for _, e := range of(c) {
				add(e.endpoint)
			}
		}
		for j, e := range l.GetLbEndpoints() {
			ep, err := newEndpoint(k, e)
			if err != nil {
				errs = append(errs, fmt.Errorf("%sendpoints[%d].lb_endpoints[%d].%w", at, i, j, err))
				continue
			}
			add(ep)
		}
	}
	if k != kindEDS && len(a.endpoints) == 0 {
		a.overprov = 140 // as in Envoy nothing has set it
	}
	return a, errors.Join(errs...)
}

// weigh notes the weight of a locality. Most have none, and are of the first
// priority, which is always there.
func (a *assignment) weigh(k localityKey, weight uint32) {
	if weight == 0 && k.priority == 0 && a.weights[k] == 0 {
		return
	}
	if a.weights == nil {
		a.weights = make(map[localityKey]uint32)
	}
	a.weights[k] = weight
}

func (a *assignment) policy(at string, p *endpointv3.ClusterLoadAssignment_Policy) error {
	if f := p.GetOverprovisioningFactor(); f != nil {
		a.overprov = f.GetValue()
	}
	a.weighted = p.GetWeightedPriorityHealth()
	// endpoint_stale_after is for endpoints that a management server sends.
	drop, err := newDrop(p.GetDropOverloads())
	if err != nil {
		return fmt.Errorf("%spolicy.drop_overloads: %w", at, err)
	}
	a.drop = drop
	return nil
}

// LocalityOf reads a locality.
func LocalityOf(l *corev3.Locality) Locality {
	return Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()}
}

func newEndpoint(k kind, e *endpointv3.LbEndpoint) (endpoint, error) {
	if e.GetEndpointName() != "" {
		return endpoint{}, errors.New("endpoint_name: named_endpoints are known but not built (nor are they in Envoy); give the endpoint itself")
	}
	conf := e.GetEndpoint()
	ep := endpoint{hostname: conf.GetHostname(), attrs: Attributes{
		Weight:    uint32Or(e.GetLoadBalancingWeight(), 1),
		EDSHealth: e.GetHealthStatus(),
		Metadata:  e.GetMetadata(),
		Canary:    isCanary(e.GetMetadata()),
	}}
	var err error
	if k == kindStatic || k == kindEDS {
		ep.target.addr, err = staticTarget(conf.GetAddress())
	} else {
		ep.target, err = dnsTarget(k.String(), conf.GetAddress())
		if ep.hostname == "" {
			ep.hostname = ep.target.name
		}
		if ep.attrs.Metadata == nil {
			ep.attrs.Metadata = &corev3.Metadata{} // as /config_dump shows it
		}
	}
	if err != nil {
		return ep, fmt.Errorf("endpoint.address: %w", err)
	}
	if len(conf.GetAdditionalAddresses()) > 0 && k != kindStatic && k != kindEDS {
		return ep, errors.New("endpoint.additional_addresses: in a DNS cluster known but not built; use dns_lookup_family ALL or a STATIC cluster")
	}
	if ep.check, err = newCheckTarget(conf.GetHealthCheckConfig(), ep.target.addr.Pipe == ""); err != nil {
		return ep, fmt.Errorf("endpoint.health_check_config.%w", err)
	}
	if err := proxyheader.CheckHost(e.GetMetadata()); err != nil {
		return ep, fmt.Errorf("metadata.%w", err)
	}
	for i, more := range conf.GetAdditionalAddresses() {
		addr, err := staticTarget(more.GetAddress())
		if err != nil {
			return ep, fmt.Errorf("endpoint.additional_addresses[%d].address: %w", i, err)
		}
		if addr.Pipe != "" || ep.target.addr.Pipe != "" {
			return ep, fmt.Errorf("endpoint.additional_addresses[%d].address: only IP addresses can be raced", i)
		}
		ep.more = append(ep.more, addr)
	}
	return ep, nil
}

// hostSpec is a host as it should be.
type hostSpec struct {
	logical  bool
	where    addresses
	hostname string
	attrs    Attributes
	check    *checkTarget
}

func (s *hostSpec) key() string { return hostKey(s.logical, &s.where, s.hostname, s.check) }

// specs are the hosts of a STATIC or EDS cluster.
func (a *assignment) specs() []hostSpec {
	specs := make([]hostSpec, len(a.endpoints))
	for i, e := range a.endpoints {
		specs[i] = hostSpec{where: addresses{e.target.addr, e.more}, hostname: e.hostname, attrs: e.attrs, check: e.check}
	}
	return specs
}
