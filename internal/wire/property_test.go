package wire_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// play is one stream between the server's rules and a model client.
type play struct {
	t      *rapid.T
	cfg    wire.Config
	stream *wire.Stream
	client *client
	worlds [2]*world
	group  int
	now    time.Time
	bad    bool
	// patient says that no time passes: nothing may need the gate's timer.
	patient bool
	// former says that the client's clusters are from before a restart of which
	// SotW cannot tell what is gone.
	former bool
	// parts says that each type is carried by itself; queue are those to be asked.
	parts bool
	queue []string

	server map[string]*serverSide
	nonces map[string]bool
	// hasty are the resources that were sent at once because they were asked
	// for, while clusters were on their way (XS-71).
	hasty map[*xds.Resource]bool
}

// serverSide is what the test knows of one sub-stream from what was delivered.
type serverSide struct {
	wild, named bool
	names       map[string]bool
	outstanding []*wire.Response
	last        map[string]*xds.Resource // what was sent last; nil for a removal
	reason      map[string]bool          // names that may be sent though nothing changed
	anyReason   bool                     // the same for the whole response
}

func newPlay(t *rapid.T, cfg wire.Config) *play {
	p := &play{
		t: t, cfg: cfg, stream: wire.NewStream(cfg), client: newClient(cfg.Variant == wire.Delta),
		worlds: [2]*world{newWorld(), newWorld()}, now: time.Unix(1000, 0),
		server: map[string]*serverSide{}, nonces: map[string]bool{}, hasty: map[*xds.Resource]bool{},
	}
	return p
}

func (p *play) of(typeURL string) *serverSide {
	s := p.server[typeURL]
	if s == nil {
		s = &serverSide{names: map[string]bool{}, last: map[string]*xds.Resource{}, reason: map[string]bool{}}
		p.server[typeURL] = s
	}
	return s
}

func (s *serverSide) covers(r *xds.Resource) bool {
	return s.wild && !r.Indirect() || s.names[r.Name()] || slices.ContainsFunc(r.Aliases(), func(a string) bool { return s.names[a] })
}

// publish takes the changes of the present group to the stream.
func (p *play) publish(changes []snapshot.Change) {
	for _, c := range changes {
		if t, _ := xds.LookupType(c.Type); (c.New == nil || c.Old == nil) && p.cfg.Variant == wire.Sotw && !t.FullState {
			delete(p.of(c.Type).last, c.Name) // SotW does not tell of a removal; it may come again
		}
	}
	for _, c := range changes {
		p.t.Logf("publish %s %s: %s -> %s", xds.Kind(c.Type), c.Name, show(c.Old), show(c.New))
	}
	p.stream.Publish(p.worlds[p.group].snap, changes)
	p.drain()
}

func show(r *xds.Resource) string {
	if r == nil {
		return "-"
	}
	return r.Name() + "@" + r.Version()
}

func (p *play) logResponse(r *wire.Response) {
	var list []string
	for _, res := range r.Resources {
		list = append(list, show(res))
	}
	p.t.Logf("<- %s n=%s %v -%v", xds.Kind(r.TypeURL), r.Nonce, list, r.Removed)
}

// deliver lets the server read the client's oldest request.
func (p *play) deliver() bool {
	c := p.client
	if len(c.outbox) == 0 {
		return false
	}
	r := c.outbox[0]
	c.outbox = c.outbox[1:]
	p.t.Logf("-> %s %v +%v -%v n=%s %v", xds.Kind(r.TypeURL), r.Names, r.Subscribe, r.Unsubscribe, r.Nonce, r.Error)
	out, err := p.stream.Request(p.now, r)
	if err != nil {
		p.t.Fatalf("request %+v: %v", r, err)
	}
	s := p.of(r.TypeURL)
	if out.Settled != nil {
		s.settle(r, out.Answer == wire.Nacked)
	}
	if p.cfg.Variant == wire.Delta {
		s.delta(r)
	} else if out.Answer != wire.Stale {
		s.sotw(r)
		maps.DeleteFunc(p.client.of(r.TypeURL).cache, func(_ string, r *xds.Resource) bool { return !s.covers(r) })
	}
	p.checkInterests()
	p.drain()
	return true
}

func (s *serverSide) settle(r *wire.Request, nacked bool) {
	i := slices.IndexFunc(s.outstanding, func(o *wire.Response) bool { return o.Nonce == r.Nonce })
	if nacked {
		s.anyReason = true // what was rejected along is sent again with the cure
	}
	s.outstanding = slices.Delete(s.outstanding, i, i+1)
}

func (s *serverSide) delta(r *wire.Request) {
	for _, n := range r.Subscribe {
		if n == "*" {
			s.wild, s.anyReason = true, true
			continue
		}
		s.names[n], s.reason[n] = true, true
	}
	for _, n := range r.Unsubscribe {
		if n == "*" {
			s.wild = false
			continue
		}
		delete(s.names, n)
		if s.wild {
			s.reason[n] = true // XS-54
		}
	}
	s.forget()
}

func (s *serverSide) sotw(r *wire.Request) {
	next := map[string]bool{}
	wild := false
	for _, n := range r.Names {
		if n == "*" {
			wild = true
			continue
		}
		next[n] = true
		if !s.names[n] {
			s.reason[n] = true
		}
	}
	if wild && !s.wild {
		s.anyReason = true
	}
	s.named = s.named || len(r.Names) > 0
	s.wild, s.names = wild, next
	s.forget()
}

// forget drops what the server no longer needs to know.
func (s *serverSide) forget() {
	maps.DeleteFunc(s.last, func(n string, r *xds.Resource) bool {
		return !s.wild && !s.names[n] && (r == nil || !s.covers(r))
	})
}

// next is the next response of the stream, or of one of its types, in any turn.
func (p *play) next() *wire.Response {
	if !p.parts {
		return p.stream.Next(p.now)
	}
	for len(p.queue) > 0 {
		i := rapid.IntRange(0, len(p.queue)-1).Draw(p.t, "turn")
		u := p.queue[i]
		r, news := p.stream.NextOf(p.now, u)
		if r == nil {
			p.queue = slices.Delete(p.queue, i, i+1)
		}
		if news {
			p.wake(u)
		}
		if r != nil {
			return r
		}
	}
	return nil
}

// wake has all types asked that owe something, but for one.
func (p *play) wake(except string) {
	for _, u := range worldTypes {
		if u != except && p.stream.Owes(u) && !slices.Contains(p.queue, u) {
			p.queue = append(p.queue, u)
		}
	}
}

// drain takes every response that is due to the client and checks each.
func (p *play) drain() {
	p.wake("")
	for n := 0; ; n++ {
		if n > 1000 {
			p.t.Fatal("responses without end")
		}
		r := p.next()
		if r == nil {
			break
		}
		p.logResponse(r)
		p.noteHasty(r)
		p.checkResponse(r)
		p.of(r.TypeURL).outstanding = append(p.of(r.TypeURL).outstanding, r)
		ct := p.client.of(r.TypeURL)
		ct.pending = append(ct.pending, r)
		p.checkWindow(r.TypeURL)
	}
	if d := p.stream.Deadline(); !d.IsZero() && !d.After(p.now) {
		p.t.Fatalf("nothing is due at %v, but the deadline is %v", p.now, d)
	}
}

// refersToClusters are the types whose resources name clusters.
var refersToClusters = []string{xds.ListenerType, xds.RouteType, xds.VirtualHostType}

// answer lets the client answer, and checks that what it applied leaves no
// route without its clusters, which is what TestMakeBeforeBreak is about.
func (p *play) answer(u string) bool {
	ct := p.client.of(u)
	var first []string
	if len(ct.pending) > 0 {
		for _, r := range ct.pending[0].Resources {
			if ct.cache[r.Name()] == nil {
				first = append(first, r.Name())
			}
		}
	}
	if !p.client.answer(u) {
		return false
	}
	p.t.Logf("client processed %s n=%s", xds.Kind(u), ct.nonce)
	if p.former && u == xds.ClusterType {
		p.excuseGone()
	}
	p.noteEarly(ct, u, first)
	if p.patient {
		p.checkRoutes(u)
	}
	return true
}

// noteEarly excuses clusters that what was just asked for names before the
// client has them.
func (p *play) noteEarly(ct *clientType, u string, first []string) {
	for n := range ct.early {
		if ct.cache[n] == nil {
			delete(ct.early, n)
		}
	}
	if !slices.Contains(refersToClusters, u) {
		return
	}
	clusters := p.client.of(xds.ClusterType)
	for _, n := range first {
		r := ct.cache[n]
		if r == nil {
			continue
		}
		ct.early[n] = map[string]bool{}
		for _, ref := range r.References() {
			if ref.Type == xds.ClusterType && (clusters.cache[ref.Name] == nil || p.hasty[r]) {
				ct.early[n][ref.Name] = true
			}
		}
	}
}

// settle lets everything in flight arrive and be answered, and time pass.
func (p *play) settle() {
	for range 200 {
		busy := false
		for p.deliver() {
			busy = true
		}
		for _, u := range slices.Sorted(maps.Keys(p.client.types)) {
			busy = p.answer(u) || busy
		}
		if busy {
			continue
		}
		d := p.stream.Deadline()
		if d.IsZero() {
			return
		}
		if p.patient {
			p.t.Fatal("a rollout stands still until the gate's timer ends it, though everything is acknowledged")
		}
		p.now = d
		p.drain()
	}
	p.t.Fatal("no rest after 200 rounds")
}

// drawConfig draws a stream's configuration.
func drawConfig(t *rapid.T) wire.Config {
	cfg := wire.Config{Outstanding: rapid.SampledFrom([]int{1, 2, 16}).Draw(t, "window")}
	if rapid.Bool().Draw(t, "delta") {
		cfg.Variant = wire.Delta
	}
	cfg.MaxResponse = rapid.SampledFrom([]int{1, 300, 3 << 20}).Draw(t, "limit")
	return cfg
}

// resubscribe draws a change of subscription.
func (p *play) resubscribe(t *rapid.T) {
	u := p.cfg.Only
	if u == "" {
		u = rapid.SampledFrom(worldTypes).Draw(t, "type")
	}
	ct := p.client.of(u)
	if ct.typ.DeltaOnly && !p.client.delta {
		return
	}
	wild := ct.typ.Wildcard && rapid.Bool().Draw(t, "wildcard")
	pool := slices.Concat(worldNames[u], []string{"nope"})
	if u == xds.RouteType {
		pool = append(pool, "al-r0", "al-r1")
	}
	names := map[string]bool{}
	for _, n := range rapid.SliceOfN(rapid.SampledFrom(pool), 0, 4).Draw(t, "names") {
		names[n] = true
	}
	if !ct.opened && !wild && len(names) == 0 {
		return // an empty first list would be the wildcard
	}
	p.client.subscribe(u, wild, names)
}

func (p *play) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"publish": func(t *rapid.T) { p.publish(p.worlds[p.group].change(t, p.bad)) },
		"regroup": func(t *rapid.T) {
			if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
				t.Skip("not this time")
			}
			p.group = 1 - p.group
			for u, s := range p.server {
				if t, _ := xds.LookupType(u); p.cfg.Variant == wire.Sotw && !t.FullState {
					clear(s.last)
				}
			}
			p.t.Logf("regroup: %v", p.worlds[p.group].items)
			p.stream.Rebase(p.worlds[p.group].snap)
			p.drain()
		},
		"deliver": func(t *rapid.T) {
			if !p.deliver() {
				t.Skip("nothing to deliver")
			}
		},
		"answer": func(t *rapid.T) {
			if !p.answer(rapid.SampledFrom(worldTypes).Draw(t, "type")) {
				t.Skip("nothing to answer")
			}
		},
	}
}

// run plays a random sequence and compares at the end.
func (p *play) run(actions map[string]func(*rapid.T)) {
	for _, w := range p.worlds {
		w.change(p.t, false)
	}
	p.stream.Publish(p.worlds[0].snap)
	p.t.Repeat(actions)
	for range 8 { // a cure may bring up the next rejection
		p.settle()
		p.publish(p.worlds[p.group].repair(p.t))
	}
	p.settle()
	p.checkCaches()
}

// TestCachesConverge plays an aggregated stream with rejections, time and any
// subscriptions.
// Proves XS-14, XS-19, XS-21, XS-26, XS-45, XS-57, XS-59, XS-64.
func TestCachesConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(t, drawConfig(t))
		p.bad = rapid.Bool().Draw(t, "rejections")
		p.client.partly = p.bad && rapid.Bool().Draw(t, "partly")
		a := p.actions()
		a["resubscribe"] = p.resubscribe
		a["wait"] = p.wait
		p.run(a)
	})
}

// wait lets time pass.
func (p *play) wait(t *rapid.T) {
	p.now = p.now.Add(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond)
	p.drain()
}

// TestCachesConvergeAlone plays a stream of one type.
// Proves XS-02.
func TestCachesConvergeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.Only = rapid.SampledFrom(worldTypes).Draw(t, "only")
		p := newPlay(t, cfg)
		p.bad = rapid.Bool().Draw(t, "rejections")
		p.client.partly = p.bad && rapid.Bool().Draw(t, "partly")
		a := p.actions()
		a["resubscribe"] = p.resubscribe
		p.run(a)
		if d := p.stream.Deadline(); !d.IsZero() {
			t.Fatalf("a stream of one type waits until %v", d)
		}
	})
}

// TestMakeBeforeBreak plays a client that subscribes as it learns names and
// accepts everything: no accepted route ever names a cluster that it lacks, and
// every rollout ends without the gate's timer.
// Proves XS-68, XS-72.
func TestMakeBeforeBreak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, a := newFollower(t)
		p.run(a)
	})
}

// newFollower plays a client that accepts everything and subscribes as it learns
// names.
func newFollower(t *rapid.T) (*play, map[string]func(*rapid.T)) {
	p := newPlay(t, drawConfig(t))
	p.patient, p.parts = true, rapid.Bool().Draw(t, "parts")
	p.client.subscribe(xds.ClusterType, true, map[string]bool{})
	p.client.subscribe(xds.ListenerType, true, map[string]bool{})
	p.client.subscribe(xds.ScopedRouteType, true, map[string]bool{})
	if p.client.delta {
		p.client.subscribe(xds.VirtualHostType, false, map[string]bool{"v0": true, "v1": true})
	}
	a := p.actions()
	a["follow"] = func(t *rapid.T) { p.follow(rapid.SampledFrom(worldTypes).Draw(t, "type")) }
	return p, a
}

// follow subscribes to what the client's resources refer to.
func (p *play) follow(u string) {
	if slices.Contains([]string{xds.ClusterType, xds.ListenerType, xds.ScopedRouteType, xds.VirtualHostType}, u) {
		return
	}
	names := map[string]bool{}
	for _, ct := range p.client.types {
		for _, r := range ct.cache {
			for _, ref := range r.References() {
				if ref.Type == u {
					names[ref.Name] = true
				}
			}
		}
	}
	ct := p.client.of(u)
	if maps.Equal(names, ct.names) || !ct.opened && len(names) == 0 {
		return
	}
	p.client.subscribe(u, false, names)
	maps.DeleteFunc(ct.early, func(n string, _ map[string]bool) bool { return !names[n] })
}
