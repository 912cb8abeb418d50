package xdsserver

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// DefaultGroup is the group of every node while no group function is set.
const DefaultGroup = "default"

// Server holds the groups' snapshots and serves them. All methods are safe for
// concurrent use.
type Server struct {
	cfg       config
	log       *slog.Logger
	types     map[string]xds.Type
	encoder   *encoder
	room      room
	counters  *counters
	admission *rate.Limiter // nil: everybody
	nodes     *nodeLimits
	bundles   bundles
	structs   *forms // nil without a converter
	v2        *forms
	toV2      func(*anypb.Any) (*anypb.Any, error)
	// inexpressible says why v2 cannot have a resource.
	inexpressible func(*xds.Resource) *wire.Status
	resolver      *resolver // nil without one
	// Clients that poll, and how they are answered.
	pollers     *pollers
	restEncoder *restEncoder

	calls   atomic.Int64 // discovery streams, with those that have sent nothing yet, and polls
	applyMu sync.Mutex   // one batch at a time
	// entryMu is held, shared, while a node is matched to a group, so that a
	// batch can change the groups and the function to them in one step. It is
	// taken before every other lock of the serving side.
	entryMu sync.RWMutex
	loaded  atomic.Bool
	groupOf atomic.Pointer[xds.GroupFunc]

	mu      sync.Mutex // guards what follows; never held over a call to a group's streams
	groups  map[string]*group
	streams map[uint64]*stream
	lastID  uint64
	closing bool
}

// New makes a server that holds nothing. It starts no goroutine.
func New(opts ...Option) (*Server, error) {
	cfg := config{identifier: "xebec", envoyQuirks: true}
	for _, o := range opts {
		if err := o(&cfg); err != nil {
			return nil, err
		}
	}
	s := &Server{
		cfg: cfg, log: cfg.log, types: map[string]xds.Type{}, groups: map[string]*group{}, streams: map[uint64]*stream{},
		bundles: bundles{all: map[bundleKey]*bundle{}},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for _, t := range append(xds.Types(), cfg.types...) {
		s.types[t.URL] = t
		if v2 := xds.V2Type(t.URL); v2 != "" {
			s.types[v2] = t // in its other form
		}
	}
	s.counters = newCounters(maps.Keys(s.types))
	var err error
	if s.encoder, err = newEncoder(cfg.identifier, cfg.canary, s.counters); err != nil {
		return nil, fmt.Errorf("xdsserver: identifier: %w", err)
	}
	if cfg.limits.StreamsPerSecond > 0 {
		s.admission = rate.NewLimiter(rate.Limit(cfg.limits.StreamsPerSecond), max(1, cfg.limits.StreamBurst))
	}
	s.nodes = newNodeLimits(cfg.limits)
	s.structs, s.toV2 = typedStructs(cfg.convert), newToV2()
	s.v2 = v2Forms(s.toV2, s.leftOut)
	s.inexpressible = func(r *xds.Resource) *wire.Status { return s.v2.refusal(r, "the client asks for v2 of the API") }
	s.resolver = newResolver(&cfg, s.log)
	s.pollers, s.restEncoder = newPollers(), &restEncoder{identifier: cfg.identifier, canary: cfg.canary}
	groupOf := cfg.groupOf
	if groupOf == nil {
		groupOf = func(*xds.Node) string { return DefaultGroup }
	}
	s.groupOf.Store(&groupOf)
	return s, nil
}

// Loaded reports whether a full batch has been applied: from then on groups
// that no batch named are known to be empty (XS-12).
func (s *Server) Loaded() bool { return s.loaded.Load() }

// Apply makes a batch visible to all clients at once, or changes nothing and
// returns an error. It does not wait for clients. Resources of v2 of the API are
// refused: sources read them as those of v3 that followed them (XV-05).
func (s *Server) Apply(b snapshot.Batch) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	steps, err := s.plan(b)
	defer s.unpin(steps)
	if err != nil {
		return err
	}
	s.encoder.shared.age()
	for _, x := range s.carryOut(b, steps) {
		x.wake()
	}
	s.pollers.wake(s)
	return nil
}

// carryOut publishes what was planned and returns the streams to wake.
func (s *Server) carryOut(b snapshot.Batch, steps []step) []*stream {
	if b.GroupOf == nil {
		return s.publish(b.Full, steps)
	}
	s.entryMu.Lock()
	defer s.entryMu.Unlock()
	all := s.openStreams()
	// No stream may see its group's new content before it is in its new group,
	// or a group's other name would look like a removal of everything.
	for _, mu := range locksOf(all) {
		mu.Lock()
		defer mu.Unlock()
	}
	wake := s.publish(b.Full, steps)
	s.groupOf.Store(&b.GroupOf)
	for _, x := range all {
		if !x.left && x.moveTo(b.GroupOf(x.node)) {
			wake = append(wake, x)
		}
	}
	return wake
}

// locksOf are the locks of streams, each once.
func locksOf(all []*stream) []*sync.Mutex {
	list := make([]*sync.Mutex, 0, len(all))
	seen := map[*sync.Mutex]struct{}{}
	for _, x := range all {
		if _, dup := seen[x.wireMu]; !dup {
			seen[x.wireMu] = struct{}{}
			list = append(list, x.wireMu)
		}
	}
	return list
}

func (s *Server) publish(full bool, steps []step) []*stream {
	if full {
		s.loaded.Store(true)
	}
	now := time.Now()
	var wake []*stream
	for _, st := range steps {
		wake = append(wake, st.group.publish(st.view, st.changes, now)...)
	}
	if !full {
		return wake
	}
	// Groups that clients brought up after the plan was made are empty.
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		if g.snapshot() == nil {
			wake = append(wake, g.publish(snapshot.New(), nil, now)...)
		}
	}
	return wake
}

// step is what a batch does to one group.
type step struct {
	group   *group
	view    *snapshot.Snapshot
	changes []snapshot.Change
}

// plan computes every group's next snapshot without changing anything. The
// groups it returns are pinned, with an error too.
func (s *Server) plan(b snapshot.Batch) ([]step, error) {
	names := slices.Collect(maps.Keys(b.Groups))
	if b.Full {
		for _, g := range s.Groups() {
			if _, named := b.Groups[g]; !named {
				names = append(names, g)
			}
		}
	}
	slices.Sort(names)
	var steps []step
	for _, name := range names {
		c := b.Groups[name]
		c.Replace = c.Replace || b.Full
		st := step{group: s.pin(name)}
		base := st.group.snapshot()
		if base == nil {
			base = snapshot.New()
		}
		err := onlyV3(c)
		if err == nil {
			st.view, st.changes, err = base.With(c)
		}
		steps = append(steps, st)
		if err != nil {
			return steps, fmt.Errorf("group %q: %w", name, err)
		}
	}
	return steps, nil
}

// pin finds or makes a group that is not forgotten until unpin.
func (s *Server) pin(name string) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groupLocked(name)
	g.pinned = true
	return g
}

func (s *Server) unpin(steps []step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range steps {
		st.group.pinned = false
		s.forgetEmpty(st.group)
	}
}

// transfer counts a stream that has left a group to another one.
func (s *Server) transfer(x *stream, from *group, to string) *group {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetEmpty(from)
	g := s.groupLocked(to)
	g.join(x, func(func(string, string)) {})
	return g
}

// groupLocked finds or makes a group. The caller holds s.mu.
func (s *Server) groupLocked(name string) *group {
	g, ok := s.groups[name]
	if !ok {
		var view *snapshot.Snapshot
		if s.Loaded() {
			view = snapshot.New()
		}
		g = newGroup(name, view)
		s.groups[name] = g
	}
	return g
}

func (g *group) snapshot() *snapshot.Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.view
}

// Groups lists the groups that have resources or clients, sorted.
func (s *Server) Groups() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.groups))
}

// Snapshot is what a group's clients are to receive now; nil if the group is
// not known or not loaded.
func (s *Server) Snapshot(groupName string) *snapshot.Snapshot {
	s.mu.Lock()
	g := s.groups[groupName]
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.snapshot()
}

// enter adds a stream, unless the server is closing.
func (s *Server) enter(x *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return errDraining
	}
	s.lastID++
	x.id = s.lastID
	s.streams[x.id] = x
	return nil
}

func (s *Server) leave(x *stream) {
	g := x.groupNow() // before s.mu: a stream's lock is never taken inside it
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, x.id)
	s.forgetEmpty(g)
}

// forgetEmpty drops a group that holds neither resources nor streams, so that
// node names cannot grow the server. The caller holds s.mu.
func (s *Server) forgetEmpty(g *group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pinned || g.seats.taken() > 0 || !bare(g.view) || s.groups[g.name] != g {
		return
	}
	delete(s.groups, g.name)
}

// bare reports whether a snapshot holds nothing, not even a version label.
func bare(view *snapshot.Snapshot) bool {
	if view == nil {
		return true
	}
	none := view.Set("").Version()
	for _, t := range view.TypeURLs() {
		if set := view.Set(t); set.Len() > 0 || set.Version() != none {
			return false
		}
	}
	return true
}

// Shutdown turns new streams away and ends the open ones with UNAVAILABLE,
// spread evenly until the context's deadline, or at once if it has none. It
// returns when all have ended or the context has.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	all := slices.SortedFunc(maps.Values(s.streams), func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	s.mu.Unlock()
	s.pollers.wake(s)
	var pause time.Duration
	if end, ok := ctx.Deadline(); ok && len(all) > 0 {
		pause = time.Until(end) / 2 / time.Duration(len(all))
	}
	for i, x := range all {
		select {
		case <-x.gone:
			continue
		default:
		}
		x.end(errDraining)
		if i < len(all)-1 && !sleep(ctx, pause) {
			break
		}
	}
	for _, x := range all {
		select {
		case <-x.gone:
		case <-ctx.Done():
			return fmt.Errorf("draining streams: %w", ctx.Err())
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
