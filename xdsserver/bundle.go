package xdsserver

import (
	"sync"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
)

// bundle is the streams of one node that carry one type each and are kept in one
// order (XS-75). To the protocol they are one aggregated stream, whose parts are
// carried by themselves. So they have one lock, and what was published is taken
// for all of them at once.
type bundle struct {
	key     bundleKey
	streams int // that have joined and not left, guarded by bundles

	mu      sync.Mutex // the streams' wireMu
	wire    *wire.Stream
	members map[string]*stream // by type URL
}

// bundleKey is what streams have in common.
type bundleKey struct {
	node, cluster, group string
	variant              wire.Variant
	v2                   bool // of the resources
}

// bundles are those that have streams. Its lock is taken before a stream's.
type bundles struct {
	mu  sync.Mutex
	all map[bundleKey]*bundle
}

// join makes a new stream part of its node's bundle and brings both up to what is
// published. The newest stream of a type counts; the one before goes on by
// itself (XS-08).
func (bs *bundles) join(x *stream, groupName string) {
	s := x.srv
	bs.mu.Lock()
	defer bs.mu.Unlock()
	key := bundleKey{x.node.ID, x.node.Cluster, groupName, x.variant, canonical(x.only) != x.only}
	b := bs.all[key]
	if b == nil {
		b = &bundle{key: key, members: map[string]*stream{}}
		cfg := s.wireConfig(method{variant: x.variant}, x.node, func() *snapshot.Snapshot { return b.wire.View() })
		cfg.Pending = s.pending(b.seeking)
		b.wire = wire.NewStream(cfg)
		bs.all[key] = b
	}
	b.streams++
	b.mu.Lock()
	defer b.mu.Unlock()
	if older := b.members[x.only]; older != nil {
		older.part()
	}
	x.joined, x.bundle, x.wireMu, x.wire = b, b, &b.mu, b.wire
	b.members[x.only] = x
	s.mu.Lock()
	x.group = s.groupLocked(groupName)
	x.group.join(x, x.interests)
	s.mu.Unlock()
	b.catchUp(x, "", nil, nil)
}

// leave counts a stream that has ended.
func (bs *bundles) leave(b *bundle) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b.streams--; b.streams == 0 {
		delete(bs.all, b.key)
	}
}

// part takes a stream out of its bundle: it goes on by itself. The caller holds
// wireMu.
func (x *stream) part() {
	b := x.bundle
	if b == nil {
		return
	}
	delete(b.members, x.only)
	cfg := x.srv.wireConfig(method{variant: x.variant, only: x.only}, x.node, func() *snapshot.Snapshot { return x.wire.View() })
	cfg.Pending = x.srv.pending(x.seeking)
	x.wire, x.bundle = b.wire.Split(x.only, cfg), nil
	b.wake(nil) // the others wait for it no longer
}

// catchUp takes what was published for all streams, and changes one's interest.
// They are in one group, so they all come to the same snapshot, if only that is
// not replaced meanwhile.
func (b *bundle) catchUp(x *stream, typeURL string, added, removed []string) {
	var lists [][]snapshot.Change
	reload := false
	take := func(m *stream, typeURL string, added, removed []string) *snapshot.Snapshot {
		view, p := m.group.exchange(m, typeURL, added, removed)
		if !p.since.IsZero() && m.since.IsZero() {
			m.since = p.since
		}
		lists = append(lists, p.lists()...)
		reload = reload || p.reload
		return view
	}
	view := take(x, typeURL, added, removed)
	for same := false; !same; {
		same = true
		for _, m := range b.members {
			if v := take(m, "", nil, nil); v != view {
				view, same = v, false
			}
		}
	}
	switch {
	case view == nil:
		return
	case reload:
		b.wire.Rebase(view)
	case view != b.wire.View() || len(lists) > 0:
		b.wire.Publish(view, lists...)
	default:
		return
	}
	b.wake(x) // what is published for one may release what waits in another
}

// wake wakes the streams of which something is due, but for one. The caller holds
// the lock.
func (b *bundle) wake(except *stream) {
	for typeURL, m := range b.members {
		if m != except && b.wire.Owes(typeURL) {
			m.wake()
		}
	}
}

// interests calls visit with every name that the stream subscribes to.
func (x *stream) interests(visit func(typeURL, name string)) {
	if x.bundle == nil {
		x.wire.Interests(visit)
		return
	}
	x.wire.InterestsOf(x.only, visit)
}
