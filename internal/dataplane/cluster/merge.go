package cluster

import (
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// UpdateStats are the counters of updates (CM-16), which all clusters share. As in
// Envoy each counts priorities, but a change by EDS that is not merged once, and nothing
// before the cluster serves.
type UpdateStats struct {
	// ClusterUpdated counts what was put in force at once.
	ClusterUpdated stats.Counter `stat:"cluster_manager.cluster_updated"`
	// UpdatedViaMerge counts what was put in force at the end of a window.
	UpdatedViaMerge stats.Counter `stat:"cluster_manager.cluster_updated_via_merge"`
	// MergeCancelled counts those that waited when another one did not wait.
	MergeCancelled stats.Counter `stat:"cluster_manager.update_merge_cancelled"`
	// OutOfMergeWindow counts those that could have waited, and need not since there
	// was none in the window before.
	OutOfMergeWindow stats.Counter `stat:"cluster_manager.update_out_of_merge_window"`
}

// defaultMergeWindow is that of clusters that have no update_merge_window.
const defaultMergeWindow = time.Second

// touch is what an update does to a priority.
type touch uint8

const (
	untouched touch = iota
	// altered: its hosts are the same, but their weight, health or metadata is not,
	// or the policy.
	altered
	// moved: hosts have come or gone. That never waits.
	moved
)

// touches are what an update does, by priority.
type touches []touch

func (t *touches) add(priority uint32, what touch) {
	for int(priority) >= len(*t) {
		*t = append(*t, untouched)
	}
	(*t)[priority] = max((*t)[priority], what)
}

// hosts notes that hosts have come or gone.
func (t *touches) hosts(list []*Host) {
	for _, h := range list {
		t.add(h.Attributes().Priority, moved)
	}
}

// attributes notes that those of a host have changed. A host of another locality is
// another host to Envoy.
func (t *touches) attributes(before, now *Attributes) {
	what := altered
	if before.Priority != now.Priority || before.Locality != now.Locality {
		what = moved
	}
	t.add(before.Priority, what)
	t.add(now.Priority, what)
}

// alterAll notes a change that concerns the first n priorities.
func (t *touches) alterAll(n int) {
	for p := range n {
		t.add(uint32(p), altered) //nolint:gosec // priorities are at most 128
	}
}

// any reports whether something was touched.
func (t touches) any() bool {
	return slices.ContainsFunc(t, func(x touch) bool { return x != untouched })
}

// moved is in how many priorities hosts have come or gone.
func (t touches) moved() (n uint64) {
	for _, what := range t {
		if what == moved {
			n++
		}
	}
	return n
}

// recent is when a priority was last updated, and what it waits for.
type recent struct {
	last time.Time
	wait *wait // nil while nothing waits
}

// wait ends with the merge window.
type wait struct{ timer *time.Timer }

// latest are the priorities as they are known, which may not be in force yet.
func (c *Cluster) latest() []Priority {
	if p := c.waiting.Load(); p != nil {
		return *p
	}
	return c.Hosts().Priorities
}

// put makes priorities what is known. What was touched comes in force now or at the
// end of the merge window. c.updateMu is held.
func (c *Cluster) put(priorities []Priority, ch *change) {
	if ch.batch && (c.batches == nil || !c.batches()) {
		c.putBatch(priorities, ch)
		return
	}
	now := ch.extra
	for p, what := range ch.touches {
		if what != untouched && !c.mayWait(p, what) {
			now = true
		}
	}
	c.enforce(priorities, now)
}

// putBatch puts all that was touched in force. As in Envoy that is one update, and the
// windows of others are not its own. c.updateMu is held.
func (c *Cluster) putBatch(priorities []Priority, ch *change) {
	for p, what := range ch.touches {
		if what != untouched && p < len(c.recent) && c.recent[p].wait != nil {
			c.recent[p].cancel()
			c.count((*UpdateStats).cancelled)
		}
	}
	if c.isReady() && ch.touches.any() {
		c.count((*UpdateStats).updated)
	}
	c.enforce(priorities, true)
}

// mayWait decides whether what was touched of a priority is put in force at the end
// of the merge window: if it is the same hosts, and the last update was no longer ago
// than the window. c.updateMu is held.
func (c *Cluster) mayWait(priority int, what touch) bool {
	if c.ended || !c.isReady() {
		return false
	}
	if c.mergeWindow == 0 {
		c.count((*UpdateStats).updated)
		return false
	}
	for priority >= len(c.recent) {
		c.recent = append(c.recent, recent{})
	}
	r, now := &c.recent[priority], time.Now()
	late := now.Sub(r.last).Truncate(time.Millisecond) > c.mergeWindow
	if what == altered && !late {
		c.await(priority)
		return true
	}
	if what == altered {
		c.count((*UpdateStats).late)
	}
	if r.wait != nil {
		r.cancel()
		c.count((*UpdateStats).cancelled)
	}
	r.last = now
	c.count((*UpdateStats).updated)
	return false
}

// await has a priority put in force a window from now, unless that is due before.
func (c *Cluster) await(priority int) {
	r := &c.recent[priority]
	if r.wait != nil {
		return
	}
	w := &wait{}
	r.wait = w
	w.timer = time.AfterFunc(c.mergeWindow, func() { c.merge(priority, w) })
}

func (r *recent) cancel() {
	r.wait.timer.Stop()
	r.wait = nil
}

// merge puts a priority in force at the end of its window, unless w was cancelled when
// it was over already.
func (c *Cluster) merge(priority int, w *wait) {
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	if c.recent[priority].wait != w {
		return
	}
	c.recent[priority] = recent{last: time.Now()}
	c.count((*UpdateStats).merged)
	c.enforce(c.latest(), true)
}

// enforce keeps the priorities for those that wait; now puts the others in force.
// c.updateMu is held.
func (c *Cluster) enforce(priorities []Priority, now bool) {
	next := priorities
	waits := false
	for p := range min(len(c.recent), len(priorities)) {
		if c.recent[p].wait == nil {
			continue
		}
		if !waits {
			next, waits = slices.Clone(priorities), true
		}
		next[p] = Priority{}
		if in := c.Hosts().Priorities; p < len(in) {
			next[p] = in[p]
		}
	}
	if now {
		c.publish(next)
	}
	if waits {
		c.waiting.Store(&priorities)
	} else {
		c.waiting.Store(nil)
	}
}

func (s *UpdateStats) updated() stats.Counter   { return s.ClusterUpdated }
func (s *UpdateStats) merged() stats.Counter    { return s.UpdatedViaMerge }
func (s *UpdateStats) cancelled() stats.Counter { return s.MergeCancelled }
func (s *UpdateStats) late() stats.Counter      { return s.OutOfMergeWindow }

// count counts an update.
func (c *Cluster) count(which func(*UpdateStats) stats.Counter) {
	if c.updates != nil {
		c.sink.Add(which(c.updates), 1)
	}
}

// Halt gives up what waits for the end of a merge window: nothing of the cluster
// runs after that, and later changes come in force at once. Safe for concurrent use.
func (c *Cluster) Halt() {
	c.updateMu.Lock()
	defer c.updateMu.Unlock()
	c.ended = true
	for i := range c.recent {
		if c.recent[i].wait != nil {
			c.recent[i].cancel()
		}
	}
}
