package client_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// play is a channel in front of the real server's machine, over a network that
// keeps the order of each direction and may break.
type play struct {
	t      *rapid.T
	cfg    client.Config
	ch     *client.Channel
	server *wire.Stream
	snap   *snapshot.Snapshot
	items  map[xds.Key]string // version, or "version/alias"
	now    time.Time

	up    []*client.Request
	down  []*wire.Response
	audit *audit
	wants map[string]map[string]bool
	// seen is what a user of the events believes, by type and name.
	seen map[string]map[string]string
	// types are those that the user and the server's group change.
	types []string
}

const (
	globAll = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x/*"
	globOne = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x/1"
	globTwo = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x/2"
)

func playNames(url string) []string {
	switch url {
	case xds.EndpointType:
		return []string{"e0", "e1", "e2", globOne, globTwo}
	case xds.RouteType:
		return []string{"r0", "r1"}
	case xds.ClusterType:
		return []string{"c0", "c1", "c2"}
	}
	return []string{"l0", "l1"}
}

func playTypes() []string {
	return []string{xds.ClusterType, xds.EndpointType, xds.ListenerType, xds.RouteType}
}

func newPlay(t *rapid.T, cfg client.Config) *play {
	cfg.Checker = &checker{}
	snap, _, err := snapshot.New().With(snapshot.Changes{})
	if err != nil {
		t.Fatal(err)
	}
	p := &play{
		t: t, cfg: cfg, ch: client.New(cfg), snap: snap, items: map[xds.Key]string{}, now: time.Unix(1000, 0),
		wants: map[string]map[string]bool{}, seen: map[string]map[string]string{}, types: playTypes(),
	}
	for _, u := range playTypes() {
		p.wants[u], p.seen[u] = map[string]bool{}, map[string]string{}
	}
	p.audit = newAudit(p.t, cfg.Delta)
	return p
}

// change sets or removes resources.
func (p *play) change(t *rapid.T, bad bool) {
	next := maps.Clone(p.items)
	for range rapid.IntRange(1, 4).Draw(t, "changes") {
		u := rapid.SampledFrom(p.types).Draw(t, "type")
		k := xds.Key{Type: u, Name: rapid.SampledFrom(playNames(u)).Draw(t, "name")}
		versions := []string{"1", "2", "3", ""}
		if bad {
			versions = append(versions, "bad1", "bad2")
		}
		v := rapid.SampledFrom(versions).Draw(t, "version")
		if u == xds.RouteType && p.cfg.Delta && v != "" && rapid.Bool().Draw(t, "alias") {
			v += "/al-" + k.Name
		}
		next[k] = v
	}
	p.move(next)
}

// repair replaces everything bad.
func (p *play) repair() {
	next := maps.Clone(p.items)
	for k, v := range next {
		next[k] = strings.Replace(v, "bad", "good", 1)
	}
	p.move(next)
}

func (p *play) move(next map[xds.Key]string) {
	c := snapshot.Changes{Replace: true}
	for k, v := range next {
		version, alias, _ := strings.Cut(v, "/")
		if version == "" {
			delete(next, k)
			continue
		}
		opts := []xds.Option{xds.WithVersion(v)}
		if alias != "" {
			opts = append(opts, xds.WithAliases(alias))
		}
		c.Set = append(c.Set, xds.NewResource(k.Type, k.Name, []byte(k.Name+" "+version), opts...))
	}
	slices.SortFunc(c.Set, func(a, b *xds.Resource) int { return strings.Compare(a.TypeURL()+a.Name(), b.TypeURL()+b.Name()) })
	snap, changes, err := p.snap.With(c)
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortFunc(changes, func(a, b snapshot.Change) int { return strings.Compare(a.Type+a.Name, b.Type+b.Name) })
	p.items, p.snap = next, snap
	for _, ch := range changes {
		p.t.Logf("publish %s %s", xds.Kind(ch.Type), next[xds.Key{Type: ch.Type, Name: ch.Name}]+" of "+ch.Name)
	}
	if p.server != nil {
		p.server.Publish(snap, changes)
		p.respond()
	}
}

func (p *play) connect() {
	if p.server != nil {
		return
	}
	p.t.Logf("open")
	v := wire.Sotw
	if p.cfg.Delta {
		v = wire.Delta
	}
	p.server = wire.NewStream(wire.Config{Variant: v})
	p.server.Publish(p.snap)
	p.ch.Open(p.now)
	p.forgetDropped()
	p.audit.open()
}

func (p *play) disconnect() {
	if p.server == nil {
		return
	}
	p.t.Logf("closed")
	if got := p.ch.Closed(p.now); got != p.audit.answered {
		p.t.Fatalf("Closed reports answered=%v, want %v", got, p.audit.answered)
	}
	p.server, p.up, p.down = nil, nil, nil
}

func (p *play) toggle(t *rapid.T) {
	u := rapid.SampledFrom(p.types).Draw(t, "type")
	typ, _ := xds.LookupType(u)
	pool := append(playNames(u), "nope")
	if typ.Wildcard {
		pool = append(pool, "*", "*")
	}
	if p.cfg.Delta && u == xds.EndpointType {
		pool = append(pool, globAll)
	}
	if p.cfg.Delta && u == xds.RouteType {
		pool = append(pool, "al-r0", "al-r1")
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(pool), 1, 3).Draw(t, "names") {
		p.audit.touch(u, name)
		if p.wants[u][name] {
			p.t.Logf("unsubscribe %s %s", typ.Kind, name)
			delete(p.wants[u], name)
			p.ch.Unsubscribe(u, name)
		} else {
			p.t.Logf("subscribe %s %s", typ.Kind, name)
			p.wants[u][name] = true
			p.ch.Subscribe(typ, name)
		}
	}
}

// send lets the channel send one request.
func (p *play) send() bool {
	r := p.ch.Next(p.now)
	p.forgetDropped()
	if r == nil {
		return false
	}
	p.t.Logf("%s", strings.TrimSpace(show(r, p.cfg.Delta)))
	p.audit.request(r)
	p.up = append(p.up, r)
	return true
}

// forgetDropped lets the user of the events forget what the channel no longer
// holds because nobody wants it.
func (p *play) forgetDropped() {
	for u, m := range p.seen {
		maps.DeleteFunc(m, func(name, _ string) bool {
			st, ok := p.ch.Resource(u, name)
			held := ok && st.Held && st.Name == name
			return !held && !p.covers(u, name, st.Aliases)
		})
	}
}

func (p *play) covers(u, name string, aliases []string) bool {
	w := p.wants[u]
	return w["*"] || w[name] || slices.ContainsFunc(aliases, func(a string) bool { return w[a] }) ||
		w[globAll] && (name == globOne || name == globTwo)
}

// read lets the server read one request.
func (p *play) read() bool {
	if len(p.up) == 0 {
		return false
	}
	r := p.up[0]
	p.up = p.up[1:]
	if _, err := p.server.Request(p.now, toServer(r)); err != nil {
		p.t.Fatalf("the server ends the stream: %v", err)
	}
	p.respond()
	return true
}

// toServer is a request as the server reads it.
func toServer(r *client.Request) *wire.Request {
	wr := &wire.Request{
		TypeURL: r.TypeURL, Version: r.Version, Nonce: r.Nonce, Names: r.Names,
		Subscribe: r.Subscribe, Unsubscribe: r.Unsubscribe, Initial: r.Held,
	}
	if r.Error != "" {
		wr.Error = &wire.Status{Code: wire.InvalidArgument, Message: r.Error}
	}
	return wr
}

func (p *play) respond() {
	for r := p.server.Next(p.now); r != nil; r = p.server.Next(p.now) {
		p.down = append(p.down, r)
	}
}

// receive lets the channel take one response.
func (p *play) receive() bool {
	if len(p.down) == 0 {
		return false
	}
	w := p.down[0]
	p.down = p.down[1:]
	r := &client.Response{TypeURL: w.TypeURL, Version: w.Version, Nonce: w.Nonce, Removed: w.Removed}
	var names []string
	for _, res := range w.Resources {
		raw := client.Raw{TypeURL: res.TypeURL(), Body: res.Body(), HasBody: true}
		if p.cfg.Delta {
			raw.Name, raw.Version, raw.Aliases = res.Name(), res.Version(), res.Aliases()
		}
		r.Resources = append(r.Resources, raw)
		names = append(names, res.Name()+"@"+res.Version())
	}
	out := p.ch.Receive(p.now, r)
	p.t.Logf("<- %s %s n=%s %v -%v: %v", xds.Kind(r.TypeURL), r.Version, r.Nonce, names, r.Removed, out.Err)
	if out.Ignored {
		p.t.Fatal("an answer to a request is ignored")
	}
	p.audit.response(r, out)
	p.watch(r.TypeURL, out.Events)
	return true
}

// watch is the user of the events.
func (p *play) watch(u string, events []client.Event) {
	for _, e := range events {
		switch e.Kind {
		case client.Changed:
			p.seen[u][e.Name] = string(e.Body)
		case client.Missing, client.Expired:
			delete(p.seen[u], e.Name)
		}
	}
	p.forgetDropped()
	p.checkSeen(u)
}

// checkSeen compares what the events said with what the channel holds.
func (p *play) checkSeen(u string) {
	held := map[string]string{}
	for st := range p.ch.Resources(u) {
		if st.Held {
			held[st.Name] = string(st.Body)
		}
	}
	seen := maps.Clone(p.seen[u])
	maps.DeleteFunc(seen, func(name, _ string) bool { _, ok := held[name]; return !ok && !p.covers(u, name, nil) })
	if !maps.Equal(seen, held) {
		p.t.Fatalf("%s: the events say %v, the channel holds %v", xds.Kind(u), seen, held)
	}
}

func (p *play) expire() {
	for _, te := range p.ch.Expire(p.now) {
		for _, e := range te.Events {
			p.t.Logf("%s %s %s", xds.Kind(te.TypeURL), e.Kind, e.Name)
		}
		p.watch(te.TypeURL, te.Events)
	}
}

// settle lets everything in flight arrive and be answered.
func (p *play) settle() {
	p.connect()
	for range 1000 {
		busy := false
		for p.send() || p.read() || p.receive() {
			busy = true
		}
		if busy {
			continue
		}
		if d := p.server.Deadline(); !d.IsZero() && d.After(p.now) {
			p.now = d
			p.expire()
			p.respond()
			continue
		}
		if p.ch.Stats().Pending > 0 {
			d, ok := p.ch.Deadline()
			if !ok || !d.After(p.now) {
				p.t.Fatalf("a request waits, but the deadline is %v, %v", d, ok)
			}
			p.now = d
			p.expire()
			continue
		}
		return
	}
	p.t.Fatal("no rest")
}

// check compares the channel with the server's snapshot.
func (p *play) check() {
	p.audit.rest()
	for _, u := range playTypes() {
		typ, _ := xds.LookupType(u)
		want := map[string]string{}
		for _, r := range p.snap.Set(u).All() {
			if p.covers(u, r.Name(), r.Aliases()) {
				want[r.Name()] = string(r.Body())
			}
		}
		got := map[string]string{}
		for st := range p.ch.Resources(u) {
			_, exists := want[st.Name]
			if st.Held && (exists || p.cfg.Delta || typ.FullState) {
				got[st.Name] = string(st.Body)
			}
		}
		if !maps.Equal(got, want) {
			p.t.Fatalf("%s: the client holds %v, the server has %v", typ.Kind, got, want)
		}
	}
}

func drawConfig(t *rapid.T) client.Config {
	cfg := client.Config{Delta: rapid.Bool().Draw(t, "delta"), ExplicitWildcard: rapid.Bool().Draw(t, "explicit")}
	if rapid.Bool().Draw(t, "limited") {
		cfg.Limit = &client.Limit{Burst: 2, PerSecond: 4}
	}
	return cfg
}

func (p *play) run(bad bool, actions map[string]func(*rapid.T)) {
	p.change(p.t, false)
	all := map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if err := p.ch.Verify(); err != nil {
				t.Fatal(err)
			}
		},
		"change":  func(t *rapid.T) { p.change(t, bad) },
		"toggle":  p.toggle,
		"send":    skipUnless(func() bool { return p.send() }),
		"read":    skipUnless(func() bool { return p.read() }),
		"receive": skipUnless(func() bool { return p.receive() }),
		"wait": func(t *rapid.T) {
			p.now = p.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
			p.expire()
		},
	}
	maps.Copy(all, actions)
	p.connect()
	p.t.Repeat(all)
	for range 6 {
		p.settle()
		p.repair()
	}
	p.settle()
	p.check()
}

func skipUnless(f func() bool) func(*rapid.T) {
	return func(t *rapid.T) {
		if !f() {
			t.Skip("nothing to do")
		}
	}
}

func (p *play) breaks() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"break": func(t *rapid.T) {
			if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
				t.Skip("not this time")
			}
			p.disconnect()
		},
		"connect": func(*rapid.T) { p.connect() },
	}
}

// TestServer plays a channel against the real server's machine, with
// disconnects, changes of subscriptions, rate limits and any order of events:
// in the end the channel holds what the server has, and every response was
// answered once.
// Proves XC-05, XC-06, XC-07, XC-08, XC-15, XC-20, XC-22, XC-23, GC-36, GC-37, GC-38, GC-40, GC-45, GC-69, GC-73.
func TestServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(t, drawConfig(t))
		p.run(false, p.breaks())
	})
}

// TestServerWithRejections adds resources that the client refuses.
// Proves XC-11, GC-52.
func TestServerWithRejections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.WholeResponses = rapid.Bool().Draw(t, "whole")
		p := newPlay(t, cfg)
		if rapid.Bool().Draw(t, "one type") {
			p.types = []string{rapid.SampledFrom(p.types).Draw(t, "only")}
		}
		p.run(true, p.breaks())
	})
}
