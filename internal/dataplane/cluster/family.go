package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
)

// Resolver looks names up; *net.Resolver is one. Safe for concurrent use.
type Resolver interface {
	// LookupNetIP returns the addresses of host in network "ip4" or "ip6".
	// A *net.DNSError with IsNotFound is an empty answer, not a failure.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// TTLResolver is a Resolver that also knows for how long an answer holds. Only
// with one can respect_dns_ttl be used.
type TTLResolver interface {
	Resolver
	LookupNetIPTTL(ctx context.Context, network, host string) ([]netip.Addr, time.Duration, error)
}

// family is dns_lookup_family (CM-09).
type family uint8

const (
	familyAuto family = iota
	familyV4
	familyV6
	familyV4Preferred
	familyAll
)

func clusterFamily(f clusterv3.Cluster_DnsLookupFamily) family {
	switch f {
	case clusterv3.Cluster_V4_ONLY:
		return familyV4
	case clusterv3.Cluster_V6_ONLY:
		return familyV6
	case clusterv3.Cluster_V4_PREFERRED:
		return familyV4Preferred
	case clusterv3.Cluster_ALL:
		return familyAll
	default:
		return familyAuto
	}
}

func typedFamily(f commondnsv3.DnsLookupFamily) family {
	switch f {
	case commondnsv3.DnsLookupFamily_V4_ONLY:
		return familyV4
	case commondnsv3.DnsLookupFamily_V6_ONLY:
		return familyV6
	case commondnsv3.DnsLookupFamily_V4_PREFERRED:
		return familyV4Preferred
	case commondnsv3.DnsLookupFamily_ALL:
		return familyAll
	default:
		return familyAuto
	}
}

// answer is what DNS says of a name.
type answer struct {
	addrs []netip.Addr
	ttl   time.Duration // 0 if not known
}

// lookup resolves host by the rules of the family. An empty answer is no
// error.
func lookup(ctx context.Context, r Resolver, f family, host string) (answer, error) {
	switch f {
	case familyV4:
		return query(ctx, r, "ip4", host)
	case familyV6:
		return query(ctx, r, "ip6", host)
	case familyV4Preferred:
		return fallback(ctx, r, "ip4", "ip6", host)
	case familyAll:
		return both(ctx, r, host)
	default:
		return fallback(ctx, r, "ip6", "ip4", host)
	}
}

// fallback asks for the second family if the first has no address.
func fallback(ctx context.Context, r Resolver, first, second, host string) (answer, error) {
	a, err := query(ctx, r, first, host)
	if err == nil && len(a.addrs) > 0 {
		return a, nil
	}
	b, err2 := query(ctx, r, second, host)
	if err2 != nil || (len(b.addrs) == 0 && err != nil) {
		return answer{}, errors.Join(err, err2)
	}
	return b, nil
}

// both asks for both families and interleaves them, IPv6 first (RFC 8305). It
// fails only if no family has an address and one lookup failed.
func both(ctx context.Context, r Resolver, host string) (answer, error) {
	v6, err6 := query(ctx, r, "ip6", host)
	v4, err4 := query(ctx, r, "ip4", host)
	var out answer
	for i := range max(len(v6.addrs), len(v4.addrs)) {
		if i < len(v6.addrs) {
			out.addrs = append(out.addrs, v6.addrs[i])
		}
		if i < len(v4.addrs) {
			out.addrs = append(out.addrs, v4.addrs[i])
		}
	}
	out.ttl = shorter(v6.ttl, v4.ttl)
	if len(out.addrs) == 0 {
		return out, errors.Join(err6, err4)
	}
	return out, nil
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// query asks for one family; duplicates collapse and the order stays.
func query(ctx context.Context, r Resolver, network, host string) (answer, error) {
	var out answer
	var addrs []netip.Addr
	var err error
	if t, ok := r.(TTLResolver); ok {
		addrs, out.ttl, err = t.LookupNetIPTTL(ctx, network, host)
	} else {
		addrs, err = r.LookupNetIP(ctx, network, host)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	seen := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		a = a.Unmap()
		if !seen[a] && a.Is4() == (network == "ip4") {
			seen[a] = true
			out.addrs = append(out.addrs, a)
		}
	}
	return out, nil
}
