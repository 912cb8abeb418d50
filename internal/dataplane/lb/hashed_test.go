package lb

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// hashOf is a request with a hash.
type hashOf uint64

func (h hashOf) Hash(*hashpolicy.Policy) (uint64, bool) { return uint64(h), true }

// withoutHash is a request without one.
type withoutHash struct{}

func (withoutHash) Hash(*hashpolicy.Policy) (uint64, bool) { return 0, false }

// hashPolicies are the policies that hash, with a change of the configuration.
func hashPolicies(change func(*clusterv3.Cluster)) map[string]func(*clusterv3.Cluster) {
	all := map[string]func(*clusterv3.Cluster){}
	for name, p := range map[string]clusterv3.Cluster_LbPolicy{"ring": clusterv3.Cluster_RING_HASH, "maglev": clusterv3.Cluster_MAGLEV} {
		all[name] = func(c *clusterv3.Cluster) {
			c.LbPolicy = p
			if change != nil {
				change(c)
			}
		}
	}
	return all
}

func balanceFactor(n uint32) func(*clusterv3.Cluster) {
	return func(c *clusterv3.Cluster) {
		c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{ConsistentHashingLbConfig: &clusterv3.Cluster_CommonLbConfig_ConsistentHashingLbConfig{
			HashBalanceFactor: wrapperspb.UInt32(n),
		}}
	}
}

// Requests without a hash go anywhere.
// Proves LB-05.
func TestWithoutHash(t *testing.T) {
	for name, change := range hashPolicies(nil) {
		c, reg := made(t, change, group{healthy: 5})
		p := picking(c, reg, 1)
		for _, ctx := range []*Context{nil, {}, {Hasher: withoutHash{}}} {
			counts := map[*cluster.Host]int{}
			for range 5000 {
				counts[p.Pick(ctx)]++
			}
			for _, h := range c.Hosts().Hosts() {
				if n := counts[h]; n < 600 || n > 1500 {
					t.Errorf("%s: %v has %d of 5000", name, h, n)
				}
			}
		}
	}
}

// A host with more than its part of the requests is left out, for another that
// follows from the hash; when all have too many, the one with the fewest is taken.
// Proves LB-06.
func TestBoundedLoads(t *testing.T) {
	for name, change := range hashPolicies(balanceFactor(100)) {
		c, reg := made(t, change, group{healthy: 4})
		p := picking(c, reg, 1)
		for h := range 20 {
			hash := hashOf(xxhash.Sum64String(fmt.Sprint(h)))
			ctx := &Context{Hasher: hash}
			busy := map[*cluster.Host]int{}
			var order []*cluster.Host
			for range 40 {
				host := p.Pick(ctx)
				if again := p.Pick(ctx); again != host {
					t.Fatalf("%s: %v and %v for the same", name, host, again)
				}
				host.AddRqActive(1)
				if busy[host]++; busy[host] == 1 {
					order = append(order, host)
				}
			}
			if n := c.RqActive(); n != 40 {
				t.Errorf("%d active", n)
			}
			for host, n := range busy {
				if n < 7 || n > 11 { // one more than its part is not too many
					t.Errorf("%s: %v has %d of 40", name, host, n)
				}
				host.AddRqActive(-int64(n))
			}
			if p.Pick(ctx) != order[0] || len(order) != 4 {
				t.Errorf("%s: back at rest %v, not %v", name, p.Pick(ctx), order)
			}
		}
	}
}

// With a larger factor fewer hosts are enough, and a host that has just its part is
// not left out. The numbers are by hand from Envoy's formula.
// Proves LB-06, with TestBoundedLoads.
func TestBalanceFactor(t *testing.T) {
	for factor, want := range map[uint32]string{100: "4 4 4", 150: "6 6", 200: "7 5", 400: "12"} {
		for name, change := range hashPolicies(balanceFactor(factor)) {
			c, reg := made(t, change, group{healthy: 4})
			p, ctx := picking(c, reg, 1), &Context{Hasher: hashOf(7)}
			var order []*cluster.Host
			counts := map[*cluster.Host]int{}
			for range 12 {
				h := p.Pick(ctx)
				h.AddRqActive(1)
				if counts[h]++; counts[h] == 1 {
					order = append(order, h)
				}
			}
			var got []string
			for _, h := range order {
				got = append(got, fmt.Sprint(counts[h]))
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%s, %d: %s, want %s", name, factor, s, want)
			}
		}
	}
}

// Without hash_balance_factor nobody counts.
func TestUnboundedLoads(t *testing.T) {
	c, reg := made(t, policy(clusterv3.Cluster_MAGLEV), group{healthy: 4})
	p := picking(c, reg, 1)
	ctx := &Context{Hasher: hashOf(7)}
	host := p.Pick(ctx)
	host.AddRqActive(1000)
	if p.Pick(ctx) != host || c.RqActive() != 0 {
		t.Error("the load counts")
	}
}

// A refused host is followed by another, the same for the same request.
// Partly proves LB-07, LB-17.
func TestHashedAgain(t *testing.T) {
	for name, change := range hashPolicies(nil) {
		c, reg := made(t, change, group{healthy: 5})
		p := picking(c, reg, 1)
		for h := range 50 {
			hash := hashOf(xxhash.Sum64String(fmt.Sprint(h)))
			first := p.Pick(&Context{Hasher: hash})
			ctx := &Context{Hasher: hash, Reject: func(h *cluster.Host) bool { return h == first }, Reselect: 20}
			second := p.Pick(ctx)
			if second == first || second == nil || p.Pick(ctx) != second {
				t.Errorf("%s: %v after %v", name, second, first)
			}
			all := &Context{Hasher: hash, Reject: func(*cluster.Host) bool { return true }, Reselect: 3}
			if p.Pick(all) == nil {
				t.Errorf("%s: nobody when all are refused", name)
			}
		}
	}
}

// Proves LB-19: a choice takes no memory.
func TestHashingAllocatesNothing(t *testing.T) {
	for _, factor := range []uint32{0, 100} {
		for name, change := range hashPolicies(func(c *clusterv3.Cluster) {
			if factor > 0 {
				balanceFactor(factor)(c)
			}
		}) {
			c, reg := made(t, change, group{healthy: 100})
			for _, h := range c.Hosts().Hosts()[:50] {
				h.AddRqActive(100)
			}
			p, n := picking(c, reg, 1), uint64(0)
			ctx := &Context{Hasher: hashOf(1)}
			if a := testing.AllocsPerRun(200, func() {
				n += 0x9e3779b97f4a7c15
				p.Pick(ctx)
			}); a > 0 {
				t.Errorf("%s, %d: %v", name, factor, a)
			}
		}
	}
}

// changing is an EDS cluster of n hosts, and a way to change the weight of one.
func changing(b testing.TB, lb clusterv3.Cluster_LbPolicy, n int) (c *cluster.Cluster, reg *stats.Registry, change func(weight uint32)) {
	b.Helper()
	c, reg = made(b, func(c *clusterv3.Cluster) {
		c.LbPolicy, c.LoadAssignment = lb, nil
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}}
	})
	la := endpoints(group{healthy: n})
	return c, reg, func(weight uint32) {
		la.Endpoints[0].LbEndpoints[n/2].LoadBalancingWeight = wrapperspb.UInt32(weight)
		if err := c.Assign(la); err != nil {
			b.Fatal(err)
		}
	}
}

// While endpoints change, hashes lead to hosts that there are, on every worker.
// Proves LB-18 for policies that hash.
func TestHashingUnderChurn(t *testing.T) {
	for _, lb := range []clusterv3.Cluster_LbPolicy{clusterv3.Cluster_RING_HASH, clusterv3.Cluster_MAGLEV} {
		c, reg, change := changing(t, lb, 20)
		change(1)
		var wg sync.WaitGroup
		var stop atomic.Bool
		for seed := range uint64(3) {
			p := picking(c, reg, seed)
			wg.Go(func() {
				for n := seed; !stop.Load(); n += 0x9e3779b97f4a7c15 {
					if p.Pick(&Context{Hasher: hashOf(n)}) == nil {
						t.Error("no host")
						return
					}
				}
			})
		}
		for i := range uint32(100) {
			change(i%9 + 1)
		}
		stop.Store(true)
		wg.Wait()
	}
}

// BenchmarkEndpointChanged is the time from an assignment in which one endpoint
// has changed to the hosts in force; ROUND_ROBIN is what it takes without a table.
func BenchmarkEndpointChanged(b *testing.B) {
	for _, lb := range []clusterv3.Cluster_LbPolicy{clusterv3.Cluster_ROUND_ROBIN, clusterv3.Cluster_RING_HASH, clusterv3.Cluster_MAGLEV} {
		for _, n := range []int{1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", lb, n), func(b *testing.B) {
				_, _, change := changing(b, lb, n)
				weight := uint32(0)
				for b.Loop() {
					weight = weight%2 + 1
					change(weight)
				}
			})
		}
	}
}

func BenchmarkHashed10k(b *testing.B) {
	for name, change := range hashPolicies(nil) {
		c, reg := made(b, change, group{healthy: 10000})
		p, random := picking(c, reg, 1), rand.New(rand.NewPCG(1, 2))
		hashes := make([]Context, 1024)
		for i := range hashes {
			hashes[i].Hasher = hashOf(random.Uint64())
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.Pick(&hashes[i%len(hashes)])
			}
		})
	}
}
