package wire

import (
	"maps"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// Next returns the response that is due now, or nil. It counts as sent at
// once; the caller sends it before it asks again.
func (s *Stream) Next(now time.Time) *Response {
	if s.view == nil {
		return nil
	}
	for _, x := range s.subs {
		if r := x.next(now, false); r != nil {
			return r
		}
	}
	if !s.aggregated() {
		return nil
	}
	for _, x := range s.subs {
		if r := x.next(now, true); r != nil {
			return r
		}
	}
	s.endRollout()
	s.endResumption()
	return nil
}

// Deadline is when Next should be asked again although nothing has happened;
// zero if never. It holds once Next has returned nil.
func (s *Stream) Deadline() time.Time {
	var first time.Time
	for _, x := range s.subs {
		first = earlier(first, x.deadline())
	}
	return first
}

func (x *sub) deadline() time.Time {
	if !x.owes() {
		return time.Time{}
	}
	return x.until
}

// patience says whether what has waited since a time may be kept back now. If so,
// this look has to be repeated when that ends.
func (x *sub) patience(now, since time.Time) bool {
	end := since.Add(x.stream.cfg.Gate)
	if !end.After(now) {
		return false
	}
	x.until = earlier(x.until, end)
	return true
}

// earlier is the first of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (x *sub) windowFull() bool { return len(x.out) >= x.stream.cfg.Outstanding }

// next assembles the sub-stream's next response. Removals of what others may
// still use come in a round of their own, after everything else.
func (x *sub) next(now time.Time, removals bool) *Response {
	x.until = time.Time{}
	if x.due.len() == 0 && x.sweep == nil && !x.mustAnswer {
		x.since = time.Time{}
		return nil
	}
	if x.windowFull() || x.heldBack(now) {
		return nil
	}
	x.prepare()
	a := &assembly{x: x, now: now, removals: removals}
	if x.typ.FullState && x.stream.cfg.Variant == Sotw {
		return a.full()
	}
	r := a.partial()
	if r == nil && x.sweep != nil && !removals {
		return x.next(now, removals) // a sweep without content, to be repeated
	}
	return r
}

// prepare turns subscriptions that need the snapshot into due resources.
func (x *sub) prepare() {
	if len(x.pendingGlobs) > 0 {
		x.expandGlobs()
	}
	x.recheckHosts()
	if x.sweep == nil || x.sweep.set != nil {
		return
	}
	x.sweep.set = x.set()
	if v := x.skipVersion; v != "" {
		x.skipVersion = ""
		if v == x.sweep.set.Version() && !x.stream.cfg.AlwaysFirst {
			x.sweep, x.mustAnswer = nil, false
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.skip)) {
		if r := x.sweep.set.Get(name); r == nil || !x.covers(r) {
			x.oweRemoval(name)
		}
	}
}

// oweRemoval makes the removal due of a resource that the client may hold,
// though the subscription does not say so, and the snapshot lacks (XS-60).
func (x *sub) oweRemoval(name string) {
	o := x.due.find(name)
	if o == nil {
		o = x.owe(name, nil, x.stream.seq)
		o.force = true
	}
	o.former = o.former || x.heldFormerly(name)
}

// assembly is one response in the making.
type assembly struct {
	x        *sub
	now      time.Time
	removals bool

	resp Response
	sent Sent
	size int
	// late says that the gate's timer released something, answer that the
	// response is sent even if it holds nothing.
	late, answer bool

	// What was looked up once for the whole response.
	unsettled, unsettledUsers *uint64
	ofFormer                  *verdict

	inUse    usage
	withheld []span
}

// finish turns the assembly into a response, if there is anything to say.
func (a *assembly) finish() *Response {
	x := a.x
	empty := len(a.resp.Resources)+len(a.resp.Removed)+len(a.resp.Missing)+len(a.resp.Errors) == 0
	if empty && !a.answer && (!x.mustAnswer || x.sweep != nil) {
		return nil
	}
	if a.late {
		x.stream.released = append(x.stream.released, x.asked)
	}
	x.mustAnswer = false
	a.resp.TypeURL, a.resp.Nonce = x.asked, x.stream.nextNonce()
	if a.resp.Version == "" {
		a.resp.Version = x.set().Version()
	}
	a.sent.Nonce, a.sent.Version, a.sent.Time = a.resp.Nonce, a.resp.Version, a.now
	a.oldest(x.stream.seq)
	sent := a.sent
	x.out = append(x.out, &sent)
	x.lastNonce = a.resp.Nonce
	x.status.sent(&sent)
	resp := a.resp
	return &resp
}

// note records that a resource, or with nil a removal, is being sent.
func (a *assembly) note(o *owed, r *xds.Resource) {
	name := o.name
	if r != nil {
		name = r.Name()
	}
	a.sent.items = append(a.sent.items, sentItem{name: name, res: r, before: o.held, former: o.mayBeFormer(), refusal: o.refusal, leaving: o.leaving})
	a.oldest(o.seq)
	if r != nil {
		delete(a.x.reported, o.name)
		delete(a.x.reported, name)
		a.x.warm(o.seq, r)
	}
}

func (a *assembly) oldest(seq uint64) {
	if a.sent.minSeq == 0 || seq < a.sent.minSeq {
		a.sent.minSeq = seq
	}
}

// fail adds a resource error, once (XS-85).
func (a *assembly) fail(name string, st Status) {
	if a.x.reported[name] == st.Code {
		return
	}
	if a.x.reported == nil {
		a.x.reported = map[string]Code{}
	}
	a.x.reported[name] = st.Code
	a.resp.Errors = append(a.resp.Errors, NamedError{name, st})
	a.size += len(name) + len(st.Message) + envelopeSize
}

// envelopeSize is about what the tags and lengths around a name take.
const envelopeSize = 16

// missing is the error for a name that does not exist (XS-88).
func missing() Status { return Status{NotFound, "the resource does not exist"} }
