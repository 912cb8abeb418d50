package wire

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// wildcardName subscribes to everything of a type.
const wildcardName = "*"

// sub is one sub-stream: the subscription to one type on one stream, and what
// the client holds of it where that differs from the stream's snapshot.
type sub struct {
	stream *Stream
	asked  string // the type URL of requests and responses
	typ    xds.Type
	known  bool
	stage  stage

	// The subscription. wasNamed says that a name was given at some time, so
	// that empty lists no longer mean the wildcard (XS-34, XS-55).
	wildcard, wasNamed bool
	names              map[string]struct{}
	globs              map[string]glob
	hosts              *hosts // nil but for virtual hosts
	digest             uint64

	// The exceptions to the snapshot.
	due      dueList
	sweep    *sweep
	out      []*Sent
	replied  *Sent // what the request being read answers
	rejected map[string]*refusal
	reported map[string]Code // errors told and not yet cleared (XS-85)

	// mustAnswer asks for a response even if nothing is due.
	mustAnswer bool
	// since is when the first answer began to wait for clusters, patienceOver
	// that it has waited for as long as it may.
	since        time.Time
	patienceOver bool
	// until is when the first of what the last look kept back is released by the
	// gate; zero if nothing is. Each look sets it anew, to what is still to come.
	until time.Time
	// pendingGlobs are new glob subscriptions not yet expanded.
	pendingGlobs map[string]glob
	// skip holds the versions a reconnecting delta client has (XS-60), and empty
	// ones of what may reach a client after it has given up a wildcard or glob
	// and taken it up again; skipVersion is the one of a SotW client (XS-27).
	skip        map[string]string
	skipVersion string
	// passed is what was on its way at that time.
	passed map[string]*xds.Resource

	lastNonce string
	status    SubStatus
}

// Sent is a response that waits for its answer.
type Sent struct {
	Nonce, Version string
	Time           time.Time
	items          []sentItem
	// bulk was sent without anything held before, ordered by name.
	bulk  []*xds.Resource
	index map[string]int // into items, made when they are first looked up
	// minSeq is the oldest event that the response follows from.
	minSeq uint64
}

// Len is the number of resources in the response, removals included.
func (x *Sent) Len() int { return len(x.items) + len(x.bulk) }

// sentItem is one resource in flight; res is nil for a removal, before what
// the client held.
type sentItem struct {
	name        string
	res, before *xds.Resource
	former      bool // the client held some version of it from a former stream
	// refusal is set if the client has refused what it held last.
	refusal *refusal
	leaving bool // see owed
}

// refusal is a resource whose last sent content was rejected. Some clients
// apply nothing of a response that they refuse, others what is good in it. So it
// is not known what the client holds until it accepts something: before in the
// first case, kept in the second as far as the message tells what was bad.
type refusal struct {
	sent, before, kept *xds.Resource
	nack               *nack
	batch              *batch
	blamed             bool
	former             bool // as in sentItem
	leaving            bool // see owed
	// released says that something else in the batch has changed since.
	released bool
}

// some is a content that the client may have taken; nil if there is none.
func (f *refusal) some() *xds.Resource { return cmp.Or(f.sent, f.kept) }

// mayLack reports whether the client may hold nothing of the resource.
func (f *refusal) mayLack() bool { return !f.former && (f.before == nil || f.kept == nil) }

// batch is what was refused together and is sent again together: all or some of
// it may be the cause.
type batch struct {
	names []string
}

// nack is one rejected response.
type nack struct {
	nonce, version string
	status         Status
	time           time.Time
}

func (x *sub) wants(name string) bool {
	_, ok := x.names[name]
	return ok
}

// covers reports whether the subscription includes a resource.
func (x *sub) covers(r *xds.Resource) bool {
	return x.wildcard && !r.Indirect() || x.coversByName(r)
}

func (x *sub) coversByName(r *xds.Resource) bool {
	if x.wants(r.Name()) {
		return true
	}
	return slices.ContainsFunc(r.Aliases(), x.wants) || x.inGlob(r.Name()) || len(x.hostAliases(r.Name())) > 0
}

func (x *sub) inGlob(name string) bool {
	for _, g := range x.globs {
		if g.covers(name) {
			return true
		}
	}
	return false
}

// set is the present content of the type; nil before the group is loaded.
func (x *sub) set() *snapshot.Set {
	if x.stream.view == nil {
		return nil
	}
	return x.stream.view.Set(x.typ.URL)
}

// changed notes a change of the snapshot and reports whether it concerns the
// subscription.
func (x *sub) changed(c *snapshot.Change, seq uint64) bool {
	held := x.heldByAlias(c.Old, x.ifCovered(c.Old))
	if held == nil && (c.New == nil || !x.covers(c.New)) {
		return false
	}
	if x.sweepWillSend(c) {
		return true
	}
	o := x.owe(c.Name, held, seq)
	if o.refusal != nil && !c.New.Equal(o.refusal.sent) {
		force, released := o.force, o.refusal.released
		x.release(o.refusal.batch, seq)
		o = x.due.find(c.Name)
		o.force, o.refusal.released = force, released // it may come back as the client has it
	}
	o.touch(seq)
	if c.New == nil && o.held == nil && !o.asked && !o.force && o.refusal == nil {
		x.due.drop(o) // it came and went before it could be sent
	}
	return true
}

// heldByAlias corrects what the client holds of a resource if it has asked for
// it by an alias and not been answered yet.
func (x *sub) heldByAlias(r, held *xds.Resource) *xds.Resource {
	if r == nil {
		return held
	}
	for _, aliases := range [][]string{r.Aliases(), x.hostAliases(r.Name())} {
		for _, alias := range aliases {
			if o := x.due.find(alias); o != nil && o.asked {
				return o.held
			}
		}
	}
	return held
}

// sweepWillSend reports whether a wildcard's state on its way out will hold
// the resource as it is by then.
func (x *sub) sweepWillSend(c *snapshot.Change) bool {
	if x.sweep == nil || x.due.find(c.Name) != nil {
		return false
	}
	r := c.Old
	if r == nil {
		r = c.New
	}
	return x.unsent(r) && (c.Old != nil || x.sweep.set == nil)
}

// unsent reports whether a resource is still ahead of a wildcard's first state
// and the client does not hold it otherwise.
func (x *sub) unsent(r *xds.Resource) bool {
	w := x.sweep
	if w == nil || w.again || r.Indirect() || x.coversByName(r) {
		return false
	}
	if w.set == nil {
		return true
	}
	if w.set.Get(r.Name()) == nil {
		return false
	}
	all := w.set.Direct()
	return w.next < len(all) && all[w.next].Name() <= r.Name()
}

// owe finds or makes the due entry of a resource. held is what the client has
// if no exception says otherwise.
func (x *sub) owe(name string, held *xds.Resource, seq uint64) *owed {
	if o := x.due.find(name); o != nil {
		return o
	}
	o := owed{name: name, held: held, seq: seq, last: seq}
	if f, ok := x.rejected[name]; ok {
		o.held, o.refusal = f.before, f
		delete(x.rejected, name)
		if !x.wanted(name).Equal(f.sent) {
			x.release(f.batch, seq)
		}
	}
	return x.due.add(o)
}

// release makes the companions of a rejected resource due again, since the
// client may have refused the whole response.
func (x *sub) release(b *batch, seq uint64) {
	for _, name := range b.names {
		if o := x.due.find(name); o != nil && o.refusal != nil && o.refusal.batch == b {
			o.force = x.wanted(name) != nil || o.refusal.sent == nil
			o.refusal.released = true
			continue
		}
		f, ok := x.rejected[name]
		if !ok || f.batch != b {
			continue
		}
		delete(x.rejected, name)
		f.released = true
		force := x.wanted(name) != nil || f.sent == nil
		x.due.add(owed{name: name, held: f.before, refusal: f, seq: seq, last: seq, force: force})
	}
}

// current is the resource as the snapshot has it; nil if there is none.
func (x *sub) current(name string) *xds.Resource {
	if s := x.set(); s != nil {
		return s.Get(name)
	}
	return nil
}

// wanted is the resource as the client is to have it; nil if it is to have none.
func (x *sub) wanted(name string) *xds.Resource { return x.ifCovered(x.current(name)) }

// heldNow is what the client was last sent of a resource.
func (x *sub) heldNow(name string) *xds.Resource {
	if o := x.due.find(name); o != nil {
		return o.held
	}
	if f, ok := x.rejected[name]; ok {
		return f.before
	}
	r := x.wanted(name)
	if r == nil || x.unsent(r) {
		return nil
	}
	return r
}

// forget drops what is noted about resources the subscription has left. Without
// the resource that was to blame the rest of a rejected response is due again.
func (x *sub) forget() {
	var cured []*batch
	x.due.each(func(o *owed) bool {
		if o.leaving || o.refusal != nil && o.refusal.leaving {
			return true
		}
		if !x.stillNamed(o.name, o.held) && (o.refusal == nil || !x.stillNamed(o.name, o.refusal.sent, o.refusal.kept)) {
			if o.refusal != nil && o.refusal.blamed {
				cured = append(cured, o.refusal.batch)
			}
			x.due.drop(o)
		}
		o.held = x.ifCovered(o.held)
		return true
	})
	for _, name := range slices.Sorted(maps.Keys(x.rejected)) {
		f := x.rejected[name]
		if f.leaving {
			continue
		}
		if !x.stillNamed(name, f.sent, f.before, f.kept) || x.besideWildcard(name, f) {
			delete(x.rejected, name)
			if f.blamed {
				cured = append(cured, f.batch)
			}
		}
		f.before, f.kept = x.ifCovered(f.before), x.ifCovered(f.kept)
	}
	for _, b := range cured {
		x.release(b, x.stream.seq)
	}
	if len(cured) > 0 && x.stream.cfg.Variant == Sotw && x.typ.FullState && !x.idle() {
		x.mustAnswer = true // what the response left out may still be held, from a former stream
	}
	for name := range x.reported {
		if !x.wildcard && !x.wants(name) && !x.inGlob(name) {
			delete(x.reported, name)
		}
	}
}

// besideWildcard reports whether what was refused was asked for by a name that has been
// given up, and the wildcard does not stand for it.
func (x *sub) besideWildcard(name string, f *refusal) bool {
	r := x.current(name)
	return f.sent != nil && f.sent.Indirect() && !x.coversByName(f.sent) && (r == nil || !x.covers(r)) &&
		f.before == nil && f.kept == nil
}

// ifCovered is the resource if the client holds it, given that it was sent it.
func (x *sub) ifCovered(r *xds.Resource) *xds.Resource {
	if r == nil || !x.covers(r) || x.withheldFrom(r.Name()) != nil || x.inexpressible(r) != nil {
		return nil
	}
	return r
}

// stillNamed reports whether the subscription includes a resource by its name, or
// as the client may hold it.
func (x *sub) stillNamed(name string, held ...*xds.Resource) bool {
	if x.wildcard || x.wants(name) || x.inGlob(name) {
		return true
	}
	for _, r := range held {
		if r != nil && x.coversByName(r) {
			return true
		}
	}
	c := x.current(name)
	return c != nil && x.coversByName(c)
}
