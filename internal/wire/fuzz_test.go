package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// FuzzSteps reads bytes as steps of a stream and its group, with types, names,
// nonces and versions that need not make sense.
// Proves XS-93 together with the limits it runs under.
func FuzzSteps(f *testing.F) {
	f.Add([]byte("\x00"))
	f.Add([]byte("\x01\x10\x20\x30\x40\x50\x60\x70\x80\x90\xa0\xb0\xc0\xd0\xe0\xf0"))
	f.Add([]byte("\x00subscribe\x02publish\x05answer\x07\x08\x09everything\x0a\x0b"))
	for seed := range 12 {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(i*i*(seed+3) + i*seed*17)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newFuzzPlay(t, data)
		for len(p.data) > 0 && !p.over {
			p.step()
		}
	})
}

const (
	fuzzMaxNames = 20
	fuzzWindow   = 3
)

// fuzzPlay is a stream, its group, and what is left of the input.
type fuzzPlay struct {
	t      *testing.T
	data   []byte
	cfg    wire.Config
	stream *wire.Stream
	snap   *snapshot.Snapshot
	now    time.Time
	over   bool

	nonces map[string]bool
	sent   map[string][]string // unanswered nonces by type
	mine   map[string]bool     // types asked for
	last   string
}

func newFuzzPlay(t *testing.T, data []byte) *fuzzPlay {
	p := &fuzzPlay{
		t: t, data: data, snap: snapshot.New(), now: time.Unix(0, 0),
		nonces: map[string]bool{}, sent: map[string][]string{}, mine: map[string]bool{},
	}
	mode := p.next()
	p.cfg = wire.Config{MaxNames: fuzzMaxNames, Outstanding: fuzzWindow, MissingErrors: mode&4 > 0, AlwaysFirst: mode&8 > 0}
	if mode&1 > 0 {
		p.cfg.Variant = wire.Delta
	}
	if mode&2 > 0 {
		p.cfg.MaxResponse = 200
	}
	if mode&16 > 0 {
		p.cfg.Deny = func(_, name string) *wire.Status {
			if name == "n1" || name == "al2" {
				return &wire.Status{Code: wire.PermissionDenied}
			}
			return nil
		}
	}
	if mode&32 > 0 {
		p.cfg.Substitute = func(u, name string) *xds.Resource { return xds.NewResource(u, name, nil) }
	}
	if mode&192 == 192 {
		p.cfg.Only = p.typeURL(p.next())
		p.cfg.Only = xds.ClusterType
	}
	p.stream = wire.NewStream(p.cfg)
	return p
}

func (p *fuzzPlay) next() byte {
	if len(p.data) == 0 {
		return 0
	}
	b := p.data[0]
	p.data = p.data[1:]
	return b
}

func (p *fuzzPlay) typeURL(b byte) string {
	types := xds.Types()
	switch n := int(b) % 100; {
	case n < len(types):
		return types[n].URL
	case n == 99:
		return ""
	case n > 90:
		return fmt.Sprint("odd", n)
	default:
		return types[n%len(types)].URL
	}
}

const fuzzGlobs = "xdstp://a/envoy.config.endpoint.v3.LbEndpoint/"

func (p *fuzzPlay) name(b byte) string {
	switch {
	case b < 120:
		return fmt.Sprint("n", b%6)
	case b < 160:
		return fmt.Sprint("al", b%4)
	case b < 180:
		return fmt.Sprint(fuzzGlobs, "c/", b%4)
	case b < 200:
		return fuzzGlobs + "c/*"
	case b < 220:
		return "*"
	case b < 230:
		return ""
	}
	return fmt.Sprint("other", p.next())
}

func (p *fuzzPlay) names() []string {
	list := make([]string, p.next()%6)
	for i := range list {
		list[i] = p.name(p.next())
	}
	return list
}

func (p *fuzzPlay) step() {
	switch b := p.next(); b % 8 {
	case 0, 1, 2:
		p.publish(b >= 240)
	case 3:
		p.now = p.now.Add(time.Duration(p.next()) * 100 * time.Millisecond)
	default:
		p.request()
	}
	if p.next()%4 > 0 { // else several steps at once
		p.drain()
	}
}

func (p *fuzzPlay) publish(rebase bool) {
	var c snapshot.Changes
	for range p.next() % 6 {
		u, n := p.typeURL(p.next()), p.name(p.next())
		if b := p.next(); b%3 == 0 {
			c.Remove = append(c.Remove, xds.Key{Type: u, Name: n})
		} else {
			c.Set = append(c.Set, p.resource(u, n, b))
		}
	}
	next, changes, err := p.snap.With(c)
	if err != nil {
		return // a name twice
	}
	p.snap = next
	if rebase {
		p.stream.Rebase(next)
	} else {
		p.stream.Publish(next, changes)
	}
}

func (p *fuzzPlay) resource(u, n string, b byte) *xds.Resource {
	var refs []xds.Reference
	for range b % 4 {
		refs = append(refs, xds.Reference{Key: xds.Key{Type: p.typeURL(p.next()), Name: p.name(p.next())}})
	}
	var aliases []string
	if b > 200 {
		aliases = []string{fmt.Sprint("al", b%4)}
	}
	return xds.NewResource(u, n, []byte{b}, xds.WithReferences(refs), xds.WithAliases(aliases...))
}

func (p *fuzzPlay) nonce(u string) string {
	switch b := p.next(); {
	case b < 150 && len(p.sent[u]) > 0:
		i := int(b) % len(p.sent[u])
		return p.sent[u][i]
	case b < 200:
		return p.last
	case b < 220:
		return fmt.Sprint(b)
	}
	return ""
}

func (p *fuzzPlay) request() {
	r := &wire.Request{TypeURL: p.typeURL(p.next())}
	u := r.TypeURL
	if u == "" {
		u = p.cfg.Only
	}
	r.Nonce = p.nonce(u)
	flags := p.next()
	if flags&1 > 0 {
		r.Error = &wire.Status{Code: wire.Internal, Message: p.name(p.next())}
	}
	if flags&2 > 0 {
		r.Version = p.snap.Set(u).Version()
	}
	r.Names, r.Subscribe, r.Unsubscribe = p.names(), p.names(), p.names()
	if flags&4 > 0 {
		r.Digest = uint64(p.next()%3 + 1)
	}
	for _, n := range p.names() {
		if r.Initial == nil {
			r.Initial = map[string]string{}
		}
		r.Initial[n] = fmt.Sprint(flags)
	}
	out, err := p.stream.Request(p.now, r)
	if err != nil {
		p.over = true
		return
	}
	p.mine[u] = true
	if out.Settled != nil {
		p.settle(u, out.Settled.Nonce)
	}
	p.checkBounds()
}

func (p *fuzzPlay) settle(u, nonce string) {
	for i, n := range p.sent[u] {
		if n == nonce {
			p.sent[u] = append(p.sent[u][:i:i], p.sent[u][i+1:]...)
			return
		}
	}
	p.t.Fatalf("%s: %q was settled, but is not unanswered", u, nonce)
}

// checkBounds: what a stream keeps is bounded by its limits and the snapshot.
func (p *fuzzPlay) checkBounds() {
	names, due := 0, 0
	for _, st := range p.stream.Status() {
		names, due = max(names, st.Names), max(due, st.Due)
		for rs := range p.stream.Resources(st.TypeURL) {
			if rs.Name == "" && rs.Resource != nil && rs.Resource.Name() != "" {
				p.t.Fatalf("a resource without its name: %+v", rs)
			}
		}
	}
	if names > fuzzMaxNames {
		p.t.Fatalf("%d names, at most %d are taken", names, fuzzMaxNames)
	}
	if limit := 2*fuzzMaxNames + 300; due > limit {
		p.t.Fatalf("%d resources due", due)
	}
}

func (p *fuzzPlay) drain() {
	for n := 0; ; n++ {
		if n > 2000 {
			p.t.Fatal("responses without end")
		}
		r := p.stream.Next(p.now)
		if r == nil {
			break
		}
		p.check(r)
	}
	if d := p.stream.Deadline(); !d.IsZero() && !d.After(p.now) {
		p.t.Fatalf("nothing is due at %v, but the deadline is %v", p.now, d)
	}
}

func (p *fuzzPlay) check(r *wire.Response) {
	if r.Nonce == "" || p.nonces[r.Nonce] {
		p.t.Fatalf("nonce %q", r.Nonce)
	}
	if !p.mine[r.TypeURL] {
		p.t.Fatalf("%s was never asked for", r.TypeURL)
	}
	p.nonces[r.Nonce], p.last = true, r.Nonce
	p.sent[r.TypeURL] = append(p.sent[r.TypeURL], r.Nonce)
	limit := 1
	if p.cfg.Variant == wire.Delta {
		limit = fuzzWindow
	}
	if n := len(p.sent[r.TypeURL]); n > limit {
		p.t.Fatalf("%s: %d responses unanswered", r.TypeURL, n)
	}
	seen := map[string]string{}
	note := func(name, where string) {
		if was := seen[name]; was != "" && (was != "removed" || where != "errors") {
			p.t.Fatalf("%s %q is in %s and %s", r.TypeURL, name, was, where)
		}
		seen[name] = where
	}
	for _, n := range r.Removed {
		note(n, "removed")
	}
	for _, res := range r.Resources {
		note(res.Name(), "resources")
	}
	for _, e := range r.Errors {
		note(e.Name, "errors")
	}
	if p.cfg.Variant == wire.Sotw && len(r.Removed) > 0 {
		p.t.Fatalf("removals %v in SotW", r.Removed)
	}
}
