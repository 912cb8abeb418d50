package xdsserver

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// group is the clients that share one snapshot, and who among them wants what.
//
// Its mutex makes two steps atomic: publishing a snapshot while noting the
// changes for the streams that want them, and a stream's change of interest
// while it takes what was noted and the present snapshot. It is never held
// over a send.
type group struct {
	name   string
	pinned bool // a batch is about to change it; guarded by the server's mutex

	mu    sync.Mutex
	view  *snapshot.Snapshot // nil until loaded
	seats seats
	index map[string]*typeIndex
	hosts *hostIndex // nil as long as nobody asks for virtual hosts
}

func newGroup(name string, view *snapshot.Snapshot) *group {
	return &group{name: name, view: view, index: map[string]*typeIndex{}}
}

// typeIndex says which streams want which resources of one type.
type typeIndex struct {
	wild  watchers
	names map[string]*watchers
	globs map[string]*globWatch
}

type globWatch struct {
	urn     xds.URN
	streams watchers
}

// pending is what was published for a stream and not yet taken by it. Guarded
// by the group's mutex.
type pending struct {
	reload bool
	shared [][]snapshot.Change
	own    []snapshot.Change
	count  int
	limit  int       // count at which to merge
	since  time.Time // when the oldest was published
}

const mergePendingAbove = 1024

func (p *pending) empty() bool { return !p.reload && p.count == 0 }

func (p *pending) lists() [][]snapshot.Change {
	if len(p.own) == 0 {
		return p.shared
	}
	return append(p.shared, p.own)
}

// merge keeps one change for each resource, so that a stream which does not
// read owes no more than there are resources.
func (p *pending) merge() {
	at := make(map[xds.Key]int, p.count)
	var merged []snapshot.Change
	for _, list := range p.lists() {
		for _, c := range list {
			if i, ok := at[c.Key]; ok {
				merged[i].New = c.New
				continue
			}
			at[c.Key] = len(merged)
			merged = append(merged, c)
		}
	}
	// What came and went meanwhile is owed to nobody.
	merged = slices.DeleteFunc(merged, func(c snapshot.Change) bool { return c.Old == nil && c.New == nil })
	p.shared, p.own, p.count = nil, merged, len(merged)
	p.limit = max(mergePendingAbove, 2*len(merged))
}

func (p *pending) added(n int, now time.Time) {
	if p.count == 0 {
		p.since = now
	}
	p.count += n
	if p.count > max(p.limit, mergePendingAbove) {
		p.merge()
	}
}

// join adds a stream with everything it wants and returns the present snapshot.
func (g *group) join(s *stream, interests func(func(typeURL, name string))) *snapshot.Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seats.take(s)
	interests(func(typeURL, name string) { g.add(s, typeURL, []string{name}) })
	return g.view
}

// leave forgets a stream; interests calls back with everything it wants.
func (g *group) leave(s *stream, interests func(func(typeURL, name string))) {
	g.mu.Lock()
	defer g.mu.Unlock()
	interests(func(typeURL, name string) { g.drop(s, typeURL, name) })
	g.seats.leave(s)
	s.pending = pending{}
}

// exchange changes a stream's interest in a type, and returns what was
// published for it with the snapshot that this leads to.
func (g *group) exchange(s *stream, typeURL string, added, removed []string) (*snapshot.Snapshot, pending) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(added) > 0 {
		g.add(s, typeURL, added)
	}
	for _, n := range removed { // a name may be in both (XS-49)
		g.drop(s, typeURL, n)
	}
	p := s.pending
	s.pending = pending{}
	return g.view, p
}

func (g *group) add(s *stream, typeURL string, names []string) {
	ti := g.index[typeURL]
	if ti == nil {
		ti = &typeIndex{names: map[string]*watchers{}, globs: map[string]*globWatch{}}
		g.index[typeURL] = ti
	}
	for _, n := range names {
		if n == "*" && s.wildcardType(typeURL) {
			ti.wild.add(s, &g.seats)
			continue
		}
		w := ti.names[n]
		if w == nil {
			w = &watchers{}
			ti.names[n] = w
		}
		w.add(s, &g.seats)
		if typeURL == xds.VirtualHostType {
			if g.hosts == nil {
				g.hosts = newHostIndex()
			}
			g.hosts.add(s, n)
		}
		if u, ok := globURN(n); ok {
			gw := ti.globs[n]
			if gw == nil {
				gw = &globWatch{urn: u}
				ti.globs[n] = gw
			}
			gw.streams.add(s, &g.seats)
		}
	}
}

func globURN(name string) (xds.URN, bool) {
	if !xds.IsURN(name) {
		return xds.URN{}, false
	}
	u, err := xds.ParseURN(name)
	return u, err == nil && u.IsGlob()
}

func (g *group) drop(s *stream, typeURL, name string) {
	ti := g.index[typeURL]
	if ti == nil {
		return
	}
	if name == "*" && s.wildcardType(typeURL) {
		ti.wild.remove(s)
	} else {
		if w := ti.names[name]; w != nil {
			if w.remove(s); w.empty() {
				delete(ti.names, name)
			}
		}
		if typeURL == xds.VirtualHostType {
			g.hosts.drop(s, name)
		}
		if gw := ti.globs[name]; gw != nil {
			if gw.streams.remove(s); gw.streams.empty() {
				delete(ti.globs, name)
			}
		}
	}
	if ti.wild.empty() && len(ti.names) == 0 {
		delete(g.index, typeURL)
	}
}

// publish makes a snapshot the present one and returns the streams to wake.
// The cost is that of the changes and of the streams that want them.
func (g *group) publish(view *snapshot.Snapshot, changes []snapshot.Change, now time.Time) []*stream {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.view == nil
	g.view = view
	if first {
		return g.reload()
	}
	w := &woken{now: now}
	for list := range chunkByType(changes) {
		ti := g.index[list[0].Type]
		if ti == nil && (g.hosts == nil || list[0].Type != xds.RouteType) {
			continue
		}
		if ti == nil {
			ti = &typeIndex{}
		}
		ti.wild.each(&g.seats, func(s *stream) {
			w.wake(s)
			s.pending.shared = append(s.pending.shared, list)
			s.pending.added(len(list), now)
		})
		g.notify(ti, list, w)
	}
	return w.streams
}

// reload wakes everybody because the group has its first snapshot.
func (g *group) reload() []*stream {
	all := make([]*stream, 0, g.seats.taken())
	for s := range g.seats.each {
		s.pending.reload = true
		all = append(all, s)
	}
	return all
}

// woken collects the streams that a publication concerns, each once.
type woken struct {
	now     time.Time
	streams []*stream
}

func (w *woken) wake(s *stream) {
	if s.pending.empty() || s.wokenAt != w.now {
		s.wokenAt = w.now
		w.streams = append(w.streams, s)
	}
}

// notify notes the changes for the streams that name their resources.
func (g *group) notify(ti *typeIndex, list []snapshot.Change, w *woken) {
	hosts := g.hosts
	ofHosts := list[0].Type == xds.VirtualHostType || list[0].Type == xds.RouteType
	if !ofHosts {
		hosts = nil
	}
	if len(ti.names) == 0 && hosts == nil {
		return
	}
	for i := range list {
		c := &list[i]
		note := func(s *stream) {
			if ti.wild.has(s) {
				return
			}
			if own := s.pending.own; hosts != nil && len(own) > 0 && own[len(own)-1] == *c {
				return // by another of its names
			}
			w.wake(s)
			s.pending.own = append(s.pending.own, *c)
			s.pending.added(1, w.now)
		}
		ti.names[c.Name].each(&g.seats, note)
		for _, a := range aliasesOf(c) {
			ti.names[a].each(&g.seats, note)
		}
		hosts.notify(c, note)
		for _, gw := range ti.globs {
			if gw.urn.Covers(c.Name) {
				gw.streams.each(&g.seats, note)
			}
		}
	}
}

func aliasesOf(c *snapshot.Change) []string {
	var list []string
	if c.Old != nil {
		list = c.Old.Aliases()
	}
	if c.New != nil && len(c.New.Aliases()) > 0 {
		list = slices.Concat(list, c.New.Aliases())
	}
	return list
}

// chunkByType cuts changes into runs of one type.
func chunkByType(changes []snapshot.Change) func(yield func([]snapshot.Change) bool) {
	slices.SortStableFunc(changes, func(a, b snapshot.Change) int { return strings.Compare(a.Type, b.Type) })
	return func(yield func([]snapshot.Change) bool) {
		for len(changes) > 0 {
			n := 1
			for n < len(changes) && changes[n].Type == changes[0].Type {
				n++
			}
			if !yield(changes[:n:n]) {
				return
			}
			changes = changes[n:]
		}
	}
}
