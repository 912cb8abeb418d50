package cluster

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// RoutePriority picks a breaker set and a pool (RT-26).
type RoutePriority uint8

// The routing priorities.
const (
	DefaultPriority RoutePriority = iota
	HighPriority
	routePriorities
)

// RoutePriorityOf reads a route's priority.
func RoutePriorityOf(p corev3.RoutingPriority) RoutePriority {
	if p == corev3.RoutingPriority_HIGH {
		return HighPriority
	}
	return DefaultPriority
}

func (p RoutePriority) String() string {
	if p == HighPriority {
		return "high"
	}
	return "default"
}

// Resource counts one kind of thing against its limit, exactly and over all
// workers (CB-08). Safe for concurrent use.
type Resource struct {
	max atomic.Uint64
	// cur is nil until something is counted: most clusters of many never are.
	cur atomic.Pointer[count]
}

// count is a number that changes with each request, alone on its cache line, as
// large pieces of memory are aligned.
type count struct {
	n atomic.Int64
	_ [56]byte
}

// counting is the count of a cell, made if need be.
func counting(cell *atomic.Pointer[count]) *atomic.Int64 {
	c := cell.Load()
	if c == nil {
		cell.CompareAndSwap(nil, new(count))
		c = cell.Load()
	}
	return &c.n
}

// counted is the value of a cell.
func counted(cell *atomic.Pointer[count]) int64 {
	if c := cell.Load(); c != nil {
		return c.n.Load()
	}
	return 0
}

// Try counts one more unless the limit is reached. Each success is followed by
// one Release.
func (r *Resource) Try() bool { return r.tryWithin(r.max.Load()) }

func (r *Resource) tryWithin(limit uint64) bool {
	return limit > 0 && tryAdd(counting(&r.cur), limit)
}

// used reports whether anything was ever counted.
func (r *Resource) used() bool { return r.cur.Load() != nil }

// Force counts one more even over the limit: a pool without any connection may
// make one (CB-02). It is followed by one Release.
func (r *Resource) Force() {
	counting(&r.cur).Add(1)
}

// Release counts one less.
func (r *Resource) Release() { counting(&r.cur).Add(-1) }

// Count is the number in use.
func (r *Resource) Count() uint64 { return nonNegative(counted(&r.cur)) }

// Max is the limit.
func (r *Resource) Max() uint64 { return r.max.Load() }

// Open reports whether the limit is reached by something in use.
func (r *Resource) Open() bool { return isOpen(r.Count(), r.Max()) }

// Remaining is how many more the limit allows.
func (r *Resource) Remaining() uint64 { return remaining(r.Count(), r.Max()) }

func isOpen(cur, limit uint64) bool { return cur > 0 && cur >= limit }

func remaining(cur, limit uint64) uint64 {
	if cur >= limit {
		return 0
	}
	return limit - cur
}

func nonNegative(n int64) uint64 { return uint64(max(n, 0)) }

// tryAdd adds one to n if it is below limit.
func tryAdd(n *atomic.Int64, limit uint64) bool {
	for {
		cur := n.Load()
		if nonNegative(cur) >= limit {
			return false
		}
		if n.CompareAndSwap(cur, cur+1) {
			return true
		}
	}
}

// Breaker is the limits of one cluster and routing priority
// (envoy.config.cluster.v3.CircuitBreakers.Thresholds). Safe for concurrent
// use.
type Breaker struct {
	Cx, Pending, Request, CxPool Resource

	retries       Resource // the limit is used without a budget
	budget        bool
	budgetPercent atomic.Uint64 // float64 bits
	minRetries    atomic.Uint64
	track         bool
	conf          limits
}

// limits are the configured values; the runtime may override them (CB-07).
type limits struct {
	cx, pending, request, retries, pools uint64
	budgetPercent                        float64
	minRetries                           uint64
}

// TryCx counts a new connection; ReleaseCx ends it.
func (b *Breaker) TryCx() bool { return b.Cx.Try() }

// ForceCx counts a new connection even over the limit; ReleaseCx ends it.
func (b *Breaker) ForceCx() { b.Cx.Force() }

// ReleaseCx counts the end of a connection.
func (b *Breaker) ReleaseCx() { b.Cx.Release() }

// TryPending counts a request that waits for a connection; ReleasePending ends
// the wait.
func (b *Breaker) TryPending() bool { return b.Pending.Try() }

// ReleasePending counts the end of a wait.
func (b *Breaker) ReleasePending() { b.Pending.Release() }

// TryRequest counts a request sent to a host; ReleaseRequest ends it.
func (b *Breaker) TryRequest() bool { return b.Request.Try() }

// ReleaseRequest counts the end of a request.
func (b *Breaker) ReleaseRequest() { b.Request.Release() }

// TryRetry counts a retry within max_retries or within the retry budget
// (CB-04); ReleaseRetry ends it.
func (b *Breaker) TryRetry() bool { return b.retries.tryWithin(b.MaxRetries()) }

// ReleaseRetry counts the end of a retry.
func (b *Breaker) ReleaseRetry() { b.retries.Release() }

// Retries is the number of retries under way.
func (b *Breaker) Retries() uint64 { return b.retries.Count() }

// MaxRetries is how many retries may be under way now: max_retries, or with a
// retry budget its percentage of the active and waiting requests, at least
// min_retry_concurrency.
func (b *Breaker) MaxRetries() uint64 {
	if !b.budget {
		return b.retries.Max()
	}
	active := b.Request.Count() + b.Pending.Count()
	percent := math.Float64frombits(b.budgetPercent.Load())
	return max(uint64(percent/100*float64(active)), b.minRetries.Load())
}

func newBreaker(t *clusterv3.CircuitBreakers_Thresholds) (*Breaker, error) {
	b := &Breaker{track: t.GetTrackRemaining()}
	b.conf = limits{
		cx:      uint64(uint32Or(t.GetMaxConnections(), 1024)),
		pending: uint64(uint32Or(t.GetMaxPendingRequests(), 1024)),
		request: uint64(uint32Or(t.GetMaxRequests(), 1024)),
		retries: uint64(uint32Or(t.GetMaxRetries(), 3)),
		pools:   math.MaxUint64,
	}
	if t.GetMaxConnectionPools() != nil {
		b.conf.pools = uint64(t.GetMaxConnectionPools().GetValue())
	}
	if rb := t.GetRetryBudget(); rb != nil {
		if rb.GetBudgetInterval() != nil {
			return nil, errors.New("retry_budget.budget_interval: known but not built; remove it")
		}
		b.budget = true
		b.conf.budgetPercent = 20
		if rb.GetBudgetPercent() != nil {
			b.conf.budgetPercent = rb.GetBudgetPercent().GetValue()
		}
		b.conf.minRetries = uint64(uint32Or(rb.GetMinRetryConcurrency(), 3))
	}
	b.set(b.conf)
	return b, nil
}

func (b *Breaker) set(l limits) {
	b.Cx.max.Store(l.cx)
	b.Pending.max.Store(l.pending)
	b.Request.max.Store(l.request)
	b.retries.max.Store(l.retries)
	b.CxPool.max.Store(l.pools)
	b.budgetPercent.Store(math.Float64bits(l.budgetPercent))
	b.minRetries.Store(l.minRetries)
}

// applyRuntime takes over the limits that the runtime overrides.
func (b *Breaker) applyRuntime(prefix string, rt Runtime) {
	l := b.conf
	l.cx = rt.Integer(prefix+"max_connections", l.cx)
	l.pending = rt.Integer(prefix+"max_pending_requests", l.pending)
	l.request = rt.Integer(prefix+"max_requests", l.request)
	l.retries = rt.Integer(prefix+"max_retries", l.retries)
	l.pools = rt.Integer(prefix+"max_connection_pools", l.pools)
	l.budgetPercent = rt.Double(prefix+"retry_budget.budget_percent", l.budgetPercent)
	l.minRetries = rt.Integer(prefix+"retry_budget.min_retry_concurrency", l.minRetries)
	b.set(l)
}

// newBreakers reads circuit_breakers: of several thresholds of a priority the
// first counts, as in Envoy.
func newBreakers(cb *clusterv3.CircuitBreakers) (sets [routePriorities]*Breaker, err error) {
	for p := range sets {
		var t *clusterv3.CircuitBreakers_Thresholds
		at := 0
		for i, c := range cb.GetThresholds() {
			if t == nil && RoutePriorityOf(c.GetPriority()) == RoutePriority(p) {
				t, at = c, i
			}
		}
		if sets[p], err = newBreaker(t); err != nil {
			return sets, fmt.Errorf("circuit_breakers.thresholds[%d].%w", at, err)
		}
	}
	return sets, nil
}

// perHostLimit reads per_host_thresholds (CB-05); without it there is no limit.
func perHostLimit(cb *clusterv3.CircuitBreakers) (uint64, error) {
	limit := uint64(math.MaxInt64)
	for i, t := range cb.GetPerHostThresholds() {
		if t.GetMaxPendingRequests() != nil || t.GetMaxRequests() != nil || t.GetMaxRetries() != nil ||
			t.GetRetryBudget() != nil || t.GetMaxConnectionPools() != nil || t.GetTrackRemaining() {
			return 0, fmt.Errorf("circuit_breakers.per_host_thresholds[%d]: Unsupported field in per_host_thresholds; only max_connections is allowed", i)
		}
		first := limit == math.MaxInt64
		if first && t.GetMaxConnections() != nil && t.GetPriority() == corev3.RoutingPriority_DEFAULT {
			limit = uint64(t.GetMaxConnections().GetValue())
		}
	}
	return limit, nil
}
