package cluster

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// errRunning is returned by a second Run.
var errRunning = errors.New("the cluster is already running")

// resolution is the outcome of one lookup.
type resolution struct {
	endpoint int
	answer   answer
	err      error
}

// Run keeps the hosts of a DNS cluster up to date until ctx is done, and
// returns after its goroutines ended; the error is nil then. In a STATIC or EDS
// cluster it returns at once. It may be called once.
func (c *Cluster) Run(ctx context.Context) error {
	if c.kind == kindStatic || c.kind == kindEDS {
		return nil
	}
	if c.running.Swap(true) {
		return errRunning
	}
	results := make(chan resolution)
	var wg sync.WaitGroup
	for i := range c.assignment.endpoints {
		if !c.assignment.endpoints[i].target.addr.IsValid() {
			wg.Go(func() { c.refresh(ctx, i, results) })
		}
	}
	c.collect(ctx, results)
	wg.Wait()
	return nil
}

// collect owns the hosts: it applies the answers until ctx is done.
func (c *Cluster) collect(ctx context.Context, results <-chan resolution) {
	known := make([][]netip.Addr, len(c.assignment.endpoints))
	waiting := make(map[int]bool)
	literals := false
	for i := range c.assignment.endpoints {
		if t := &c.assignment.endpoints[i].target; t.addr.IsValid() {
			known[i] = []netip.Addr{t.addr.IP.Addr()}
			literals = true
		} else {
			waiting[i] = true
		}
	}
	if literals {
		c.apply(c.dnsSpecs(known))
	}
	for {
		if len(waiting) == 0 {
			c.nowKnown()
		}
		select {
		case <-ctx.Done():
			return
		case r := <-results:
			delete(waiting, r.endpoint)
			c.resolved(known, r)
		}
	}
}

// resolved applies one answer. A failure keeps what is known; an empty answer
// removes it (CM-07).
func (c *Cluster) resolved(known [][]netip.Addr, r resolution) {
	if r.err != nil {
		c.sink.Add(c.Stats.UpdateFailure, 1)
		c.log.Warn("DNS lookup failed; keeping the hosts that are known", slog.String("cluster", c.Name()),
			slog.String("name", c.assignment.endpoints[r.endpoint].target.name), slog.Any("error", r.err))
		return
	}
	c.sink.Add(c.Stats.UpdateSuccess, 1)
	addrs := r.answer.addrs
	if c.kind == kindStrictDNS && sameAddrs(known[r.endpoint], addrs) {
		addrs = known[r.endpoint] // servers rotate their answers: that is no change
	}
	known[r.endpoint] = addrs
	if !c.apply(c.dnsSpecs(known)) {
		c.sink.Add(c.Stats.UpdateNoRebuild, 1)
	}
}

func sameAddrs(a, b []netip.Addr) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}

// dnsSpecs makes hosts of the known addresses: each is a host in STRICT_DNS;
// all are one host in LOGICAL_DNS, the first its address.
func (c *Cluster) dnsSpecs(known [][]netip.Addr) []hostSpec {
	var specs []hostSpec
	for i, addrs := range known {
		e := &c.assignment.endpoints[i]
		var all []filter.Address
		for _, a := range addrs {
			all = append(all, filter.IPAddress(netip.AddrPortFrom(a, e.target.port)))
		}
		if c.kind == kindLogicalDNS {
			if len(all) > 0 {
				specs = append(specs, c.logicalSpec(e, all))
			}
			continue
		}
		for _, a := range all {
			specs = append(specs, hostSpec{where: addresses{first: a}, hostname: e.hostname, attrs: e.attrs, check: e.check})
		}
	}
	return specs
}

// logicalSpec is the host of a LOGICAL_DNS cluster. Only family ALL races the
// further addresses (CM-08, CM-09).
func (c *Cluster) logicalSpec(e *endpoint, all []filter.Address) hostSpec {
	s := hostSpec{logical: true, where: addresses{first: all[0]}, hostname: e.hostname, attrs: e.attrs, check: e.check}
	if c.dns.family == familyAll {
		s.where.more = all[1:]
	}
	return s
}

// refresh looks one name up again and again.
func (c *Cluster) refresh(ctx context.Context, i int, results chan<- resolution) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		c.sink.Add(c.Stats.UpdateAttempt, 1)
		a, err := lookup(ctx, c.resolver, c.dns.family, c.assignment.endpoints[i].target.name)
		select {
		case <-ctx.Done():
			return
		case results <- resolution{i, a, err}:
		}
		if err != nil {
			timer.Reset(c.dns.afterFailure(failures, c.random()))
			failures++
		} else {
			timer.Reset(c.dns.afterSuccess(a.ttl, c.random()))
			failures = 0
		}
	}
}
