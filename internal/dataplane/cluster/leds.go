package cluster

import (
	"errors"
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// Endpoint is an endpoint of a collection (LEDS) that was read and found good. It
// is immutable, and may be one of many clusters.
type Endpoint struct{ endpoint }

// ReadEndpoint reads an endpoint that comes by itself (XN-29). An error says what
// is wrong, with the path of the field.
func ReadEndpoint(e *endpointv3.LbEndpoint) (*Endpoint, error) {
	ep, err := newEndpoint(kindEDS, e)
	if err != nil {
		return nil, err
	}
	return &Endpoint{ep}, nil
}

// Collected tells the endpoints of a collection that an assignment names, in an
// order that stays.
type Collected func(*endpointv3.LedsClusterLocalityConfig) []*Endpoint

// checkLocality refuses what cannot be the endpoints of a locality.
func checkLocality(k kind, l *endpointv3.LocalityLbEndpoints) error {
	c := l.GetLedsClusterLocalityConfig()
	switch {
	case l.GetLoadBalancerEndpoints() != nil: //nolint:staticcheck // refused all the same
		return errors.New("load_balancer_endpoints: known but not built (nor is it in Envoy); use lb_endpoints")
	case c == nil:
		return nil
	case k != kindEDS:
		return errors.New("leds_cluster_locality_config: only an assignment that comes by EDS can have its endpoints elsewhere; use lb_endpoints")
	case len(l.GetLbEndpoints()) > 0:
		return fmt.Errorf("lb_endpoints: the locality has leds_cluster_locality_config (%s) as well; remove one of them", c.GetLedsCollectionName())
	}
	return nil
}
