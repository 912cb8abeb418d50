package wire_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// TestHostsOnDemand plays streams of virtual hosts against a client that asks
// for hosts and gives them up while their domains move about. In the end, and
// whatever crossed on the way, it holds what its names lead to and nothing else,
// knows which name leads where, and waits for no answer. It drops by itself only
// what it gives up, or is told none of its names leads to, and gives up only while nothing is on its way.
// Proves XN-23 and XN-24 together with the scripts.
func TestHostsOnDemand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &hostPlay{
			t: t, snap: snapshot.New(), names: map[string]bool{}, waits: map[string]bool{},
			table: map[string]*xds.Resource{}, leads: map[string]string{},
		}
		p.stream = wire.NewStream(wire.Config{
			Variant: wire.Delta, Outstanding: rapid.IntRange(1, 3).Draw(t, "window"),
			MaxResponse: rapid.SampledFrom([]int{0, 100}).Draw(t, "limit"),
		})
		// A client that refuses gives nothing up, and asks for no virtual host by its
		// own name, which could then lead to another one by domain as well.
		p.played, p.refuses = playedNames, rapid.Bool().Draw(t, "refuses")
		if p.refuses {
			p.played = playedNames[1:]
		}
		p.publish(snapshot.Changes{})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			p.step()
			p.drain()
		}
		p.settle()
		p.check()
	})
}

type hostPlay struct {
	t      *rapid.T
	stream *wire.Stream
	snap   *snapshot.Snapshot
	serial int

	played  []string
	refuses bool

	// The client: what it wants, what of it it waits for, the requests and
	// responses on their way, and what it holds and knows.
	names, waits map[string]bool
	requests     []*wire.Request
	responses    []*wire.Response
	table        map[string]*xds.Resource
	leads        map[string]string
}

var (
	playedNames   = []string{"t/1", "t/a.x", "t/b.x", "t/c", "u/a.x", "t/a.x:80", "no"}
	playedHosts   = []string{"t/1", "t/2", "t/3", "u/1", "no"}
	playedDomains = []string{"a.x", "b.x", "*.x", "*x", "c*", "c", "*", "1", "a.x:80"}
)

func (p *hostPlay) step() {
	t := p.t
	switch rapid.IntRange(0, 5).Draw(t, "step") {
	case 0:
		p.request(rapid.SliceOfNDistinct(rapid.SampledFrom(p.played), 1, 3, rapid.ID[string]).Draw(t, "ask"), nil)
	case 1:
		if p.refuses {
			return
		}
		// What it gives up it may take up again at once, so nothing may be on its way
		p.quiesce()
		p.request(nil, rapid.SliceOfNDistinct(rapid.SampledFrom(p.played), 1, 2, rapid.ID[string]).Draw(t, "give up"))
		p.quiesce()
	case 2:
		p.change()
	case 3, 4:
		p.serve()
	case 5:
		p.receive(p.refuses && rapid.IntRange(0, 5).Draw(t, "refuse") == 0)
	}
}

// request sends a request of the client. What it gives up it drops, with what
// nothing leads to any more.
func (p *hostPlay) request(ask, giveUp []string) {
	for _, n := range ask {
		p.names[n], p.waits[n] = true, true
	}
	for _, n := range giveUp {
		delete(p.names, n)
		delete(p.waits, n)
		delete(p.leads, n)
	}
	maps.DeleteFunc(p.table, func(name string, _ *xds.Resource) bool { return !p.wanted(name, nil) })
	p.requests = append(p.requests, &wire.Request{TypeURL: xds.VirtualHostType, Subscribe: ask, Unsubscribe: giveUp})
}

// wanted reports whether the client wants a virtual host that it was told these
// aliases of.
func (p *hostPlay) wanted(name string, aliases []string) bool {
	if p.names[name] || slices.ContainsFunc(aliases, func(a string) bool { return p.names[a] }) {
		return true
	}
	for n, to := range p.leads {
		if to == name && p.names[n] {
			return true
		}
	}
	return false
}

// change changes some virtual hosts, or the route configuration.
func (p *hostPlay) change() {
	var c snapshot.Changes
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(playedHosts), 1, 3, rapid.ID[string]).Draw(p.t, "hosts") {
		if rapid.IntRange(0, 2).Draw(p.t, "gone") == 0 {
			c.Remove = append(c.Remove, xds.Key{Type: xds.VirtualHostType, Name: name})
			continue
		}
		c.Set = append(c.Set, p.host(name, rapid.SliceOfN(rapid.SampledFrom(playedDomains), 1, 3).Draw(p.t, "domains")))
	}
	if rapid.IntRange(0, 4).Draw(p.t, "table") == 0 {
		words := []string{"RDS", "t", fmt.Sprint(p.serial), "vhds", "ignore-port"}
		c.Set = append(c.Set, parseResource(words[:rapid.SampledFrom([]int{4, 5}).Draw(p.t, "port")]))
	}
	p.publish(c)
}

func (p *hostPlay) host(name string, domains []string) *xds.Resource {
	p.serial++
	words := []string{"VHDS", name, fmt.Sprint(p.serial)}
	for _, d := range domains {
		words = append(words, "domain="+d)
	}
	return parseResource(words)
}

func (p *hostPlay) publish(c snapshot.Changes) {
	next, changes, err := p.snap.With(c)
	if err != nil {
		p.t.Fatal(err)
	}
	p.snap = next
	p.stream.Publish(next, changes)
}

// serve lets the server read one request.
func (p *hostPlay) serve() {
	if len(p.requests) == 0 {
		return
	}
	r := p.requests[0]
	p.requests = p.requests[1:]
	if _, err := p.stream.Request(time.Unix(0, 0), r); err != nil {
		p.t.Fatal(err)
	}
}

// drain takes the responses that are due.
func (p *hostPlay) drain() {
	for r := p.stream.Next(time.Unix(0, 0)); r != nil; r = p.stream.Next(time.Unix(0, 0)) {
		said := map[string]bool{}
		say := func(n string) {
			if said[n] {
				p.t.Fatalf("%s is named twice in one response", n)
			}
			said[n] = true
		}
		for _, res := range r.Resources {
			say(res.Name())
		}
		for _, n := range slices.Concat(r.Removed, r.Missing) {
			say(n)
		}
		p.responses = append(p.responses, r)
	}
}

// receive lets the client read one response, and answer it.
func (p *hostPlay) receive(refuse bool) {
	if len(p.responses) == 0 {
		return
	}
	r := p.responses[0]
	p.responses = p.responses[1:]
	answer := &wire.Request{TypeURL: xds.VirtualHostType, Nonce: r.Nonce}
	if refuse && len(r.Resources) > 0 {
		answer.Error = &wire.Status{Code: 3, Message: "refused"}
	} else {
		p.apply(r)
	}
	p.requests = append(p.requests, answer)
}

func (p *hostPlay) apply(r *wire.Response) {
	for _, res := range r.Resources {
		aliases := r.Aliases[res.Name()]
		maps.DeleteFunc(p.leads, func(a, to string) bool { return to == res.Name() && !slices.Contains(aliases, a) })
		if !p.wanted(res.Name(), aliases) {
			delete(p.table, res.Name())
			continue
		}
		p.table[res.Name()] = res
		delete(p.waits, res.Name())
		delete(p.leads, res.Name())
		for _, a := range aliases {
			if p.names[a] {
				p.leads[a] = res.Name()
				delete(p.waits, a)
			}
		}
	}
	for _, n := range r.Removed {
		delete(p.table, n)
		delete(p.waits, n)
		maps.DeleteFunc(p.leads, func(_, to string) bool { return to == n })
	}
	for _, n := range r.Missing {
		delete(p.table, n) // XC-21
		delete(p.waits, n)
		delete(p.leads, n)
	}
}

// settle lets everything arrive. What was refused gets new content, and names of
// which an answer was refused with the rest are asked for once more.
func (p *hostPlay) settle() {
	p.quiesce()
	var c snapshot.Changes
	for _, r := range p.snap.Set(xds.VirtualHostType).All() {
		c.Set = append(c.Set, p.host(r.Name(), r.Hosts().Domains))
	}
	p.publish(c)
	p.quiesce()
	if len(p.waits) > 0 {
		p.request(slices.Sorted(maps.Keys(p.waits)), nil)
		p.quiesce()
	}
}

func (p *hostPlay) quiesce() {
	for p.drain(); len(p.requests)+len(p.responses) > 0; p.drain() {
		p.serve()
		p.drain()
		p.receive(false)
	}
}

func (p *hostPlay) check() {
	want, leads := map[string]string{}, map[string]string{}
	for n := range p.names {
		r := p.snap.Resolve(xds.VirtualHostType, n)
		if r == nil {
			continue
		}
		want[r.Name()] = r.Version()
		if r.Name() != n {
			leads[n] = r.Name()
		}
	}
	got := map[string]string{}
	for n, r := range p.table {
		got[n] = r.Version()
	}
	if !maps.Equal(got, want) {
		p.t.Fatalf("the client holds %v, want %v for %v", got, want, p.names)
	}
	if !maps.Equal(p.leads, leads) {
		p.t.Fatalf("to the client the names lead to %v, want %v", p.leads, leads)
	}
	if len(p.waits) > 0 {
		p.t.Fatalf("the client waits for %v", p.waits)
	}
}
