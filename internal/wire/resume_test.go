package wire_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// TestMakeBeforeBreakAcrossRestarts is TestMakeBeforeBreak with a server that
// starts anew, in front of a client that comes back with what it holds. In SotW
// the server cannot keep a cluster that it no longer has; how the client goes
// on until routes have come is its own affair.
// Partly proves XS-68, XS-69: on the first answers of a stream.
func TestMakeBeforeBreakAcrossRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, a := newFollower(t)
		delete(a, "regroup")
		a["restart"] = func(t *rapid.T) {
			p.worlds[p.group].change(t, false)
			p.restart()
		}
		p.run(a)
	})
}

// TestCachesConvergeAcrossRestarts is TestCachesConverge with a server that starts
// anew.
func TestCachesConvergeAcrossRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlay(t, drawConfig(t))
		p.bad = rapid.Bool().Draw(t, "rejections")
		p.client.partly = p.bad && rapid.Bool().Draw(t, "partly")
		a := p.actions()
		delete(a, "regroup")
		a["resubscribe"] = p.resubscribe
		a["wait"] = p.wait
		a["restart"] = func(t *rapid.T) {
			p.worlds[p.group].change(t, p.bad)
			p.restart()
		}
		p.run(a)
	})
}

// restart puts a new stream with the present world in the place of the old one,
// and the client asks for everything again.
func (p *play) restart() {
	p.t.Logf("restart: %v", p.worlds[p.group].items)
	p.stream = wire.NewStream(p.cfg)
	p.stream.Publish(p.worlds[p.group].snap)
	p.server, p.nonces = map[string]*serverSide{}, map[string]bool{}
	p.client.outbox = nil
	p.former = p.cfg.Variant == wire.Sotw
	for _, t := range xds.Types() {
		ct := p.client.types[t.URL]
		if ct == nil {
			continue
		}
		ct.pending, ct.nonce = nil, ""
		if ct.opened = ct.wild || len(ct.names) > 0; !ct.opened {
			clear(ct.cache)
			continue
		}
		p.client.outbox = append(p.client.outbox, ct.begin(p.client.delta))
		for n := range ct.cache {
			p.of(t.URL).reason[n] = true
		}
	}
}

// begin is the first request of a stream of a client that may hold something.
func (ct *clientType) begin(delta bool) *wire.Request {
	r := &wire.Request{TypeURL: ct.typ.URL}
	if !delta {
		r.Names = ct.list()
		if len(ct.cache) > 0 {
			r.Version = "former"
		}
		return r
	}
	r.Subscribe = ct.list()
	r.Initial = map[string]string{}
	for n, res := range ct.cache {
		r.Initial[n] = res.Version()
	}
	return r
}

// excuseGone excuses routes to clusters that the first answer of a new server
// does not hold, as SotW has no other way.
func (p *play) excuseGone() {
	p.former = false
	clusters := p.client.of(xds.ClusterType)
	for _, u := range refersToClusters {
		ct := p.client.of(u)
		for _, n := range slices.Sorted(maps.Keys(ct.cache)) {
			for _, ref := range ct.cache[n].References() {
				if ref.Type != xds.ClusterType || clusters.cache[ref.Name] != nil {
					continue
				}
				if ct.early[n] == nil {
					ct.early[n] = map[string]bool{}
				}
				ct.early[n][ref.Name] = true
			}
		}
	}
}
