package client

import (
	"slices"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// Next is the request that is due now, or nil. It counts as sent, so it is to be
// called when the transport can take one. Responses are answered in the order
// in which they came, but for types that are withheld, one request each; changed
// names go along with the first of these, or in a request of their own (XC-25).
func (c *Channel) Next(now time.Time) *Request {
	if !c.open {
		return nil
	}
	t := c.since(now)
	if c.loose {
		c.forgetLoose()
	}
	x, i := c.dueSub()
	if x == nil || !c.bucket.take(t) {
		return nil
	}
	r := &Request{TypeURL: x.typ.URL, WithNode: !c.nodeSent || c.cfg.RepeatNode}
	c.nodeSent = true
	if i >= 0 {
		a := c.takeAnswer(i)
		r.Answer, r.Nonce, r.Version, r.Error = true, a.nonce, a.version, a.problem
	} else if !c.cfg.Delta {
		r.Nonce, r.Version = x.nonce, x.version
	}
	switch {
	case c.cfg.Delta && !x.opened:
		x.openDelta(t, r)
	case c.cfg.Delta:
		x.nextDelta(t, r)
	case !x.opened:
		x.openSotw(t, r)
	default:
		x.nextSotw(t, r)
	}
	return r
}

func (c *Channel) takeAnswer(i int) answer {
	a := c.answers[i]
	if i > c.head {
		c.answers = slices.Delete(c.answers, i, i+1)
		return a
	}
	c.answers[c.head] = answer{}
	c.head++
	if c.head == len(c.answers) {
		c.answers, c.head = c.answers[:0], 0
	}
	return a
}

// dueSub is the type whose turn it is, nil if there is none, and the place of
// the answer that it is to give, or -1.
func (c *Channel) dueSub() (x *sub, i int) {
	for i := c.head; i < len(c.answers); i++ {
		if x := c.answers[i].sub; !c.withheld(x) {
			return x, i
		}
	}
	for _, x := range c.order {
		if x.due() && !c.withheld(x) {
			return x, -1
		}
	}
	return nil, -1
}

func (c *Channel) withheld(x *sub) bool {
	return c.cfg.Withheld != nil && x.opened && c.cfg.Withheld(x.typ.URL)
}

// Deadline is when Next or Expire may have something although nothing happened.
// Next is to be asked first until it has nothing.
func (c *Channel) Deadline() (time.Time, bool) {
	d, ok := c.timers.first()
	if x, _ := c.dueSub(); c.open && c.bucket.on && x != nil {
		if t, wait := c.bucket.next(); wait && (!ok || t < d) {
			d, ok = t, true
		}
	}
	if !ok {
		return time.Time{}, false
	}
	return c.at(d), true
}

// begin makes everything wanted known to the server of a new stream, and drops
// what is no longer wanted. It returns the names, sorted.
func (x *sub) begin(now time.Duration) []string {
	x.opened, x.until, x.settled, x.repeat = true, 1, false, false
	names := make([]string, 0, x.wanted)
	for name, e := range x.names {
		if e.wanted {
			names = append(names, name)
			x.tell(e)
			continue
		}
		delete(x.globs, name)
		if !e.held {
			x.drop(e)
		}
	}
	if len(x.names) > len(names) {
		x.sweep()
	}
	for _, e := range x.names {
		x.setReceived(e, e.held || e.received)
	}
	slices.Sort(names)
	for _, name := range names {
		x.startTimer(now, x.names[name])
	}
	return names
}

// tell notes that the server is told that a name is wanted.
func (x *sub) tell(e *entry) { e.sent, e.again = x.ch.epoch, false }

// startTimer waits for a name that nothing is known of (GC-47).
func (x *sub) startTimer(now time.Duration, e *entry) {
	if d := x.ch.cfg.ResourceTimeout; d > 0 && !e.held && e.state == requested && e.failure() == nil && e.slot == 0 {
		x.ch.timers.set(e, now+d)
	}
}

// legacy reports whether a first request for these names says "everything" by
// naming nothing (XC-24).
func (x *sub) legacy(names []string) bool {
	return len(names) == 1 && names[0] == wildcard && !x.named && !x.ch.cfg.ExplicitWildcard &&
		(x.typ.Wildcard || x.ch.cfg.Delta && x.typ.URL == xds.VirtualHostType)
}

func (x *sub) openSotw(now time.Duration, r *Request) {
	x.list = x.begin(now)
	if x.active(x.names[wildcard]) && !x.exact {
		r.Version = "" // the server would say nothing if it is the current one (XS-27)
	}
	x.nameAll(r, true)
}

// nameAll puts the whole list into a SotW request.
func (x *sub) nameAll(r *Request, first bool) {
	if x.legacy(x.list) {
		return
	}
	x.name(r, x.list, first)
}

// name puts names into a SotW request. The first of a stream and answers are not
// ignored by the server.
func (x *sub) name(r *Request, names []string, first bool) {
	x.named = true
	x.sure = x.sure || len(names) > 0 && (r.Answer || first)
	r.Names = names
}

func (x *sub) nextSotw(now time.Duration, r *Request) {
	x.repeat = x.repeat && r.Answer
	if x.changes > 0 && x.wanted == 0 && !x.named {
		// Empty lists have meant the wildcard: it is named, so that the next one
		// can mean nothing (XS-34).
		x.name(r, []string{wildcard}, false)
		return
	}
	if x.hollow && !r.Answer {
		x.hollow = false
		return
	}
	if x.changes > 0 {
		added, removed := x.flush(now)
		x.list = merge(x.list, added, removed)
		if !r.Answer {
			x.leave(removed)
		}
	}
	if r.Answer && len(x.shed) > 0 {
		x.list = merge(x.list, nil, x.gap())
	}
	x.hollow = r.Answer && len(x.list) == 0 && x.named && !x.sure
	if x.hollow {
		x.name(r, []string{wildcard}, false)
		x.leave([]string{wildcard})
		return
	}
	x.nameAll(r, false)
}

// leave notes names that a request has left out, which the server ignores if it
// has sent a response meanwhile.
func (x *sub) leave(names []string) {
	for _, n := range names {
		if x.shed == nil {
			x.shed = map[string]struct{}{}
		}
		x.shed[n] = struct{}{}
	}
}

// gap returns the names that an answer has to leave out although they are
// wanted: they were given up and taken up again in requests that the server may
// have ignored, so that it would think that the client still holds what it has
// dropped. They are due again in a request of their own (GC-37).
func (x *sub) gap() []string {
	var out []string
	for name := range x.shed {
		e := x.names[name]
		if e == nil || !e.wanted || e.held || name == wildcard && e.state == present {
			continue
		}
		out = append(out, name)
		e.sent = 0
		x.ch.timers.stop(e)
		x.note(e, false)
	}
	slices.Sort(out)
	if !x.ch.owesAnswer(x) {
		clear(x.shed)
	}
	return out
}

// owesAnswer reports whether another response of a type is to be answered.
func (c *Channel) owesAnswer(x *sub) bool {
	return slices.ContainsFunc(c.answers[c.head:], func(a answer) bool { return a.sub == x })
}

// flush takes the changes of the names since the last request, sorted.
func (x *sub) flush(now time.Duration) (added, removed []string) {
	var gone []*entry
	for _, e := range x.dirty {
		e.queued = false
		switch {
		case !x.pending(e):
			if !e.wanted && !x.told(e) {
				gone = append(gone, e)
			}
		case e.wanted:
			if e.name == wildcard && !x.told(e) {
				x.until, x.settled = 2, false
			}
			added = append(added, e.name)
			x.tell(e)
		default:
			removed = append(removed, e.name)
			e.sent = 0
			gone = append(gone, e)
		}
	}
	clear(x.dirty)
	x.dirty, x.changes = x.dirty[:0], 0
	for _, e := range gone {
		delete(x.globs, e.name) // so that none covers what another covered too
	}
	for _, e := range gone {
		x.release(e)
	}
	slices.Sort(added)
	slices.Sort(removed)
	for _, name := range added {
		x.startTimer(now, x.names[name])
	}
	return added, removed
}

// merge makes a new list of a sorted one with others added and removed.
func merge(list, added, removed []string) []string {
	next := make([]string, 0, max(0, len(list)+len(added)-len(removed)))
	for len(list)+len(added) > 0 {
		if len(list) == 0 || len(added) > 0 && added[0] < list[0] {
			next = append(next, added[0])
			added = added[1:]
			continue
		}
		name := list[0]
		list = list[1:]
		for len(removed) > 0 && strings.Compare(removed[0], name) < 0 {
			removed = removed[1:]
		}
		if len(removed) == 0 || removed[0] != name {
			next = append(next, name)
		}
	}
	return next
}

func (x *sub) openDelta(now time.Duration, r *Request) {
	names := x.begin(now)
	for name, e := range x.names {
		if !e.held {
			continue // a version may be empty: the server still has to say if it is gone
		}
		if f := e.failure(); f != nil && f.flaw {
			continue // so that it comes again, and the server is told again
		}
		if r.Held == nil {
			r.Held = make(map[string]string, len(x.names))
		}
		r.Held[name] = e.version
	}
	if x.legacy(names) {
		return
	}
	x.named = true
	r.Subscribe = names
}

func (x *sub) nextDelta(now time.Duration, r *Request) {
	if x.changes > 0 {
		x.named = true
		r.Subscribe, r.Unsubscribe = x.flush(now)
	}
}
