package loadreport

import (
	"fmt"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// node is what one node reported.
type node struct {
	mu         sync.Mutex // guards what follows; held for memory work only
	info       *xds.Node
	totals     tree
	size       size // of totals
	latest     map[*session]tree
	lastReport time.Time
	lastPrune  time.Time
}

func newNode() *node {
	return &node{totals: tree{}, latest: map[*session]tree{}, lastPrune: time.Now()}
}

// session is one open stream.
type session struct {
	member *reporting.Member[node]
	info   *xds.Node
}

func (n *node) join(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.info = s.info
	n.latest[s] = nil
}

func (n *node) leave(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.latest, s)
}

// record takes a whole report, or none of it if it would exceed a limit.
func (n *node) record(s *session, report tree, limits Limits, retention time.Duration) error {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.lastPrune) >= retention {
		n.totals.prune(now.Add(-retention))
		n.size, n.lastPrune = n.totals.size(), now
	}
	grown := n.size.with(n.totals, report)
	if err := grown.check(limits); err != nil {
		return err
	}
	n.totals.accumulate(report, now)
	n.size = grown
	n.latest[s] = report
	n.lastReport = now
	return nil
}

func (n *node) collectInto(out tree, want selection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out.collect(n.totals, want)
	for _, t := range n.latest {
		out.collect(t, want)
	}
}

func (n *node) export(streams int) NodeLoad {
	out := tree{}
	n.collectInto(out, everyCluster)
	n.mu.Lock()
	defer n.mu.Unlock()
	return NodeLoad{Node: n.info, Streams: streams, LastReport: n.lastReport, Clusters: out.export()}
}

// size counts the entries of a tree.
type size struct{ clusters, localities, endpoints, names int }

// with is the size that t, of size n, would have with a report added.
func (n size) with(t, report tree) size {
	for k, r := range report {
		c := t[k]
		if c == nil {
			c = &clusterEntry{}
			n.clusters++
		}
		n.names += missing(c.Dropped.Categories, r.LatestDropped.Categories)
		for lk, rl := range r.localities {
			l := c.localities[lk]
			if l == nil {
				l = &localityEntry{}
				n.localities++
			}
			n.names += missing(l.Total.Metrics, rl.Latest.Metrics)
			for a, re := range rl.endpoints {
				e := l.endpoints[a]
				if e == nil {
					e = &endpointEntry{}
					n.endpoints++
				}
				n.names += missing(e.Total.Metrics, re.Latest.Metrics)
			}
		}
	}
	return n
}

func (t tree) size() size {
	n := size{clusters: len(t)}
	for _, c := range t {
		n.names += len(c.Dropped.Categories)
		n.localities += len(c.localities)
		for _, l := range c.localities {
			n.names += len(l.Total.Metrics)
			n.endpoints += len(l.endpoints)
			for _, e := range l.endpoints {
				n.names += len(e.Total.Metrics)
			}
		}
	}
	return n
}

func missing[V any](have, want map[string]V) int {
	n := 0
	for k := range want {
		if _, ok := have[k]; !ok {
			n++
		}
	}
	return n
}

func (n size) check(l Limits) error {
	for _, c := range []struct {
		what       string
		got, limit int
	}{
		{"clusters", n.clusters, l.Clusters},
		{"localities", n.localities, l.Localities},
		{"endpoints", n.endpoints, l.Endpoints},
		{"metric names and drop categories", n.names, l.Names},
	} {
		if c.got > c.limit {
			return fmt.Errorf("the node would have %d %s; the limit is %d: report fewer or raise the limit",
				c.got, c.what, c.limit)
		}
	}
	return nil
}
