package xdsserver

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// stream is one discovery stream.
//
// Events (requests, publications, the gate timer) are worked off by whichever
// goroutine brings the first of them; the others only leave theirs behind. So
// an idle stream costs no sender, and responses never overlap.
type stream struct {
	srv       *Server
	rpc       grpc.ServerStream
	log       *slog.Logger
	id        uint64
	peer      string
	method    method
	variant   wire.Variant
	only      string
	connected time.Time
	done      chan struct{} // closed by end
	gone      chan struct{} // closed when the handler returns
	limiters  []*rate.Limiter
	poller    *poller // nil for a stream
	joined    *bundle // nil for a stream that never was in one
	// needsStruct: the client wants TypedStruct in Any fields (XS-82).
	needsStruct, debug bool

	// Guarded by turnMu.
	turnMu  sync.Mutex
	space   *sync.Cond // the inbox has room, or the stream has ended
	inbox   []*request
	dirty   bool // something else than a request happened
	running bool
	endErr  error
	ended   bool

	// Guarded by wireMu, which is not held over sends.
	wireMu *sync.Mutex
	wire   *wire.Stream
	bundle *bundle // nil for a stream by itself
	node   *xds.Node
	group  *group
	left   bool
	timer  *time.Timer
	since  time.Time // publication of what is being sent
	opened []string  // types counted as subscriptions
	// searches are the names asked for that the resolver has not decided on.
	searches map[xds.Key]*search
	// begin makes the context of a search, which outlives the stream if others wait for it.
	begin func(time.Duration) (context.Context, context.CancelFunc)

	// Guarded by the group's mutex.
	pending pending
	wokenAt time.Time
	seat    uint32
}

const maxInbox = 64

// wake makes sure that what was published gets sent.
func (x *stream) wake() {
	x.turnMu.Lock()
	x.dirty = true
	start := !x.running && !x.ended
	x.running = x.running || start
	x.turnMu.Unlock()
	if start {
		go x.run()
	}
}

// deliver hands over a request and works it off if nobody else is at it. It
// waits while many requests are unread, so that the client is slowed down.
func (x *stream) deliver(r *request) {
	x.turnMu.Lock()
	for len(x.inbox) >= maxInbox && !x.ended {
		x.space.Wait()
	}
	x.inbox = append(x.inbox, r)
	start := !x.running && !x.ended
	x.running = x.running || start
	x.turnMu.Unlock()
	if start {
		x.run()
	}
}

// take fetches the events that wait; false if there are none, and with it the
// caller's turn ends.
func (x *stream) take() ([]*request, bool) {
	x.turnMu.Lock()
	defer x.turnMu.Unlock()
	if x.ended || len(x.inbox) == 0 && !x.dirty {
		x.running = false
		return nil, false
	}
	reqs := x.inbox
	x.inbox, x.dirty = nil, false
	x.space.Broadcast()
	return reqs, true
}

func (x *stream) waiting() bool {
	x.turnMu.Lock()
	defer x.turnMu.Unlock()
	return len(x.inbox) > 0 || x.dirty || x.ended
}

// run works off events until there are none.
func (x *stream) run() {
	for {
		reqs, ok := x.take()
		if !ok {
			return
		}
		if err := x.handle(reqs); err != nil {
			x.end(err)
			continue
		}
		x.flush()
	}
}

// handle feeds requests and publications to the protocol.
func (x *stream) handle(reqs []*request) error {
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	if x.left {
		return nil
	}
	x.sought()
	if len(reqs) == 0 {
		x.catchUp("", nil, nil)
	}
	for _, r := range reqs {
		if err := x.request(r); err != nil {
			return err
		}
	}
	if x.bundle != nil && len(reqs) > 0 {
		x.bundle.wake(x)
	}
	return nil
}

// catchUp takes what was published and changes the interest in a type. The
// caller holds wireMu.
func (x *stream) catchUp(typeURL string, added, removed []string) {
	if x.bundle != nil {
		x.bundle.catchUp(x, typeURL, added, removed)
		return
	}
	view, p := x.group.exchange(x, typeURL, added, removed)
	if !p.since.IsZero() && x.since.IsZero() {
		x.since = p.since
	}
	switch {
	case view == nil:
	case p.reload: // nothing was noted while the group had no snapshot
		x.wire.Rebase(view)
	case view != x.wire.View() || !p.empty():
		x.wire.Publish(view, p.lists()...)
	}
}

func (x *stream) request(r *request) error {
	if r.node != nil {
		x.checkNode(r)
	}
	if r.TypeURL == "" {
		r.TypeURL = x.only
	}
	if x.bundle != nil && r.TypeURL != x.only {
		return status.Errorf(codes.InvalidArgument, "type_url %q on a stream that carries only %s", r.TypeURL, x.only)
	}
	same := x.variant == wire.Sotw && x.wire.SameNames(r.TypeURL, r.Nonce, r.Digest)
	if x.variant == wire.Sotw && !same {
		if err := r.takeNames(); err != nil {
			return statusOf(err)
		}
	}
	now := time.Now()
	out, err := x.wire.Request(now, &r.Request)
	if err != nil {
		return statusOf(err)
	}
	x.catchUp(out.Type, out.Added, out.Removed)
	x.seek(r, &out)
	x.count(r, &out, now)
	if same { // and so nothing in it is news
		x.srv.room.put(r.data)
	}
	return nil
}

func (x *stream) count(r *request, out *wire.Outcome, now time.Time) {
	c := x.srv.counters.of(r.TypeURL, x.variant)
	c.requests.Add(1)
	switch out.Answer {
	case wire.Opened: // more than once if a client begins anew (XS-23)
		if !slices.Contains(x.opened, r.TypeURL) {
			x.opened = append(x.opened, r.TypeURL)
			c.subscriptions.Add(1)
		}
	case wire.Stale:
		c.stale.Add(1)
	case wire.Acked:
		c.acks.Add(1)
		if x.debug {
			x.log.Debug("accepted", "type", r.TypeURL, "version", out.Settled.Version, "nonce", out.Settled.Nonce)
		}
	case wire.Nacked:
		c.nacks.Add(1)
		x.logNack(r, out)
	case wire.Updated:
	}
	if out.Settled != nil {
		c.answer.observe(now.Sub(out.Settled.Time))
	}
}

// logNack says who rejected what, why, and where it came from.
func (x *stream) logNack(r *request, out *wire.Outcome) {
	const atMost = 10
	var names, origins []string
	for _, rej := range out.Rejected {
		if !rej.Blamed || len(names) == atMost {
			continue
		}
		names = append(names, rej.Name)
		if rej.Resource != nil && !rej.Resource.Origin().IsZero() {
			origins = append(origins, rej.Resource.Origin().String())
		}
	}
	x.log.Warn("a client rejected resources", "type", r.TypeURL, "resource", names, "origin", origins,
		"reason", r.Error.Message, "code", int32(r.Error.Code), "version", out.Settled.Version, "nonce", out.Settled.Nonce)
}

// flush sends what is due, and stops early when something newer has come.
func (x *stream) flush() {
	for {
		resp, since := x.next()
		if resp == nil {
			return
		}
		if err := x.send(resp); err != nil {
			x.end(err)
			return
		}
		if !since.IsZero() {
			x.srv.counters.of(resp.TypeURL, x.variant).push.observe(time.Since(since))
		}
		if x.waiting() {
			x.markDirty()
			return
		}
	}
}

// markDirty keeps the turn going although the flush was cut short.
func (x *stream) markDirty() {
	x.turnMu.Lock()
	x.dirty = true
	x.turnMu.Unlock()
}

func (x *stream) next() (*wire.Response, time.Time) {
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	if x.left {
		return nil, time.Time{}
	}
	now := time.Now()
	resp := x.due(now)
	since := x.since
	if resp == nil {
		if !x.schedule(now) {
			x.since = time.Time{}
		}
	}
	for _, typeURL := range x.wire.TakeGateTimeouts() {
		x.srv.counters.of(typeURL, x.variant).gateTimeouts.Add(1)
	}
	return resp, since
}

// due is the stream's next response, nil if nothing is due. The caller holds
// wireMu.
func (x *stream) due(now time.Time) *wire.Response {
	if x.bundle == nil {
		return x.wire.Next(now)
	}
	resp, news := x.wire.NextOf(now, x.only)
	if news {
		x.bundle.wake(x)
	}
	return resp
}

// schedule sets the timer for the protocol's next deadline, and reports whether
// there is one.
func (x *stream) schedule(now time.Time) bool {
	at := x.wire.DeadlineOf(x.only)
	if x.only == "" {
		at = x.wire.Deadline()
	}
	switch {
	case at.IsZero():
		if x.timer != nil {
			x.timer.Stop()
		}
	case x.timer == nil:
		x.timer = time.AfterFunc(at.Sub(now), x.wake)
	default:
		x.timer.Reset(at.Sub(now))
	}
	return !at.IsZero()
}

func (x *stream) send(r *wire.Response) error {
	r.Resources = x.srv.inForm(r.TypeURL, x.needsStruct, r.Resources)
	data := x.srv.encoder.encode(x.variant, x.method.v2, r)
	c := x.srv.counters.of(r.TypeURL, x.variant)
	c.responses.Add(1)
	c.resources.Add(uint64(len(r.Resources)))
	c.bytes.Add(uint64(data.Len()))
	if d := x.srv.cfg.limits.SendTimeout; d > 0 {
		t := time.AfterFunc(d, func() { x.end(errSendTimeout) })
		defer t.Stop()
	}
	return x.rpc.SendMsg(&outgoing{data}) //nolint:wrapcheck // a gRPC status
}

// end ends the stream with an error; the first one counts.
func (x *stream) end(err error) {
	x.turnMu.Lock()
	defer x.turnMu.Unlock()
	if x.ended {
		return
	}
	x.ended, x.endErr = true, err
	x.space.Broadcast()
	close(x.done)
}

// leave frees what the stream holds in the server.
func (x *stream) leave() {
	x.wireMu.Lock()
	x.left = true
	if x.timer != nil {
		x.timer.Stop()
	}
	for _, typeURL := range x.opened {
		x.srv.counters.of(typeURL, x.variant).subscriptions.Add(-1)
	}
	x.group.leave(x, x.interests)
	x.stopSeeking()
	x.part()
	x.wireMu.Unlock()
	if x.joined != nil {
		x.srv.bundles.leave(x.joined)
	}
	x.srv.nodes.leave(x.node.ID)
	x.srv.leave(x)
}

func (x *stream) groupNow() *group {
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	return x.group
}

// moveTo moves the stream to another group. The caller holds wireMu.
func (x *stream) moveTo(name string) bool {
	if name == x.group.name {
		return false
	}
	x.catchUp("", nil, nil)
	x.part()
	x.group.leave(x, x.wire.Interests)
	x.group = x.srv.transfer(x, x.group, name)
	if view := x.group.join(x, x.wire.Interests); view != nil {
		x.wire.Rebase(view)
	}
	for _, k := range x.stopSeeking() {
		x.find(k)
	}
	return true
}

// checkNode compares a later node with the stream's (XS-06).
func (x *stream) checkNode(r *request) {
	n := xds.NodeFromProto(r.node)
	if n.Empty() {
		return
	}
	if n.ID != x.node.ID || n.Cluster != x.node.Cluster {
		x.srv.counters.nodesIgnored.Add(1)
		x.log.Warn("a later request names another node; the first one counts", "other", n.ID)
		return
	}
	if len(n.DynamicParameters) > 0 {
		own := *x.node
		own.DynamicParameters = maps.Clone(own.DynamicParameters) // nodes are read-only
		if own.DynamicParameters == nil {
			own.DynamicParameters = n.DynamicParameters
		}
		maps.Copy(own.DynamicParameters, n.DynamicParameters)
		x.node = &own
		x.moveTo((*x.srv.groupOf.Load())(x.node))
	}
}

// wildcardType reports whether "*" is the wildcard for a type.
func (x *stream) wildcardType(typeURL string) bool { return x.srv.types[typeURL].Wildcard }

// wait slows down the reading to the limits.
func (x *stream) wait(ctx context.Context) error {
	for _, l := range x.limiters {
		if err := l.Wait(ctx); err != nil {
			return err //nolint:wrapcheck // the stream has ended
		}
	}
	return nil
}
