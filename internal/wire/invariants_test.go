package wire_test

import (
	"maps"
	"slices"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

func (p *play) checkInterests() {
	got := map[string]map[string]bool{}
	p.stream.Interests(func(u, n string) {
		if got[u] == nil {
			got[u] = map[string]bool{}
		}
		got[u][n] = true
	})
	for u, s := range p.server {
		want := maps.Clone(s.names)
		if s.wild {
			want["*"] = true
		}
		if len(want)+len(got[u]) > 0 && !maps.Equal(want, got[u]) {
			p.t.Fatalf("%s: interests %v, want %v", xds.Kind(u), got[u], want)
		}
	}
}

func (p *play) checkWindow(u string) {
	limit := 1
	if p.cfg.Variant == wire.Delta {
		limit = p.cfg.Outstanding
	}
	if n := len(p.of(u).outstanding); n > limit {
		p.t.Fatalf("%s: %d responses unanswered, at most %d may be", xds.Kind(u), n, limit)
	}
}

func (p *play) checkResponse(r *wire.Response) {
	if r.Nonce == "" || p.nonces[r.Nonce] {
		p.t.Fatalf("nonce %q is empty or was used before", r.Nonce)
	}
	p.nonces[r.Nonce] = true
	seen := map[string]bool{}
	for _, n := range r.Removed {
		p.checkName(r, seen, n)
		p.checkRemoved(r.TypeURL, n)
	}
	for _, res := range r.Resources {
		p.checkName(r, seen, res.Name())
		if res.TypeURL() != r.TypeURL {
			p.t.Fatalf("%s in a response for %s", res.TypeURL(), r.TypeURL)
		}
	}
	p.checkRepeats(r)
	if r.TypeURL == xds.ClusterType || r.TypeURL == xds.ScopedRouteType && p.cfg.Variant == wire.Sotw {
		for _, res := range r.Resources {
			for _, ref := range res.References() {
				p.of(ref.Type).reason[ref.Name] = true // XS-76
			}
		}
	}
}

func (p *play) checkName(r *wire.Response, seen map[string]bool, n string) {
	if seen[n] {
		p.t.Fatalf("%s %q twice in one response", xds.Kind(r.TypeURL), n)
	}
	seen[n] = true
}

// checkRemoved: only what the client held or has asked for is removed.
func (p *play) checkRemoved(u, n string) {
	s := p.of(u)
	last, known := s.last[n]
	if p.cfg.Variant == wire.Sotw {
		p.t.Fatalf("%s: a removal of %q in SotW", xds.Kind(u), n)
	}
	if !s.reason[n] && !s.anyReason && !s.crosses(n) && (!known || last == nil) {
		p.t.Fatalf("%s %q is removed, but the client had no reason to think it exists", xds.Kind(u), n)
	}
	delete(s.reason, n)
	s.last[n] = nil
}

// crosses reports whether an unanswered response holds a resource: the client
// may have given it up and taken it up again, by another name, meanwhile.
func (s *serverSide) crosses(n string) bool {
	return slices.ContainsFunc(s.outstanding, func(o *wire.Response) bool {
		return slices.ContainsFunc(o.Resources, func(r *xds.Resource) bool { return r.Name() == n })
	})
}

// checkRepeats: every resource is subscribed to, and was not sent before as it
// is without a reason.
func (p *play) checkRepeats(r *wire.Response) {
	s := p.of(r.TypeURL)
	t, _ := xds.LookupType(r.TypeURL)
	full := t.FullState && p.cfg.Variant == wire.Sotw
	news := !full
	if full && len(r.Resources) != len(s.last) {
		news = true
	}
	for _, res := range r.Resources {
		if !s.covers(res) && !s.reason[res.Name()] {
			p.t.Fatalf("%s %q is not subscribed to", xds.Kind(r.TypeURL), res.Name())
		}
		asked := s.reason[res.Name()] || s.askedByAlias(res) || s.askedByAlias(p.worlds[p.group].snap.Set(r.TypeURL).Get(res.Name()))
		old := s.last[res.Name()]
		if old == nil || !old.Equal(res) || asked || s.anyReason {
			news = true
		} else if !full {
			p.t.Fatalf("%s %q is sent again as it was, without a reason", xds.Kind(r.TypeURL), res.Name())
		}
	}
	if full && !news && len(s.reason) == 0 && !s.anyReason {
		p.t.Fatalf("a %s response that holds what the one before held", xds.Kind(r.TypeURL))
	}
	if full {
		clear(s.last)
		clear(s.reason)
	}
	for _, res := range r.Resources {
		s.last[res.Name()] = res
		delete(s.reason, res.Name())
		for _, a := range res.Aliases() {
			delete(s.reason, a)
		}
	}
}

func (s *serverSide) askedByAlias(r *xds.Resource) bool {
	return r != nil && slices.ContainsFunc(r.Aliases(), func(a string) bool { return s.reason[a] })
}

// clustersRest reports whether the client has every cluster it is to have.
func (p *play) clustersRest() bool {
	for _, st := range p.stream.Status() {
		if st.TypeURL == xds.ClusterType {
			return st.Outstanding == 0 && st.Due == 0
		}
	}
	return true
}

func (p *play) noteHasty(resp *wire.Response) {
	if !slices.Contains(refersToClusters, resp.TypeURL) {
		return
	}
	s := p.of(resp.TypeURL)
	for _, r := range resp.Resources {
		if s.last[r.Name()] == nil && (s.reason[r.Name()] || s.askedByAlias(r) || s.anyReason) {
			p.hasty[r] = p.hasty[r] || !p.clustersRest()
		}
	}
}

func (p *play) checkRoutes(after string) {
	clusters := p.client.of(xds.ClusterType)
	for _, u := range refersToClusters {
		ct := p.client.of(u)
		for n, r := range ct.cache {
			if p.cfg.Variant == wire.Sotw && (p.worlds[p.group].snap.Set(u).Get(n) == nil || !ct.covers(r)) {
				continue // SotW cannot take it away; nothing is to use it any more
			}
			for _, ref := range r.References() {
				if ref.Type != xds.ClusterType {
					continue
				}
				switch {
				case clusters.cache[ref.Name] != nil && p.clustersRest():
					delete(ct.early[n], ref.Name)
				case clusters.cache[ref.Name] == nil && !ct.early[n][ref.Name] && clusters.wild:
					p.t.Fatalf("after a %s response %s %q names cluster %q, which the client lacks", xds.Kind(after), xds.Kind(u), n, ref.Name)
				}
			}
		}
	}
}

// checkCaches compares the client's caches with what it subscribes to.
func (p *play) checkCaches() {
	snap := p.worlds[p.group].snap
	for _, u := range slices.Sorted(maps.Keys(p.client.types)) {
		ct := p.client.types[u]
		want := map[string]string{}
		for _, r := range snap.Set(u).All() {
			if ct.covers(r) {
				want[r.Name()] = r.Version()
			}
		}
		exact := p.cfg.Variant == wire.Delta || ct.typ.FullState
		got := map[string]string{}
		for n, r := range ct.cache {
			if _, exists := want[n]; exists || exact && ct.covers(r) {
				got[n] = r.Version()
			}
		}
		if !maps.Equal(got, want) {
			p.t.Fatalf("%s: the client holds %v, want %v", xds.Kind(u), got, want)
		}
	}
}
