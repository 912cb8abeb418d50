package healthcheck

import "github.com/xebec-proxy/xebec/internal/dataplane/stats"

// counts are the statistics of one check, below health_check. or, with a name,
// health_check.name.<name>. (HK-11).
type counts struct {
	Attempt        stats.Counter `stat:"attempt"`
	Success        stats.Counter `stat:"success"`
	Failure        stats.Counter `stat:"failure"`
	PassiveFailure stats.Counter `stat:"passive_failure"`
	NetworkFailure stats.Counter `stat:"network_failure"`
	VerifyCluster  stats.Counter `stat:"verify_cluster"`
	Healthy        stats.Gauge   `stat:"healthy"`
	Degraded       stats.Gauge   `stat:"degraded"`
}

// hosts are the gauges of a cluster with several checks: how many hosts pass all,
// and how many some check finds degraded.
type hosts struct {
	Healthy  stats.Gauge `stat:"healthy"`
	Degraded stats.Gauge `stat:"degraded"`
}

// Sink counts for goroutines that are not workers. Safe for concurrent use.
type Sink interface {
	Add(c stats.Counter, n uint64)
	GaugeAdd(g stats.Gauge, d int64)
}

const prefix = "health_check."

func newCounts(reg stats.Registrar, name string) *counts {
	c, at := &counts{}, prefix
	if name != "" {
		at += "name." + name + "."
	}
	stats.Fill(reg, at, c)
	return c
}

// take counts a result and what it did.
func (c *counts) take(sink Sink, v Verdict, s Step) {
	switch {
	case v.Passes():
		sink.Add(c.Success, 1)
	default:
		sink.Add(c.Failure, 1)
	}
	switch v {
	case NetworkFailed, TimedOut:
		sink.Add(c.NetworkFailure, 1)
	case Passive:
		sink.Add(c.PassiveFailure, 1)
	case Passed, Degraded, Failed, Retriable:
	}
	move(sink, c.Healthy, s.Added, s.Ejected)
	move(sink, c.Degraded, s.Demoted, s.Promoted)
}

// end takes a host out of the gauges.
func (c *counts) end(sink Sink, m *Machine) {
	move(sink, c.Healthy, false, !m.failed)
	move(sink, c.Degraded, false, m.degraded)
}

// move counts one more, or one less.
func move(sink Sink, g stats.Gauge, more, less bool) {
	switch {
	case more == less:
	case more:
		sink.GaugeAdd(g, 1)
	default:
		sink.GaugeAdd(g, -1)
	}
}
