// Package vhoststats has the statistics of virtual clusters and of routes:
// "vhost.<virtual host>.vcluster.<name>." and "vhost.<virtual host>.route.<name>."
// (RT-30, ST-16).
package vhoststats

import (
	"runtime"
	"strings"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Host is a virtual host's statistics. The names are there for as long as anything
// refers to one of its hosts, or of its counts. Not safe for concurrent use, but the
// counts are. Of a nil Host there are no counts.
type Host struct {
	scope *stats.Scope
	name  *name
}

// name is what has a virtual host's name in the registry.
type name struct{ lease *stats.Lease }

// New makes the statistics of a virtual host.
func New(r *stats.Registry, host string) *Host {
	n := &name{r.RawLease(trim("vhost." + host))}
	// A virtual host has no moment of its end: tables share it, and streams that
	// are under way have it after them.
	runtime.AddCleanup(n, (*stats.Lease).End, n.lease)
	return &Host{n.lease.Scope, n}
}

// VirtualCluster are the counts of a virtual cluster.
func (h *Host) VirtualCluster(name string) *Counts { return h.counts("vcluster", name) }

// Route are the counts of the routes with a stat_prefix.
func (h *Host) Route(prefix string) *Counts { return h.counts("route", prefix) }

func (h *Host) counts(kind, name string) *Counts {
	if h == nil {
		return nil
	}
	c := &Counts{name: h.name}
	scope := h.scope.RawScope(kind).RawScope(trim(name))
	scope.Fill(c)
	c.Codes.Init(scope)
	return c
}

// trim leaves out dots at the end, as Envoy does with parts of names.
func trim(name string) string { return strings.TrimRight(name, ".") }

// Counts are what is counted of the requests of a virtual cluster, or a route, beside
// their cluster. It is immutable, and safe for concurrent use.
type Counts struct {
	Retry         stats.Counter `stat:"upstream_rq_retry"`
	RetryLimit    stats.Counter `stat:"upstream_rq_retry_limit_exceeded"`
	RetryOverflow stats.Counter `stat:"upstream_rq_retry_overflow"`
	RetrySuccess  stats.Counter `stat:"upstream_rq_retry_success"`
	Timeout       stats.Counter `stat:"upstream_rq_timeout"`
	Total         stats.Counter `stat:"upstream_rq_total"`
	// Codes are the responses' codes and times.
	Codes cluster.CodeTree

	name *name
}
