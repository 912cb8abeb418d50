package healthdiscovery

import (
	"slices"
	"sync"
	"time"
)

// node is what one node reported.
type node struct {
	mu         sync.Mutex // guards what follows; held for memory work only
	checker    Checker
	endpoints  []EndpointHealth // replaced, never changed
	lastReport time.Time
}

func (n *node) introduce(c Checker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.checker = c
}

// record replaces what the node reported before.
func (n *node) record(c Checker, report []EndpointHealth) NodeHealth {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range report {
		report[i].Since = since(n.endpoints, &report[i], now)
	}
	n.endpoints, n.lastReport = report, now
	return NodeHealth{Checker: c, LastReport: now, Endpoints: report}
}

// since is the time from which an endpoint has had its status.
func since(before []EndpointHealth, e *EndpointHealth, now time.Time) time.Time {
	i, found := slices.BinarySearchFunc(before, e.key(), func(b EndpointHealth, k endpointKey) int {
		return b.key().compare(k)
	})
	if found && before[i].Status == e.Status {
		return before[i].Since
	}
	return now
}

func (n *node) export(streams int) NodeHealth {
	n.mu.Lock()
	defer n.mu.Unlock()
	return NodeHealth{Checker: n.checker, Streams: streams, LastReport: n.lastReport, Endpoints: n.endpoints}
}
