package xdsserver

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// pollers are the clients that poll, as far as they are remembered. What a
// client is answered follows from its request alone, except that content it has
// rejected is not sent again (XR-09): that, status and statistics are what the
// memory is for.
type pollers struct {
	mu      sync.Mutex
	clients map[pollerKey]*poller
	changed chan struct{} // closed by the next batch; nil while nobody waits
	swept   time.Time
}

// pollerKey tells subscriptions apart. A node may have several of one type:
// Envoy polls for the endpoints of each cluster by itself.
type pollerKey struct {
	node, cluster, typeURL string
	names                  uint64
}

// A client is forgotten when it has not polled for three of its intervals, but
// not within the least and not beyond the most.
const (
	pollerIntervals = 3
	pollerLeast     = time.Minute
	pollerMost      = time.Hour
	pollersSweep    = 10 * time.Second
	maxPollers      = 16 << 10
)

// poller is one subscription of a client that polls. Its stream is no stream
// of a connection: it is what status and logs know of the client, and the
// protocol state after the last answer.
type poller struct {
	key    pollerKey
	method method
	stream *stream

	// Guarded by the mutex of the pollers.
	last     time.Time
	interval time.Duration

	// Guarded by the stream's wireMu.
	answered *snapshot.Snapshot // what version was computed from last
	version  string             // of the last answer
	nonce    string             // of the last answer within the protocol state; empty if that sent nothing
	settled  bool               // the client has accepted or rejected the last answer
	refused  string             // the version that the client has rejected last
	held     string             // the version that it kept then
	before   totals             // of protocol states before the present one
}

type totals struct{ responses, acks, nacks uint64 }

func newPollers() *pollers { return &pollers{clients: map[pollerKey]*poller{}} }

// find finds or makes the memory of a client that polls now.
func (p *pollers) find(s *Server, key pollerKey, m method) *poller {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(s, now)
	c := p.clients[key]
	if c == nil {
		p.makeRoom(s)
		c = s.newPoller(key, m, now)
		p.clients[key] = c
	}
	if !c.last.IsZero() {
		c.interval = max(now.Sub(c.last), s.cfg.restHold)
	}
	c.last = now
	return c
}

func (s *Server) newPoller(key pollerKey, m method, now time.Time) *poller {
	x := &stream{
		srv: s, method: m, variant: restVariant, only: m.only, connected: now, node: &xds.Node{ID: key.node, Cluster: key.cluster},
		wire: wire.NewStream(wire.Config{Only: m.only}), limiters: s.nodes.join(key.node),
		wireMu: &sync.Mutex{},
	}
	c := &poller{key: key, method: m, stream: x}
	x.poller = c
	x.log = s.log.With("node", key.node, "variant", variantWord(restVariant))
	s.counters.of(m.only, restVariant).subscriptions.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	x.id = s.lastID
	return c
}

// sweep forgets clients that have stayed away, now and then. The caller holds
// the mutex.
func (p *pollers) sweep(s *Server, now time.Time) {
	if now.Sub(p.swept) < pollersSweep {
		return
	}
	p.swept = now
	for _, c := range p.clients {
		if now.Sub(c.last) > min(max(pollerIntervals*c.interval, pollerLeast), pollerMost) {
			p.forget(s, c)
		}
	}
}

// makeRoom forgets the client that has been away for longest if there are too
// many. The caller holds the mutex.
func (p *pollers) makeRoom(s *Server) {
	if len(p.clients) < maxPollers {
		return
	}
	var oldest *poller
	for _, c := range p.clients {
		if oldest == nil || c.last.Before(oldest.last) {
			oldest = c
		}
	}
	p.forget(s, oldest)
}

func (p *pollers) forget(s *Server, c *poller) {
	delete(p.clients, c.key)
	s.nodes.leave(c.key.node)
	s.counters.of(c.method.only, restVariant).subscriptions.Add(-1)
}

// changes is closed by the next batch, or when the server begins to drain.
func (p *pollers) changes() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// wake lets the polls that are held look again.
func (p *pollers) wake(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	p.sweep(s, time.Now())
}

// streams lists the clients as status sees them, brought up to what they are to
// have now.
func (p *pollers) streams(s *Server) []*stream {
	p.mu.Lock()
	p.sweep(s, time.Now())
	list := make([]*stream, 0, len(p.clients))
	for _, c := range p.clients {
		list = append(list, c.stream)
	}
	p.mu.Unlock()
	for _, x := range list {
		x.poller.follow(s)
	}
	slices.SortFunc(list, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	return list
}

// follow notes what has changed since the last answer.
func (c *poller) follow(s *Server) {
	x := c.stream
	x.wireMu.Lock()
	node := x.node
	x.wireMu.Unlock()
	group, view := s.locate(node)
	if view == nil {
		return
	}
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	c.place(group)
	if x.wire.View() != view {
		x.wire.Rebase(view)
	}
}

// place notes the group, for status only. The caller holds wireMu.
func (c *poller) place(name string) {
	if g := c.stream.group; g == nil || g.name != name {
		c.stream.group = &group{name: name}
	}
}

// allow keeps to the limits on requests.
func (c *poller) allow() bool {
	for _, l := range c.stream.limiters {
		if !l.Allow() {
			return false
		}
	}
	return true
}

// take notes who polls and what that says of the last answer.
func (c *poller) take(r *request, node *xds.Node, peer string) {
	x := c.stream
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	x.node, x.peer = node, peer
	switch {
	case r.Error == nil:
		if r.Version != "" && r.Version == c.version {
			c.settle(r)
		}
	case c.rejected(r) == c.version:
		c.settle(r)
	default: // it may be about what it was given before this server was started
		c.refused, c.held = c.rejected(r), r.Version
	}
}

// rejected is the version that a request with an error is about: nonces are
// versions here, and optional (XR-05).
func (c *poller) rejected(r *request) string { return cmp.Or(r.Nonce, c.version) }

// settle takes the client's word on the last answer, once. The caller holds
// wireMu.
func (c *poller) settle(r *request) {
	if c.version == "" || c.settled && (r.Error == nil || c.refused == c.version) {
		return
	}
	c.settled, c.refused = true, ""
	x := c.stream
	n := x.srv.counters.of(c.method.only, restVariant)
	if r.Error != nil {
		c.refused, c.held = c.version, r.Version
	}
	var out wire.Outcome
	if c.nonce != "" {
		var err error
		answer := wire.Request{TypeURL: c.method.only, Nonce: c.nonce, Names: r.Names, Error: r.Error}
		if out, err = x.wire.Request(time.Now(), &answer); err != nil || out.Settled == nil {
			return // cannot be: the names are those of the first request
		}
	}
	if r.Error == nil {
		n.acks.Add(1)
		return
	}
	n.nacks.Add(1)
	out.Settled = &wire.Sent{Nonce: c.version, Version: c.version} // as the client knows it
	x.logNack(r, &out)
}

// answer is what the client is to be given of a snapshot; nil if it has that, or
// has rejected it (XR-03, XR-09).
func (c *poller) answer(r *request, node *xds.Node, group string, view *snapshot.Snapshot) (*pollAnswer, error) {
	x := c.stream
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	c.place(group)
	// Whom nothing is denied gets the same as others who have its names.
	if view == c.answered && c.upToDate(r, c.version) && x.srv.cfg.deny == nil {
		return nil, nil
	}
	a, err := x.srv.evaluate(c.method, node, view, r)
	if err != nil {
		return nil, err
	}
	c.answered = view
	if c.upToDate(r, a.version) {
		if a.version != c.version {
			c.adopt(a)
			c.settle(r)
		}
		return nil, nil
	}
	c.adopt(a)
	return a, nil
}

func (c *poller) upToDate(r *request, version string) bool {
	switch {
	case version == "":
		return false
	case r.Version == version:
		return true
	case r.Error != nil:
		return c.rejected(r) == version
	}
	return c.refused == version && r.Version != "" && r.Version == c.held
}

// adopt makes an answer the last one. The caller holds wireMu.
func (c *poller) adopt(a *pollAnswer) {
	x := c.stream
	for _, st := range x.wire.Status() {
		c.before.responses += st.Responses
		c.before.acks += st.Acks
		c.before.nacks += st.Nacks
	}
	x.wire, c.version, c.nonce, c.settled = a.wire, a.version, a.resp.Nonce, false
}

// typeStatus replaces what the protocol state cannot know. The caller holds
// wireMu.
func (c *poller) typeStatus(t *TypeStatus) {
	t.SentVersion = c.version
	if t.AckedVersion != "" {
		t.AckedVersion = c.version
	}
	t.Responses += c.before.responses
	t.Acks += c.before.acks
	t.Nacks += c.before.nacks
	if t.Nack != nil {
		t.Nack.Version, t.Nack.Nonce = c.refused, c.refused
	}
}

// hashNames tells lists of names apart, whatever their order.
func hashNames(names []string) uint64 {
	names = slices.Clone(names)
	slices.Sort(names)
	h := xxhash.New()
	for _, n := range names {
		_, _ = h.WriteString(n)
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
