package client

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// act is what a response means for one name.
type act uint8

const (
	keep      act = iota // the same as before
	change               // new content
	heartbeat            // only the time to live
	gone                 // does not exist
	refuse               // bad
	complain             // the server has an error for it
)

// item is one name of a response.
type item struct {
	e   *entry
	raw int32 // into Resources, or Errors for complain; else none or absent
	ev  int32 // into events; -1: none
	act act
	// same says that the bytes are those that are held.
	same bool
}

const (
	none   = -1
	absent = -2
)

// reception is the work on one response.
type reception struct {
	c   *Channel
	x   *sub
	r   *Response
	now time.Duration

	items []item
	// events are what changes, rejected what was refused, notes what else is to
	// be told.
	events, rejected, notes []Event
	problems                []Problem
	errs                    map[*entry]*Status
	flaws                   map[*entry]error // of what is held or to be held
	// blind says that the name of something could not be read, so that nothing
	// follows from an absence. matched counts the items received before.
	blind   bool
	matched int
	// next is what comes now if the order is that of the response before, last
	// what came just now; see predict. wild says that everything is asked for.
	next, last *entry
	wild       bool
}

// Receive takes a response. Its answer is due next. The cost is that of the
// resources in it; those that are held with the same bytes are not decoded.
// Receive does not wait for a full queue of answers: read the next response
// when Next has handed the answers out.
func (c *Channel) Receive(now time.Time, r *Response) Outcome {
	out := Outcome{TypeURL: r.TypeURL, Version: r.Version, Nonce: r.Nonce}
	x := c.subs[r.TypeURL]
	if !c.open || x == nil || !x.opened {
		out.Ignored = true
		return out
	}
	c.answered = true
	c.turn++
	rc := reception{c: c, x: x, r: r, now: c.since(now), items: c.scratch[:0]}
	rc.read()
	rc.judge()
	rejection := rc.settle()
	out.Events = slices.Concat(rc.events, rc.rejected, rc.notes)
	clear(rc.items)
	if c.scratch = rc.items[:0]; cap(c.scratch) > maxScratch {
		c.scratch = nil
	}
	x.answer(rc.now, r, rejection, len(rc.events) > 0)
	if rejection != nil {
		out.Err = rejection
	}
	return out
}

// maxScratch is how many items are kept to be used again.
const maxScratch = 1 << 14

// answer notes what is to be sent for a response.
func (x *sub) answer(now time.Duration, r *Response, rejection *Rejection, applied bool) {
	x.nonce = strings.Clone(r.Nonce)
	x.until = max(0, x.until-1)
	a := answer{sub: x, nonce: x.nonce}
	switch {
	case rejection != nil:
		a.problem = rejection.Error()
		x.rejection, x.rejected = rejection, now
		x.exact = x.exact && !applied
	default:
		x.version = strings.Clone(r.Version)
		x.rejection = nil
		if x.until == 0 && (x.typ.FullState || x.exact || !x.settled) {
			star := x.names[wildcard]
			x.exact = star != nil && x.told(star)
		}
	}
	x.settled = x.until == 0
	a.version = x.version
	x.ch.answers = append(x.ch.answers, a)
}

// read finds out what the response says of which name.
func (rc *reception) read() {
	rc.next, rc.wild = rc.x.first, rc.x.active(rc.x.names[wildcard])
	for i := range rc.r.Resources {
		rc.readResource(i, &rc.r.Resources[i])
	}
	if rc.c.cfg.Delta {
		for _, name := range rc.r.Removed {
			if e := rc.x.known(canonical(name)); e != nil {
				rc.add(e, none, gone)
			}
		}
	}
	rc.readErrors()
	if !rc.c.cfg.Delta && rc.x.typ.FullState && !rc.blind && rc.matched < rc.x.present {
		rc.readAbsent()
	}
}

func (rc *reception) readResource(i int, raw *Raw) {
	if e := rc.predict(raw); e != nil {
		rc.add(e, i, keep)
		rc.items[len(rc.items)-1].same = true
		rc.follow(e)
		return
	}
	name := raw.Name
	if name == "" && raw.HasBody {
		if raw.TypeURL != rc.r.TypeURL {
			rc.blindly(i, wrongType(raw.TypeURL, rc.r.TypeURL))
			return
		}
		var err error
		if name, err = rc.c.cfg.Checker.Name(raw.TypeURL, raw.Body); err == nil && name == "" {
			err = errors.New("the resource has no name")
		}
		if err != nil {
			rc.blindly(i, err)
			return
		}
	}
	name = canonical(name)
	if !raw.HasBody {
		rc.readBodiless(i, raw, name)
		return
	}
	e := rc.x.names[name]
	switch {
	case name == wildcard || rc.x.isGlob(name):
	case rc.x.covered(name, raw.Aliases):
		if e == nil {
			e = rc.x.make(strings.Clone(name))
		}
		rc.add(e, i, keep)
		rc.follow(e)
	case e != nil && e.held: // it has lost the alias that it was wanted by
		rc.add(e, none, gone)
	}
}

// readBodiless reads a resource without a body: a heartbeat, or word that there
// is none (XC-21, XT-05, XT-08).
func (rc *reception) readBodiless(i int, raw *Raw, name string) {
	e := rc.x.known(name)
	version := raw.Version
	if !rc.c.cfg.Delta {
		version = cmp.Or(version, rc.r.Version)
	}
	if e != nil && e.held && e.version == version && rc.r.TypeURL != xds.VirtualHostType {
		rc.add(e, i, heartbeat)
		return
	}
	if e != nil {
		rc.add(e, none, gone)
	}
	for _, a := range raw.Aliases {
		if al := rc.x.names[a]; al != nil && al != e {
			rc.add(al, none, gone)
		}
	}
}

func (rc *reception) blindly(i int, err error) {
	rc.blind = true
	rc.problems = append(rc.problems, Problem{Name: "#" + strconv.Itoa(i), Err: err})
}

// add notes what a name is in for. What is named twice is refused (XC-12).
func (rc *reception) add(e *entry, raw int, a act) {
	if e.name == wildcard {
		return
	}
	if e.seen == rc.c.turn {
		e.twice = true
		return
	}
	e.seen, e.twice = rc.c.turn, false
	if e.received {
		rc.matched++
	}
	rc.items = append(rc.items, item{e: e, raw: int32(raw), ev: -1, act: a})
}

// readErrors reads the server's errors. What the response says otherwise of a
// name comes first.
func (rc *reception) readErrors() {
	full := !rc.c.cfg.Delta && rc.x.typ.FullState
	for i := range rc.r.Errors {
		re := &rc.r.Errors[i]
		e := rc.x.names[canonical(re.Name)]
		if e == nil || re.Code == 0 || e.name == wildcard {
			continue
		}
		if rc.errs == nil {
			rc.errs = map[*entry]*Status{}
		}
		rc.errs[e] = &re.Status
		if e.seen == rc.c.turn || full && e.received && re.Code == CodeNotFound {
			continue
		}
		rc.add(e, i, complain)
	}
}

// readAbsent finds what a full state no longer holds (XC-15, GC-45).
func (rc *reception) readAbsent() {
	from := len(rc.items)
	for _, e := range rc.x.names {
		if e.received && e.seen != rc.c.turn {
			rc.add(e, absent, gone)
		}
	}
	slices.SortFunc(rc.items[from:], func(a, b item) int { return strings.Compare(a.e.name, b.e.name) })
}

// judge looks at everything that differs from what is held.
func (rc *reception) judge() {
	var leaving []string
	for i := range rc.items {
		if it := &rc.items[i]; it.act == gone && it.e.held && !it.e.twice {
			leaving = append(leaving, it.e.name)
		}
	}
	if leaving != nil {
		rc.c.cfg.Checker.Leaving(rc.r.TypeURL, leaving)
	}
	for i := range rc.items {
		it := &rc.items[i]
		switch {
		case it.e.twice:
			rc.refuse(it, nil, errors.New("named twice in one response"))
		case it.act == keep:
			rc.judgeBody(it)
		case it.act == gone:
			rc.judgeGone(it.e, rc.why(it.e, it.raw))
		case it.act == complain:
			rc.notes = append(rc.notes, Event{Kind: ServerError, Name: it.e.name, Aliases: it.e.aliases(), Err: rc.errs[it.e]})
		}
	}
}

func (rc *reception) judgeBody(it *item) {
	e, raw := it.e, &rc.r.Resources[it.raw]
	f := e.failure()
	form, ok := formOf(raw.TypeURL, rc.r.TypeURL)
	if !ok {
		rc.refuse(it, raw, wrongType(raw.TypeURL, rc.r.TypeURL))
		return
	}
	same := e.held && e.form == form && (it.same || bytes.Equal(e.body, raw.Body))
	if same && !f.refused() {
		rc.judgeSame(it, raw, f)
		return
	}
	var value any
	err := misplaced(rc.r.TypeURL, e.name, form)
	if err == nil {
		value, err = rc.c.cfg.Checker.Check(rc.r.TypeURL, e.name, rc.version(raw), form, raw.Body)
	}
	if flaw, partly := errors.AsType[*Flaw](err); partly {
		rc.flawed(e, flaw.Err)
		err = nil
	}
	switch {
	case err != nil && f.tells(form, raw.Body, err):
		it.act = refuse
		rc.problems = append(rc.problems, Problem{Name: e.name, Err: err})
	case err != nil:
		rc.refuse(it, raw, err)
	case same:
		rc.judgeSame(it, raw, f)
	default:
		it.act, it.ev = change, int32(len(rc.events))
		rc.events = append(rc.events, rc.event(Changed, it, value, nil))
	}
}

// judgeSame deals with a resource that has come as it is held.
func (rc *reception) judgeSame(it *item, raw *Raw, f *failure) {
	e := it.e
	cured := f != nil
	if cured && f.flaw {
		cured = false
		rc.flawed(e, f.err)
	}
	if e.awaited || cured || rc.x.answers(e, raw.Aliases) {
		ev := rc.event(Unchanged, it, nil, nil)
		ev.Body = e.body
		rc.notes = append(rc.notes, ev)
	}
}

// flawed notes what is bad in a resource that is used all the same.
func (rc *reception) flawed(e *entry, err error) {
	rc.problems = append(rc.problems, Problem{Name: e.name, Err: err})
	if rc.flaws == nil {
		rc.flaws = map[*entry]error{}
	}
	rc.flaws[e] = err
}

// event makes an event of a resource in the response.
func (rc *reception) event(k Kind, it *item, value any, err error) Event {
	raw := &rc.r.Resources[it.raw]
	form, _ := formOf(raw.TypeURL, rc.r.TypeURL)
	return Event{
		Kind: k, Form: form, Name: it.e.name, Aliases: raw.Aliases, Version: rc.version(raw), Body: raw.Body, Value: value, Err: err,
	}
}

// version is a resource's own version, or in SotW the response's.
func (rc *reception) version(raw *Raw) string {
	if rc.c.cfg.Delta {
		return raw.Version
	}
	return cmp.Or(raw.Version, rc.r.Version)
}

func (rc *reception) refuse(it *item, raw *Raw, err error) {
	it.act = refuse
	rc.problems = append(rc.problems, Problem{Name: it.e.name, Err: err})
	ev := Event{Kind: Rejected, Name: it.e.name, Aliases: it.e.aliases(), Version: rc.r.Version, Err: err}
	if raw != nil {
		ev = rc.event(Rejected, it, nil, err)
		ev.Body = slices.Clone(raw.Body)
	}
	it.ev = int32(len(rc.rejected))
	rc.rejected = append(rc.rejected, ev)
}

// why is the reason that something does not exist.
func (rc *reception) why(e *entry, raw int32) error {
	if st := rc.errs[e]; st != nil {
		return st
	}
	if !rc.c.cfg.Delta && raw == absent {
		return ByAbsence
	}
	return ByRemoval
}

func (rc *reception) judgeGone(e *entry, why error) {
	if !e.held && e.failure() == nil && (!e.wanted || e.state == missing) {
		return
	}
	if rc.x.isGlob(e.name) && rc.x.hasMembers(e.name) {
		return
	}
	rc.events = append(rc.events, Event{Kind: Missing, Name: e.name, Aliases: e.aliases(), Version: e.version, Err: why})
}

func wrongType(got, want string) error {
	return fmt.Errorf("type %q in a response of type %q", got, want)
}
