package healthdiscovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"

	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// errLimit is wrapped by decode's errors about reports that are too large
// rather than malformed.
var errLimit = errors.New("report less or raise the limit")

// decode turns a report into a sorted list. The per-cluster form wins over the
// flat one (XL-14); of an endpoint that occurs twice the last status counts.
// An error names the field that is malformed.
func decode(p *healthv3.EndpointHealthResponse, limits Limits) ([]EndpointHealth, error) {
	d := decoder{limits: limits}
	if len(p.GetClusterEndpointsHealth()) == 0 {
		//nolint:staticcheck // Old clients send this form only.
		flat := p.GetEndpointsHealth()
		if err := d.endpoints(flat, "", Locality{}); err != nil {
			return nil, err
		}
		return d.sorted(), nil
	}
	for i, c := range p.GetClusterEndpointsHealth() {
		if err := d.cluster(c); err != nil {
			return nil, fmt.Errorf("cluster_endpoints_health[%d] (%q): %w", i, c.GetClusterName(), err)
		}
	}
	return d.sorted(), nil
}

type decoder struct {
	limits               Limits
	clusters, localities int
	out                  []EndpointHealth
}

func (d *decoder) cluster(p *healthv3.ClusterEndpointsHealth) error {
	if p.GetClusterName() == "" {
		return errors.New("cluster_name is empty; name the cluster")
	}
	d.clusters++
	if err := within("clusters", d.clusters, d.limits.Clusters); err != nil {
		return err
	}
	for i, l := range p.GetLocalityEndpointsHealth() {
		d.localities++
		if err := within("localities", d.localities, d.limits.Localities); err != nil {
			return err
		}
		at := l.GetLocality()
		place := Locality{at.GetRegion(), at.GetZone(), at.GetSubZone()}
		if err := d.endpoints(l.GetEndpointsHealth(), p.GetClusterName(), place); err != nil {
			return fmt.Errorf("locality_endpoints_health[%d].%w", i, err)
		}
	}
	return nil
}

func (d *decoder) endpoints(list []*healthv3.EndpointHealth, cluster string, at Locality) error {
	if err := within("endpoints", len(d.out)+len(list), d.limits.Endpoints); err != nil {
		return err
	}
	for i, p := range list {
		address, err := reporting.Address(p.GetEndpoint().GetAddress())
		if err != nil {
			return fmt.Errorf("endpoints_health[%d].endpoint.%w", i, err)
		}
		d.out = append(d.out, EndpointHealth{
			Cluster: cluster, Locality: at, Address: address, Hostname: p.GetEndpoint().GetHostname(),
			Status: p.GetHealthStatus(), Metadata: p.GetHealthMetadata(),
		})
	}
	return nil
}

func within(what string, n, limit int) error {
	if n > limit {
		return fmt.Errorf("the report has more than %d %s: %w", limit, what, errLimit)
	}
	return nil
}

// sorted orders the list, with the last of equal entries only.
func (d *decoder) sorted() []EndpointHealth {
	slices.Reverse(d.out)
	slices.SortStableFunc(d.out, func(a, b EndpointHealth) int { return a.key().compare(b.key()) })
	return slices.CompactFunc(d.out, func(a, b EndpointHealth) bool { return a.key() == b.key() })
}

func (k endpointKey) compare(o endpointKey) int {
	return cmp.Or(cmp.Compare(k.cluster, o.cluster), cmp.Compare(k.Region, o.Region), cmp.Compare(k.Zone, o.Zone),
		cmp.Compare(k.SubZone, o.SubZone), cmp.Compare(k.address, o.address))
}
