package wire

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// sotw takes a DiscoveryRequest for the sub-stream.
func (x *sub) sotw(now time.Time, r *Request, opened bool) (Outcome, error) {
	out := Outcome{Answer: Opened}
	if !opened {
		out = x.answer(now, r)
	}
	if out.Answer == Stale {
		x.status.Stale++
		return out, nil
	}
	if r.Digest != 0 && r.Digest == x.digest && out.Answer != Opened {
		return out, nil
	}
	if len(r.Names) > x.stream.cfg.MaxNames {
		return out, exhausted("%d names in one request; at most %d are taken", len(r.Names), x.stream.cfg.MaxNames)
	}
	if out.Answer == Opened && !opened {
		x.restart()
	}
	x.digest = r.Digest
	x.replaceNames(r.Names, out.Answer == Opened, &out)
	x.skipVersion = ""
	if opened && x.wildcard && len(x.names) == 0 && x.typ.FullState {
		x.skipVersion = strings.Clone(r.Version) // XS-27
	}
	return out, nil
}

// answer decides what a request on an open SotW sub-stream is.
func (x *sub) answer(now time.Time, r *Request) Outcome {
	switch {
	case len(x.out) > 0:
		if r.Nonce != x.out[0].Nonce {
			return Outcome{Answer: Stale}
		}
		return x.settle(now, 0, r.Error)
	case x.lastNonce == "":
		return Outcome{Answer: Updated}
	case r.Nonce == "" && !x.status.rejected():
		return Outcome{Answer: Opened} // XS-23
	case r.Nonce == "" || r.Nonce == x.lastNonce:
		return Outcome{Answer: Updated}
	}
	return Outcome{Answer: Stale}
}

// restart prepares for a request that begins anew: everything is sent again,
// what waits for its turn goes on waiting (XS-23).
func (x *sub) restart() {
	x.due.each(func(o *owed) bool {
		o.asked, o.force = false, false
		return true
	})
	x.reported, x.mustAnswer = nil, false
	if x.wildcard {
		x.sweep, x.mustAnswer = &sweep{again: true}, true
	}
}

// replaceNames makes names the whole SotW subscription; all asks for the names
// that are in it already too.
func (x *sub) replaceNames(names []string, all bool, out *Outcome) {
	star, fresh := false, x.untouched()
	next := make(map[string]struct{}, len(names))
	if len(x.names) == 0 {
		out.Added = make([]string, 0, len(names))
	}
	x.due.grow(len(names))
	for _, n := range names {
		if n == wildcardName && x.typ.Wildcard {
			star = true
			continue
		}
		if _, dup := next[n]; dup {
			continue
		}
		n, exists := x.intern(n)
		next[n] = struct{}{}
		if had := x.wants(n); !had || all {
			x.askFresh(&fresh, n, exists)
			x.addGlob(n)
			if !had {
				out.Added = append(out.Added, n)
			}
		}
	}
	x.wasNamed = x.wasNamed || len(names) > 0
	out.Removed = x.namesNotIn(next)
	x.names = next
	dropped := out.Removed
	x.setWildcard(star || len(names) == 0 && x.typ.Wildcard && !x.wasNamed, out)
	if x.sweep != nil && x.sweep.prior == nil {
		x.sweep.prior = dropped
	}
	if len(out.Removed) > 0 {
		x.dropGlobs(out.Removed)
		x.forget()
	}
}

// namesNotIn lists the names subscribed to that next lacks.
func (x *sub) namesNotIn(next map[string]struct{}) []string {
	var gone []string
	for n := range x.names {
		if _, kept := next[n]; !kept {
			gone = append(gone, n)
		}
	}
	return gone
}

// setWildcard enters or leaves the wildcard.
func (x *sub) setWildcard(on bool, out *Outcome) {
	if on == x.wildcard {
		return
	}
	x.wildcard = on
	if on {
		out.Added = append(out.Added, wildcardName)
		x.sweep, x.mustAnswer = &sweep{}, true
		x.skipInFlight()
		return
	}
	out.Removed = append(out.Removed, wildcardName)
	x.sweep, x.skip, x.passed, x.mustAnswer = nil, nil, nil, false
	x.forget()
}

// skipInFlight notes what is on its way to the client, so that a wildcard or
// glob which begins now removes it if it is gone by then.
func (x *sub) skipInFlight() {
	if x.stream.cfg.Variant != Delta || len(x.out) == 0 && x.replied == nil {
		return
	}
	inFlight := maps.Clone(x.skip)
	if inFlight == nil {
		inFlight = map[string]string{}
	}
	if x.passed == nil {
		x.passed = map[string]*xds.Resource{}
	}
	for sent := range x.crossing() {
		for item := range sent.all() {
			if item.res != nil {
				inFlight[item.name] = ""
				x.passed[item.name] = item.res
			}
		}
	}
	x.skip = inFlight
}

// crossing iterates over the responses that the client may have received since
// it gave something up that the request takes up again: the one that the request
// answers, and those without an answer.
func (x *sub) crossing() iter.Seq[*Sent] {
	return func(yield func(*Sent) bool) {
		if x.replied != nil && !yield(x.replied) {
			return
		}
		for _, sent := range x.out {
			if !yield(sent) {
				return
			}
		}
	}
}

// skipMembers notes what a client holds of a collection, or by an alias, that
// it gives up while a wildcard's state is on its way.
func (x *sub) skipMembers(name string) {
	if x.sweep == nil || x.stream.view == nil {
		return
	}
	held := map[string]string{}
	if r := x.resolve(name); r != nil && r.Name() != name {
		held[r.Name()] = ""
	}
	if g, ok := x.globs[name]; ok {
		for r := range g.members(x.set()) {
			held[r.Name()] = ""
		}
	}
	if len(held) > 0 {
		maps.Copy(held, x.skip)
		x.skip = held
	}
}

// ask makes a newly named resource due, whatever the client holds (XS-30,
// XS-31, XS-52).
func (x *sub) ask(name string) *owed {
	o := x.withheldAs(name)
	if r := x.resolve(name); r != nil {
		o = x.owe(name, x.heldSoon(r.Name(), name), x.stream.seq)
	} else if o == nil {
		o = x.owe(name, x.heldSoon(name, name), x.stream.seq)
	}
	o.force, o.asked = true, true
	delete(x.reported, name)
	return o
}

// untouched reports whether the client can hold nothing of the type, and no
// exception is noted.
func (x *sub) untouched() bool {
	return len(x.names)+len(x.globs)+x.due.len()+len(x.out)+len(x.rejected)+len(x.reported) == 0 && !x.wildcard && x.sweep == nil && x.replied == nil
}

// askFresh is ask for one of the distinct first names of an untouched
// sub-stream, which needs no look at what was before. An alias ends that: its
// resource may be named as well.
func (x *sub) askFresh(fresh *bool, name string, exists bool) *owed {
	if !*fresh || !exists && x.resolve(name) != nil {
		*fresh = false
		return x.ask(name)
	}
	return x.due.add(owed{name: name, seq: x.stream.seq, last: x.stream.seq, force: true, asked: true})
}

// heldSoon is what the client was last sent of a resource it asks for by some
// name: it may have given it up and taken it up again while that was on its way.
func (x *sub) heldSoon(name, asked string) *xds.Resource {
	if r := x.heldNow(name); r != nil || x.wants(name) {
		return r
	}
	r := x.lastInFlight(name)
	if r == nil || name != asked && x.hosts == nil && !slices.Contains(r.Aliases(), asked) {
		return nil
	}
	return r
}

// lastInFlight is what the newest response with a resource holds of it, as far
// as they may cross the request.
func (x *sub) lastInFlight(name string) (last *xds.Resource) {
	for sent := range x.crossing() {
		if i, ok := sent.find(name); ok {
			last = sent.items[i].res
		} else if i, ok := sent.inBulk(name); ok {
			last = sent.bulk[i]
		}
	}
	return last
}

// withheldAs finds the withheld removal of a resource that has the alias.
func (x *sub) withheldAs(alias string) *owed {
	if x.stream.old == nil {
		return nil // nothing is withheld
	}
	for i := range x.due.list {
		o := &x.due.list[i]
		if !o.gone && o.held != nil && slices.Contains(o.held.Aliases(), alias) && x.current(o.name) == nil {
			return o
		}
	}
	return nil
}

// intern shares the string of the resource's own name, so that a subscription
// does not keep a copy for each stream, and reports whether there is one.
func (x *sub) intern(name string) (string, bool) {
	if r := x.current(name); r != nil {
		return r.Name(), true
	}
	return strings.Clone(name), false
}

// delta takes a DeltaDiscoveryRequest for the sub-stream.
func (x *sub) delta(now time.Time, r *Request, opened bool) (Outcome, error) {
	out := Outcome{Answer: Updated}
	switch {
	case opened:
		out.Answer = Opened
		x.openDelta(r, &out)
	case r.Nonce != "":
		out = x.settleDelta(now, r)
		x.replied = out.Settled
		defer func() { x.replied = nil }()
	}
	if err := x.subscribe(r.Subscribe, opened, &out); err != nil {
		return out, err
	}
	if err := x.unsubscribe(r.Unsubscribe, &out); err != nil {
		return out, err
	}
	x.forgetVain(&out)
	return out, nil
}

func (x *sub) openDelta(r *Request, out *Outcome) {
	if len(r.Initial) > 0 {
		x.skip = r.Initial
		for name, v := range x.skip {
			if v == "" {
				x.skip[name] = noVersion
			}
		}
	}
	if len(r.Subscribe)+len(r.Unsubscribe) > 0 {
		return
	}
	if x.typ.Wildcard {
		x.setWildcard(true, out)
	} else if x.typ.URL == xds.VirtualHostType {
		x.mustAnswer, x.hosts.begun = true, true // XN-22
	}
}

// noVersion stands for the empty version of a resource that a client holds,
// which another server has sent. No resource has it.
const noVersion = "\x00"

func (x *sub) settleDelta(now time.Time, r *Request) Outcome {
	for i, s := range x.out {
		if s.Nonce == r.Nonce {
			return x.settle(now, i, r.Error)
		}
	}
	x.status.Stale++
	return Outcome{Answer: Stale}
}

func (x *sub) subscribe(names []string, opened bool, out *Outcome) error {
	if len(names) == 0 {
		return nil
	}
	if x.names == nil {
		x.names = make(map[string]struct{}, len(names))
	}
	fresh := x.untouched()
	if fresh {
		out.Added = make([]string, 0, len(names))
	}
	x.due.grow(len(names))
	for _, n := range names {
		if n == wildcardName && x.typ.Wildcard {
			fresh = false
			x.subscribeAll(out)
			continue
		}
		n, exists := x.intern(n)
		had := x.wants(n)
		fresh = fresh && !had
		o := x.askFresh(&fresh, n, exists)
		o.first, o.former = opened, opened && (x.heldFormerly(n) || x.heldFormerly(o.name))
		if !had {
			x.names[n] = struct{}{}
			out.Added = append(out.Added, n)
		}
		x.addGlob(n)
		x.addHost(n)
	}
	if limit := x.maxNames(opened, len(names)); len(x.names) > limit {
		return exhausted("a subscription to %d names; at most %d are taken", len(x.names), limit)
	}
	return nil
}

// subscribeAll enters the wildcard, or answers it once more (XS-52).
func (x *sub) subscribeAll(out *Outcome) {
	switch {
	case !x.wildcard:
		x.setWildcard(true, out)
	case x.sweep == nil:
		x.sweep, x.mustAnswer = &sweep{again: true}, true
	case x.sweep.set != nil:
		x.sweep.repeat = true
	}
}

func (x *sub) unsubscribe(names []string, out *Outcome) error {
	var gone []string
	for _, n := range names {
		if n == wildcardName && x.typ.Wildcard {
			x.setWildcard(false, out)
			continue
		}
		if !x.wants(n) {
			continue
		}
		if x.wildcard {
			x.ask(n) // XS-54
			x.skipMembers(n)
		}
		delete(x.names, n)
		x.dropHost(n)
		gone = append(gone, n)
	}
	if len(gone) > 0 {
		out.Removed = append(out.Removed, gone...)
		x.dropGlobs(gone)
		x.forget()
	}
	return x.checkUnanswered(len(gone))
}

// checkUnanswered bounds what a client can make due by naming and giving up
// resources under a wildcard without ever taking an answer (XS-89).
func (x *sub) checkUnanswered(gone int) error {
	limit := x.stream.cfg.MaxNames
	if set := x.set(); set != nil {
		limit += set.Len()
	}
	if n := x.due.len(); gone > 0 && n > limit {
		return exhausted("%d names wait for an answer that the client does not take", n)
	}
	return nil
}
