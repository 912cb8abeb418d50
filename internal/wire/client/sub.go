package client

import (
	"slices"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// sub is the subscription to one type, and what is held of it.
type sub struct {
	ch    *Channel
	typ   xds.Type
	names map[string]*entry
	// links leads from aliases to the resources held that have them.
	links map[string]*entry
	// shared says that two resources have had an alias in common, so that links do
	// not tell all that an alias covers.
	shared bool
	globs  map[string]xds.URN
	// wanted counts the entries that are, present those that were received.
	wanted, present int
	// first is what came first in the last response.
	first *entry
	// list is the names of the last SotW request, sorted; shared with requests.
	list []string
	// shed holds the names that SotW requests have left out since the last answer.
	// If one of these crossed a response the server has ignored it (XS-20).
	shed map[string]struct{}
	// dirty holds the entries of which the server is to be told something, and
	// some more; changes counts those.
	dirty   []*entry
	changes int

	// Of the stream: whether the type was requested, whether a name was given
	// (so that empty lists no longer mean the wildcard), the newest nonce, and
	// how many responses until one surely holds the wildcard's state.
	opened, named bool
	// sure says that the server knows that a name was given: it has not ignored
	// all requests that did. hollow says that a request without names is due to
	// follow one that named the wildcard only in order to leave it.
	sure, hollow bool
	nonce        string
	until        int
	// repeat says that a SotW request is due that says nothing new.
	repeat bool

	// version is that of the last SotW response accepted. exact says that what
	// is held by the wildcard is that and nothing else.
	version string
	exact   bool
	// settled says that a response for the names of the stream's first request
	// has come.
	settled bool

	rejection *Rejection
	rejected  time.Duration
}

func (x *sub) told(e *entry) bool { return x.opened && e.sent == x.ch.epoch }

// pending reports whether the server is to be told something of an entry.
func (x *sub) pending(e *entry) bool {
	return x.opened && (e.wanted != x.told(e) || e.wanted && e.again)
}

// due reports whether there is something to be requested.
func (x *sub) due() bool {
	if !x.opened {
		return x.wanted > 0
	}
	return x.changes > 0 || x.hollow || x.repeat
}

// make returns the entry of a name.
func (x *sub) make(name string) *entry {
	e := x.names[name]
	if e == nil {
		e = &entry{sub: x, name: name}
		x.names[name] = e
	}
	return e
}

func (x *sub) subscribe(name string) {
	e := x.make(name)
	if e.wanted {
		return
	}
	before := x.pending(e)
	if !x.told(e) {
		if !e.held {
			e.state = requested
			e.fail(nil)
		}
		x.enter(e)
	}
	e.wanted = true
	x.wanted++
	e.again = x.ch.cfg.Delta && x.told(e)
	e.awaited = e.held
	if r := x.links[name]; r != nil && !e.held {
		e.state, r.awaited = present, true
	}
	x.note(e, before)
}

// enter prepares for a name that is new to the server.
func (x *sub) enter(e *entry) {
	if e.name == wildcard {
		x.exact = false
	} else if x.ch.cfg.Delta {
		if u, ok := parseGlob(e.name); ok {
			if x.globs == nil {
				x.globs = map[string]xds.URN{}
			}
			x.globs[e.name] = u
		}
	}
}

func (x *sub) unsubscribe(name string) {
	e := x.names[name]
	if e == nil || !e.wanted {
		return
	}
	before := x.pending(e)
	e.wanted, e.again = false, false
	x.wanted--
	x.note(e, before)
	switch {
	case !x.opened && !e.held && !x.leads(name):
		x.release(e)
	case x.opened && !x.told(e) && !e.queued:
		e.queued = true
		x.dirty = append(x.dirty, e)
	}
	if !x.told(e) {
		x.ch.loose = true // the server need not be told
	}
}

// leads reports whether other resources are held because of a name.
func (x *sub) leads(name string) bool {
	return name == wildcard || x.isGlob(name) || x.links[name] != nil
}

// note counts an entry among the changes and queues it for the next request.
func (x *sub) note(e *entry, before bool) {
	after := x.pending(e)
	switch {
	case after && !before:
		x.changes++
	case before && !after:
		x.changes--
	}
	if !after || e.queued {
		return
	}
	if len(x.dirty) >= 64 && len(x.dirty) > 2*x.changes {
		x.tidy()
	}
	e.queued = true
	x.dirty = append(x.dirty, e)
}

// tidy takes out the queued entries that the server need not be told of.
func (x *sub) tidy() {
	x.dirty = slices.DeleteFunc(x.dirty, func(e *entry) bool {
		if x.pending(e) {
			return false
		}
		e.queued = false
		if !e.wanted && !x.told(e) {
			x.release(e)
		}
		return true
	})
}

// release drops an entry that neither is wanted nor covered, with what it led
// to. The server no longer thinks that it is wanted.
func (x *sub) release(e *entry) {
	if x.names[e.name] != e {
		return // the server has removed it before
	}
	if _, glob := parseGlob(e.name); e.name == wildcard || glob && x.ch.cfg.Delta {
		delete(x.globs, e.name)
		x.ch.timers.stop(e)
		delete(x.names, e.name)
		x.sweep()
		return
	}
	if r := x.links[e.name]; r != nil && r != e && !x.covered(r.name, r.aliases()) {
		x.drop(r)
	}
	if !e.held || !x.covered(e.name, e.aliases()) {
		x.drop(e)
	}
	if x.shared {
		x.sweep()
	}
}

// sweep drops everything that the subscription does not cover.
func (x *sub) sweep() {
	for _, e := range x.names {
		if !e.wanted && !x.told(e) && !e.queued && !x.covered(e.name, e.aliases()) {
			x.drop(e)
		}
	}
}

// drop forgets an entry.
func (x *sub) drop(e *entry) {
	x.lose(e)
	x.ch.timers.stop(e)
	e.fail(nil)
	delete(x.names, e.name)
}

// lose forgets what is held of a resource.
func (x *sub) lose(e *entry) {
	x.unlink(e)
	if e.held {
		x.ch.timers.stop(e)
	}
	e.held, e.plain, e.awaited, e.version, e.body, e.next = false, false, false, "", nil, nil
	e.form = Plain
	x.setReceived(e, false)
}

func (x *sub) setReceived(e *entry, on bool) {
	if e.received == on || x.ch.cfg.Delta {
		return
	}
	e.received = on
	if on {
		x.present++
	} else {
		x.present--
	}
}

// link notes the names that a resource has beside its own.
func (x *sub) link(e *entry) {
	for _, a := range e.aliases() {
		if a == e.name {
			continue
		}
		if x.links == nil {
			x.links = map[string]*entry{}
		}
		x.shared = x.shared || x.links[a] != nil && x.links[a] != e
		x.links[a] = e
		if al := x.names[a]; x.active(al) {
			al.fail(nil)
			x.arrived(al)
		}
	}
}

// answers reports whether an alias is asked for that a resource held had not.
func (x *sub) answers(e *entry, aliases []string) bool {
	for _, a := range aliases {
		if al := x.names[a]; a != e.name && x.active(al) && al.state != present {
			return true
		}
	}
	return false
}

// unlink forgets a resource's other names.
func (x *sub) unlink(e *entry) {
	for _, a := range e.aliases() {
		if x.links[a] == e {
			delete(x.links, a)
		}
	}
	e.setAliases(nil)
}

// arrived notes that there is an answer to a name.
func (x *sub) arrived(e *entry) {
	e.state = present
	if !e.held {
		x.ch.timers.stop(e)
	}
}

// active reports whether the server is to send what an entry stands for: it is
// wanted, or the server does not know yet that it no longer is (GC-37).
func (x *sub) active(e *entry) bool { return e != nil && (e.wanted || x.told(e)) }

// covered reports whether the subscription includes a resource.
func (x *sub) covered(name string, aliases []string) bool {
	return x.active(x.names[name]) || x.coveredOtherwise(name, aliases)
}

func (x *sub) coveredOtherwise(name string, aliases []string) bool {
	if x.active(x.names[wildcard]) {
		return true
	}
	for _, a := range aliases {
		if x.active(x.names[a]) {
			return true
		}
	}
	for _, g := range x.globs {
		if g.Covers(name) {
			return true
		}
	}
	return false
}

// known returns the entry of a name that a response may speak of, though it
// need not exist; nil for one that nobody asked for.
func (x *sub) known(name string) *entry {
	e := x.names[name]
	if e == nil && name != "" && x.coveredOtherwise(name, nil) {
		e = x.make(strings.Clone(name))
	}
	return e
}

func (x *sub) isGlob(name string) bool {
	_, ok := x.globs[name]
	return ok
}

// hasMembers reports whether a resource of a glob collection is held.
func (x *sub) hasMembers(glob string) bool {
	g := x.globs[glob]
	for name, e := range x.names {
		if e.held && g.Covers(name) {
			return true
		}
	}
	return false
}

// parseGlob reads a name that is a glob collection (XN-05).
func parseGlob(name string) (xds.URN, bool) {
	if !xds.IsURN(name) {
		return xds.URN{}, false
	}
	u, err := xds.ParseURN(name)
	return u, err == nil && u.IsGlob()
}

// canonical is the form of a name by which equal names are equal strings
// (XN-01, GC-60).
func canonical(name string) string {
	if !xds.IsURN(name) {
		return name
	}
	u, err := xds.ParseURN(name)
	if err != nil {
		return name
	}
	return u.String()
}
