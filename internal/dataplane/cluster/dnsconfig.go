package cluster

import (
	"errors"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// dnsConfig is how a DNS cluster resolves, whichever form it was written in
// (CM-10).
type dnsConfig struct {
	family     family
	refresh    time.Duration // 5 s
	minRefresh time.Duration
	jitter     time.Duration
	respectTTL bool
	// After a failure: fixed at refresh unless dns_failure_refresh_rate is set.
	failureBase, failureMax time.Duration
}

// refreshRate is either message that describes the delay after failures.
type refreshRate interface {
	GetBaseInterval() *durationpb.Duration
	GetMaxInterval() *durationpb.Duration
}

func newDNSConfig(c *clusterv3.Cluster, typed *dnsv3.DnsCluster) (dnsConfig, error) {
	conf := dnsConfig{refresh: 5 * time.Second}
	if typed != nil {
		return conf, conf.fromTyped(typed)
	}
	return conf, conf.fromCluster(c)
}

//nolint:staticcheck // the deprecated fields of Cluster are what most configurations use
func (d *dnsConfig) fromCluster(c *clusterv3.Cluster) error {
	switch {
	case len(c.GetDnsResolvers()) > 0:
		return errors.New("dns_resolvers: resolver addresses are known but not built")
	case c.GetUseTcpForDnsLookups():
		return errors.New("use_tcp_for_dns_lookups: known but not built")
	case c.GetDnsResolutionConfig() != nil:
		return errors.New("dns_resolution_config: known but not built")
	case c.GetTypedDnsResolverConfig() != nil:
		return errors.New("typed_dns_resolver_config: known but not built")
	}
	d.family = clusterFamily(c.GetDnsLookupFamily())
	d.respectTTL = c.GetRespectDnsTtl()
	err := errors.Join(
		durationInto(&d.refresh, "dns_refresh_rate", c.GetDnsRefreshRate()),
		durationInto(&d.jitter, "dns_jitter", c.GetDnsJitter()),
	)
	if r := c.GetDnsFailureRefreshRate(); r != nil {
		return errors.Join(err, d.failure(r))
	}
	return errors.Join(err, d.failure(nil))
}

func (d *dnsConfig) fromTyped(c *dnsv3.DnsCluster) error {
	if c.GetTypedDnsResolverConfig() != nil {
		return errors.New("cluster_type.typed_config.typed_dns_resolver_config: known but not built")
	}
	d.family = typedFamily(c.GetDnsLookupFamily())
	d.respectTTL = c.GetRespectDnsTtl()
	err := errors.Join(
		durationInto(&d.refresh, "dns_refresh_rate", c.GetDnsRefreshRate()),
		durationInto(&d.jitter, "dns_jitter", c.GetDnsJitter()),
		durationInto(&d.minRefresh, "dns_min_refresh_rate", c.GetDnsMinRefreshRate()),
	)
	if r := c.GetDnsFailureRefreshRate(); r != nil {
		return errors.Join(err, d.failure(r))
	}
	return errors.Join(err, d.failure(nil))
}

func (d *dnsConfig) failure(r refreshRate) error {
	if r == nil {
		d.failureBase, d.failureMax = d.refresh, 0
		return nil
	}
	if err := durationInto(&d.failureBase, "dns_failure_refresh_rate.base_interval", r.GetBaseInterval()); err != nil {
		return err
	}
	d.failureMax = 10 * d.failureBase
	if err := durationInto(&d.failureMax, "dns_failure_refresh_rate.max_interval", r.GetMaxInterval()); err != nil {
		return err
	}
	if d.failureMax < d.failureBase {
		return errors.New("dns_failure_refresh_rate must have max_interval greater than or equal to the base_interval") // Envoy's text
	}
	if d.failureBase < time.Millisecond {
		return fmt.Errorf("dns_failure_refresh_rate.base_interval: %s is under 1ms", d.failureBase)
	}
	return nil
}

// afterSuccess is the delay to the next lookup, given the answer's TTL and a
// random number.
func (d *dnsConfig) afterSuccess(ttl time.Duration, random uint64) time.Duration {
	delay := d.refresh
	if d.respectTTL && ttl > 0 {
		delay = max(ttl, d.minRefresh)
	}
	if d.jitter > 0 {
		delay += time.Duration(random % uint64(d.jitter))
	}
	return delay
}

// afterFailure is the delay after the nth failure in a row, from 0: fixed, or
// random within an exponentially growing interval.
func (d *dnsConfig) afterFailure(n int, random uint64) time.Duration {
	if d.failureMax == 0 {
		return d.failureBase
	}
	interval := d.failureBase
	for range n {
		if interval >= d.failureMax/2 {
			interval = d.failureMax
			break
		}
		interval *= 2
	}
	return max(time.Duration(random%uint64(interval)), time.Millisecond)
}
