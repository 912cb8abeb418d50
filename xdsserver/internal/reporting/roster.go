package reporting

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
)

// Key identifies a node.
type Key struct{ ID, Cluster string }

// KeyOf is a node's key.
func KeyOf(n *xds.Node) Key { return Key{n.ID, n.Cluster} }

// Capacity bounds a Roster.
type Capacity struct {
	// Streams is how many streams may be open, Nodes how many nodes are
	// remembered, connected or not.
	Streams, Nodes int
	// Retention is how long a node is remembered after its last stream ended.
	Retention time.Duration
}

// Roster is the nodes that report, with a state S for each, and those that did
// lately. It is safe for concurrent use; the states have locks of their own.
type Roster[S any] struct {
	terms    Terms
	capacity Capacity
	fresh    func() *S

	mu        sync.Mutex // guards what follows; held for memory work only
	members   map[Key]*Member[S]
	streams   int
	nextSweep time.Time
}

// NewRoster builds a roster without nodes. It calls fresh for the state of
// each node that it did not know.
func NewRoster[S any](terms Terms, c Capacity, fresh func() *S) *Roster[S] {
	return &Roster[S]{terms: terms, capacity: c, fresh: fresh, members: map[Key]*Member[S]{}}
}

// Member is a node that has joined.
type Member[S any] struct {
	Key   Key
	State *S

	streams   int // these belong to the roster's mutex
	idleSince time.Time
}

// Found is a node as of one moment.
type Found[S any] struct {
	Key   Key
	State *S
	// Streams is how many streams the node has open.
	Streams int
}

// Join counts a stream of a node, or refuses it with RESOURCE_EXHAUSTED if the
// roster is full. It calls enter with the node's state before anyone else can
// find it. Each Join that succeeds needs a [Roster.Leave].
func (r *Roster[S]) Join(k Key, enter func(*S)) (*Member[S], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep()
	if r.streams >= r.capacity.Streams {
		return nil, status.Errorf(codes.ResourceExhausted, "%d %s streams are open, which is the limit", r.streams, r.terms.Stream)
	}
	m := r.members[k]
	if m == nil {
		if len(r.members) >= r.capacity.Nodes {
			return nil, status.Errorf(codes.ResourceExhausted,
				"the %s of %d nodes are remembered, which is the limit", r.terms.Kept, len(r.members))
		}
		m = &Member[S]{Key: k, State: r.fresh()}
		r.members[k] = m
	}
	m.streams++
	r.streams++
	enter(m.State)
	return m, nil
}

// Leave counts a stream as ended.
func (r *Roster[S]) Leave(m *Member[S]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams--
	m.streams--
	m.idleSince = time.Now()
	r.sweep()
}

// All returns the remembered nodes, sorted by ID and cluster.
func (r *Roster[S]) All() []Found[S] {
	return r.find(func(Key) bool { return true })
}

// ByID is [Roster.All] for the nodes with that ID.
func (r *Roster[S]) ByID(id string) []Found[S] {
	return r.find(func(k Key) bool { return k.ID == id })
}

func (r *Roster[S]) find(want func(Key) bool) []Found[S] {
	out := r.collect(want)
	slices.SortFunc(out, func(a, b Found[S]) int {
		return cmp.Or(cmp.Compare(a.Key.ID, b.Key.ID), cmp.Compare(a.Key.Cluster, b.Key.Cluster))
	})
	return out
}

func (r *Roster[S]) collect(want func(Key) bool) []Found[S] {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweep()
	now := time.Now()
	var out []Found[S]
	for k, m := range r.members {
		if want(k) && !r.gone(m, now) {
			out = append(out, Found[S]{k, m.State, m.streams})
		}
	}
	return out
}

// sweep forgets the nodes that have been gone for the retention time. The
// caller holds mu. It looks at most ten times per retention time, so that it
// costs little however often it is called.
func (r *Roster[S]) sweep() {
	now := time.Now()
	if now.Before(r.nextSweep) {
		return
	}
	r.nextSweep = now.Add(r.capacity.Retention / 10)
	for k, m := range r.members {
		if r.gone(m, now) {
			delete(r.members, k)
		}
	}
}

// gone reports whether a node is to be forgotten. The caller holds mu.
func (r *Roster[S]) gone(m *Member[S], now time.Time) bool {
	return m.streams == 0 && now.Sub(m.idleSince) >= r.capacity.Retention
}
