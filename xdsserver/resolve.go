package xdsserver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// Wanted is a resource that a client has asked for by name and that its group
// does not have.
type Wanted struct {
	Group string
	// Node is that of the client that asked first. Read-only.
	Node *xds.Node
	// TypeURL and Name are what the request says. The name of a virtual host can
	// be "<route configuration>/<host>", with a host that clients have seen.
	TypeURL, Name string
}

// ResolveFunc looks for a resource when it is first asked for (XN-28). To bring
// it into being it changes what the server holds, by Server.Apply or through the
// source that feeds it, and then returns; it may as well do nothing. Until it
// returns, or ctx is done, the name is neither found nor missing for the clients
// that ask; then they get the resource, or are told that there is none. An error
// is logged and means the same as doing nothing.
//
// It is called on a goroutine of its own, concurrently, once for all clients of
// a group that ask for one name meanwhile, and again for a later request. ctx
// ends after the time given to WithResolver, or when the last of these clients
// has gone; it has the values of the first one's stream.
type ResolveFunc func(ctx context.Context, w Wanted) error

// DefaultResolveTimeout is how long a ResolveFunc may take if nothing else is
// said; less than the 15 s after which clients give up by themselves.
const DefaultResolveTimeout = 5 * time.Second

// maxResolving is how many calls of a ResolveFunc run at once; more wait, and
// that counts against their time.
const maxResolving = 64

// WithResolver sets what is asked for resources that do not exist, on streams
// (polls and unary requests are answered from what is there). A call may take
// timeout; 0 means DefaultResolveTimeout.
func WithResolver(f ResolveFunc, timeout time.Duration) Option {
	return func(c *config) error {
		if f == nil || timeout < 0 {
			return errors.New("xdsserver: a resolver needs a function and a timeout that is not negative")
		}
		c.resolve, c.resolveTimeout = f, orDefault(timeout, DefaultResolveTimeout)
		return nil
	}
}

// resolver runs the searches for what does not exist.
type resolver struct {
	call    ResolveFunc
	timeout time.Duration
	log     *slog.Logger
	slots   chan struct{}

	mu   sync.Mutex
	open map[wantedKey]*search
}

type wantedKey struct {
	group string
	xds.Key
}

// search is one call, for all streams that wait for it.
type search struct {
	done    atomic.Bool
	cancel  context.CancelFunc
	streams map[*stream]struct{} // guarded by the resolver's mutex
}

func newResolver(c *config, log *slog.Logger) *resolver {
	if c.resolve == nil {
		return nil
	}
	return &resolver{
		call: c.resolve, timeout: c.resolveTimeout, log: log,
		slots: make(chan struct{}, maxResolving), open: map[wantedKey]*search{},
	}
}

// find joins a stream to the search for a name, or begins one.
//
//nolint:contextcheck,nolintlint // a search belongs to all the streams that wait for it
func (r *resolver) find(x *stream, w Wanted) *search {
	k := wantedKey{w.Group, xds.Key{Type: w.TypeURL, Name: w.Name}}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.open[k]; s != nil {
		s.streams[x] = struct{}{}
		return s
	}
	ctx, cancel := x.begin(r.timeout)
	s := &search{cancel: cancel, streams: map[*stream]struct{}{x: {}}}
	r.open[k] = s
	context.AfterFunc(ctx, func() { r.finish(k, s) })
	go r.run(ctx, s, w)
	return s
}

func (r *resolver) run(ctx context.Context, s *search, w Wanted) {
	defer s.cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return
	}
	if err := r.call(ctx, w); err != nil {
		r.log.Warn("the resolver of resources on demand failed", "group", w.Group, "node", w.Node.ID, "type", w.TypeURL, "resource", w.Name, "error", err)
	}
}

// finish decides a name: whoever waits looks at what there is now.
func (r *resolver) finish(k wantedKey, s *search) {
	s.done.Store(true)
	r.mu.Lock()
	if r.open[k] == s {
		delete(r.open, k)
	}
	streams := s.streams
	s.streams = nil
	r.mu.Unlock()
	for x := range streams {
		x.wake()
	}
}

// leave takes a stream out of a search, which ends with the last of them.
func (r *resolver) leave(x *stream, s *search) {
	r.mu.Lock()
	delete(s.streams, x)
	last := len(s.streams) == 0
	r.mu.Unlock()
	if last {
		s.cancel()
	}
}

// seek begins to look for the names of a request that do not exist. The caller
// holds wireMu.
func (x *stream) seek(r *request, out *wire.Outcome) {
	if x.srv.resolver == nil || x.poller != nil {
		return
	}
	names := r.Subscribe
	if x.variant == wire.Sotw {
		names = out.Added
	}
	for _, n := range names {
		if n == "*" && x.wildcardType(out.Type) {
			continue
		}
		if _, glob := globURN(n); !glob {
			x.find(xds.Key{Type: out.Type, Name: strings.Clone(n)})
		}
	}
}

// find begins to look for a resource if it does not exist.
func (x *stream) find(k xds.Key) {
	if view := x.wire.View(); view != nil && view.Resolve(k.Type, k.Name) != nil {
		return
	}
	if x.searches == nil {
		x.searches = map[xds.Key]*search{}
	}
	x.searches[k] = x.srv.resolver.find(x, Wanted{Group: x.group.name, Node: x.node, TypeURL: k.Type, Name: k.Name})
}

// sought forgets the searches that are over. It comes before the stream takes
// what was published, so that what they have brought is there.
func (x *stream) sought() {
	for k, s := range x.searches {
		if s.done.Load() {
			delete(x.searches, k)
		}
	}
}

// stopSeeking takes the stream out of all searches, and returns what they were
// for.
func (x *stream) stopSeeking() []xds.Key {
	var keys []xds.Key
	for k, s := range x.searches {
		keys = append(keys, k)
		x.srv.resolver.leave(x, s)
	}
	x.searches = nil
	return keys
}

// pending is what the protocol asks whether a name is being looked for; nil
// without a resolver.
func (s *Server) pending(seeking func(typeURL, name string) bool) func(typeURL, name string) bool {
	if s.resolver == nil {
		return nil
	}
	return seeking
}

// seeking reports whether one of the streams looks for a name.
func (b *bundle) seeking(typeURL, name string) bool {
	for _, x := range b.members {
		if canonical(x.only) == typeURL {
			return x.seeking(typeURL, name)
		}
	}
	return false
}

// seeking reports whether a name is being looked for.
func (x *stream) seeking(typeURL, name string) bool {
	_, ok := x.searches[xds.Key{Type: typeURL, Name: name}]
	return ok
}
