// Package fault is the HTTP filter envoy.filters.http.fault: it delays and
// aborts requests and slows responses down, to test what clients make of it.
package fault

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
)

// Type is the kind of filter
// (envoy/extensions/filters/http/fault/v3/fault.proto; spec HF-20). A route's
// configuration, the most specific one, takes the place of the filter's.
// Statistics are "fault.*" of the connection manager.
func Type() filter.HTTPType {
	return filter.HTTPType{
		Config: (*faultv3.HTTPFault)(nil), New: build,
		RouteConfig: (*faultv3.HTTPFault)(nil), ParseRoute: parseRoute,
	}
}

// kind is a configured filter, shared by workers.
type kind struct {
	settings *settings
	env      *filter.Env
	pool     sync.Pool
	// active are the streams of all workers that have a fault now.
	active atomic.Int64

	aborts, delays, limited, overflow, activeGauge uint32

	peers peers
}

func build(cfg proto.Message, env *filter.Env) (filter.HTTPFactory, error) {
	c, ok := cfg.(*faultv3.HTTPFault)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not an HTTPFault", cfg)
	}
	s, err := parse(c)
	if err != nil {
		return nil, err
	}
	own := *env
	k := &kind{
		settings: s, env: &own,
		aborts: env.Stats.Counter("fault.aborts_injected"), delays: env.Stats.Counter("fault.delays_injected"),
		limited: env.Stats.Counter("fault.response_rl_injected"), overflow: env.Stats.Counter("fault.faults_overflow"),
		activeGauge: env.Stats.Gauge("fault.active_faults"),
	}
	return func(cb filter.Callbacks) filter.HTTPFilter {
		f, ok := k.pool.Get().(*stream)
		if !ok {
			f = &stream{kind: k}
		}
		f.cb = cb
		return filter.HTTPFilter{Decoder: f, Encoder: f}
	}, nil
}

func parseRoute(cfg proto.Message, _ *filter.Env) (any, error) {
	c, ok := cfg.(*faultv3.HTTPFault)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not an HTTPFault", cfg)
	}
	return parse(c)
}

// integer is a runtime key's whole number, or a fallback.
func (k *kind) integer(key string, fallback uint64) uint64 {
	if k.env.RuntimeInteger != nil {
		if n, ok := k.env.RuntimeInteger(key); ok {
			return n
		}
	}
	return fallback
}

// enabled draws for a fraction, which a runtime key may replace.
func (k *kind) enabled(key string, p part, random func() uint64) bool {
	if k.env.RuntimeFraction != nil {
		if n, d, ok := k.env.RuntimeFraction(key); ok {
			p = part{uint64(n), uint64(d)}
		}
	}
	switch {
	case p.n == 0 || p.d == 0:
		return false
	case p.n >= p.d:
		return true
	}
	return random()%p.d < p.n
}

// full reports whether no more faults are allowed now.
func (k *kind) full(s *settings) bool {
	limit := k.integer(s.maxKey, s.max)
	return limit <= math.MaxInt64 && k.active.Load() >= int64(limit)
}

// peers are the counters of downstream service clusters.
type peers struct {
	mu    sync.Mutex
	known map[peer]uint32
}

// peer is a fault of a downstream cluster.
type peer struct{ cluster, fault string }

// maxPeers bounds the statistics that clients' names can make; the names are
// those of trusted peers, as others' headers are removed.
const maxPeers = 2048

// peer is the counter of a fault for a downstream cluster, or 0 if there are too
// many.
func (k *kind) peer(cluster, fault string) uint32 {
	k.peers.mu.Lock()
	defer k.peers.mu.Unlock()
	if id, ok := k.peers.known[peer{cluster, fault}]; ok || len(k.peers.known) >= maxPeers {
		return id
	}
	if k.peers.known == nil {
		k.peers.known = map[peer]uint32{}
	}
	cluster = strings.Clone(cluster) // the header's memory is the stream's
	id := k.env.Stats.Counter("fault." + cluster + "." + fault)
	k.peers.known[peer{cluster, fault}] = id
	return id
}
