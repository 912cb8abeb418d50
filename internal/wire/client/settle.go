package client

import (
	"errors"
	"slices"
	"time"
)

// settle decides on the response and carries it out.
func (rc *reception) settle() *Rejection {
	c := rc.c
	var all error
	if len(rc.events) > 0 {
		if all = c.cfg.Checker.CheckAll(rc.r.TypeURL, rc.r.Version, rc.events); all != nil {
			rc.problems = append(rc.problems, Problem{Err: all})
		}
	}
	var rejection *Rejection
	if len(rc.problems) > 0 {
		rejection = newRejection(rc.problems, len(rc.r.Resources))
	}
	if all != nil || rejection != nil && c.cfg.WholeResponses {
		rc.discard(rejection)
	}
	// What goes, goes last: it may take along what else the response speaks of.
	for i := range rc.items {
		if rc.items[i].act != gone {
			rc.apply(&rc.items[i])
		}
	}
	for i := range rc.items {
		if it := &rc.items[i]; it.act == gone && rc.x.names[it.e.name] == it.e {
			rc.remove(it.e)
		}
	}
	rc.heard()
	return rejection
}

// discard turns everything that would change into rejections.
func (rc *reception) discard(why *Rejection) {
	for i := range rc.items {
		it := &rc.items[i]
		switch it.act {
		case change:
			ev := rc.events[it.ev]
			ev.Kind, ev.Value, ev.Err, ev.Body = Rejected, nil, why, nil
			it.act, it.ev = refuse, int32(len(rc.rejected))
			rc.rejected = append(rc.rejected, ev)
		case gone, heartbeat:
			it.act = keep
			it.raw = none
		}
	}
	rc.events = nil
}

func (rc *reception) apply(it *item) {
	e, x := it.e, rc.x
	if it.act != complain {
		x.setReceived(e, true)
	}
	switch it.act {
	case keep, change:
		if it.raw >= 0 {
			rc.hold(e, &rc.r.Resources[it.raw], it.act == change)
			if it.act == change {
				rc.events[it.ev].Body = e.body
			}
		}
	case heartbeat:
		rc.live(e, rc.r.Resources[it.raw].TTL)
	case refuse:
		rc.blame(it)
	case complain:
		if !e.held {
			rc.c.timers.stop(e)
		}
		e.fail(&failure{kind: ServerError, err: rc.errs[e], at: rc.now})
	}
}

// hold keeps a resource, a copy of its bytes: the response they came in is large.
func (rc *reception) hold(e *entry, raw *Raw, changed bool) {
	if !e.held {
		rc.c.timers.stop(e)
	}
	if changed || !e.held {
		e.body = slices.Clone(raw.Body)
	}
	e.plain = raw.Name == ""
	e.form, _ = formOf(raw.TypeURL, rc.r.TypeURL)
	if e.held, e.awaited, e.state, e.version = true, false, present, rc.version(raw); changed {
		e.updated = rc.now
	}
	e.fail(nil)
	rc.rename(e, raw.Aliases)
	rc.live(e, raw.TTL)
	if err := rc.flaws[e]; err != nil {
		e.fail(&failure{kind: Rejected, err: err, version: e.version, at: rc.now, flaw: true})
	}
}

// rename takes over the aliases of a resource.
func (rc *reception) rename(e *entry, aliases []string) {
	rc.x.unlink(e)
	e.setAliases(aliases)
	rc.x.link(e)
}

// live sets a resource's time to live (XT-03).
func (rc *reception) live(e *entry, ttl time.Duration) {
	if ttl > 0 {
		rc.c.timers.set(e, rc.now+ttl)
		return
	}
	rc.c.timers.stop(e)
}

// remove notes that something does not exist.
func (rc *reception) remove(e *entry) {
	x := rc.x
	rc.c.timers.stop(e)
	e.fail(nil)
	if x.isGlob(e.name) {
		e.state = missing // its members are removed one by one
		return
	}
	if r := x.links[e.name]; r != nil && r != e {
		delete(x.links, e.name)
		r.setAliases(without(r.aliases(), e.name))
		if !x.stands(r) {
			x.drop(r)
		}
	}
	x.vanish(e)
}

func without(list []string, name string) []string {
	var rest []string
	for _, s := range list {
		if s != name {
			rest = append(rest, s)
		}
	}
	return rest
}

// stands reports whether a resource is covered by something else than aliases
// that the server has just taken from it.
func (x *sub) stands(r *entry) bool {
	for _, a := range r.aliases() {
		if x.links[a] == r && x.active(x.names[a]) {
			return true
		}
	}
	return x.active(x.names[r.name]) || x.coveredOtherwise(r.name, nil)
}

// blame notes that a resource was refused.
func (rc *reception) blame(it *item) {
	e := it.e
	if !e.held {
		rc.c.timers.stop(e)
		if it.raw >= 0 {
			rc.rename(e, rc.r.Resources[it.raw].Aliases)
		}
	}
	if it.ev < 0 { // it is known
		if f := e.failure(); f != nil && it.raw >= 0 {
			f.version, f.at = rc.version(&rc.r.Resources[it.raw]), rc.now
		}
		return
	}
	ev := &rc.rejected[it.ev]
	f := &failure{kind: Rejected, err: ev.Err, version: ev.Version, at: rc.now, body: ev.Body, form: ev.Form}
	if _, whole := errors.AsType[*Rejection](ev.Err); whole {
		f.body = nil // it may be good by itself
	}
	e.fail(f)
}

// heard notes which collections an answer has come for.
func (rc *reception) heard() {
	x := rc.x
	if star := x.names[wildcard]; star != nil && x.told(star) {
		x.arrived(star)
	}
	for name, g := range x.globs {
		e := x.names[name]
		if e == nil || e.state == present {
			continue
		}
		for i := range rc.items {
			if it := &rc.items[i]; it.act != gone && it.act != complain && g.Covers(it.e.name) {
				x.arrived(e)
				break
			}
		}
	}
}
