package xdsclient

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// watch is one call of Watch.
type watch struct {
	t         *typeState
	name      string // as it was asked for
	canonical string // of the resource, without directives
	way       *way   // nil if the resource by this name is what it is told of
	sink      sink
	responses bool // it wants to know of responses
	cancelled atomic.Bool
	added     bool
}

// typeState is what a source holds of a type.
type typeState struct {
	decoder
	entries     map[string]*entry
	collections map[string]*collection
	responders  []*watch
	idle        []*entry // without watches, to be forgotten when the server knows
	refused     []*entry // members of collections that were never held, in SotW
}

// entry is one resource, held or wanted.
type entry struct {
	name    string
	auth    *authority
	watches []*watch

	// u is the value, nil if there is none; then err says why, or is nil while
	// nothing is known.
	u       *update
	err     *Error
	ambient *Error
	awaited bool // a repetition is to be told
	deleted bool // kept although the server has deleted it
	updated time.Time
}

// collection is a wildcard or glob that is watched.
type collection struct {
	name    string
	auth    *authority
	urn     xds.URN // of a glob
	watches []*watch
	// answered: a response has come since, or an error said that there is none.
	answered bool
	err      *Error
	ambient  *Error
}

func (c *collection) covers(name string) bool {
	if c.name == Wildcard {
		return !xds.IsURN(name)
	}
	return xds.IsURN(name) && c.urn.Covers(name)
}

func (t *typeState) covered(name string) bool {
	for _, c := range t.collections {
		if len(c.watches) > 0 && c.covers(name) {
			return true
		}
	}
	return false
}

// unknown reports whether nothing has been heard of the resource that anybody
// waits for.
func (e *entry) unknown() bool {
	return len(e.watches) > 0 && e.u == nil && (e.err == nil || e.err.is(ErrUnreachable))
}

// tell queues a callback for everyone concerned by an entry.
func (s *Source) tell(t *typeState, e *entry, c call, members bool) {
	c.name = e.name
	for _, x := range e.watches {
		c.x, c.name = x, x.name
		s.calls = append(s.calls, c)
	}
	if !members {
		return
	}
	for _, col := range t.collections {
		if len(col.watches) > 0 && col.covers(e.name) {
			for _, x := range col.watches {
				c.x, c.name = x, e.name
				s.calls = append(s.calls, c)
			}
			if c.kind == callChange { // it has a member
				col.answered, col.err = true, nil
			}
		}
	}
}

// set gives an entry a value.
func (s *Source) set(t *typeState, e *entry, u *update) {
	same := e.u != nil && e.u.form == u.form && bytes.Equal(e.u.body, u.body)
	if same && !t.brief {
		u.value = e.u.value
	}
	same = same && !e.awaited
	e.u, e.err, e.awaited = t.keep(u), nil, false
	if e.deleted {
		e.deleted = false
		s.cfg.Logger.Info("a deleted resource is back", "type", t.Kind, "resource", e.name, "server", u.server)
	}
	if same {
		s.clearAmbient(t, e)
		return
	}
	e.ambient = nil
	e.updated = time.Now()
	s.tell(t, e, call{kind: callChange, u: t.whole(u)}, true)
}

// keep is what is kept of a value.
func (t *typeState) keep(u *update) *update {
	if !t.brief {
		return u
	}
	kept := *u
	kept.value = nil
	if kept.list != nil {
		kept.list = kept.list.brief()
	}
	return &kept
}

// whole is what was kept, with its value again.
func (t *typeState) whole(u *update) *update {
	if !t.brief || u.value != nil || u.form != client.Plain {
		return u
	}
	v, err := t.read(u.name, u.body)
	if err != nil {
		return u // it could be read before
	}
	again := *u
	again.value = v
	return &again
}

// fail takes an entry's value away.
func (s *Source) fail(t *typeState, e *entry, err *Error) {
	known := e.u != nil || e.err.is(ErrRejected) // to those who watch collections
	e.u, e.ambient, e.err = nil, nil, err
	s.tell(t, e, call{kind: callError, err: err}, known || err.is(ErrRejected))
	switch {
	case len(e.watches) > 0:
	case err.is(ErrRejected):
		if !s.cfg.Delta { // which says what is removed
			t.refused = append(t.refused, e)
		}
	default:
		delete(t.entries, e.name)
	}
}

// warn raises an ambient error beside a value.
func (s *Source) warn(t *typeState, e *entry, err *Error) {
	same := e.ambient != nil && e.ambient.Error() == err.Error()
	e.ambient = err
	if same {
		return
	}
	s.tell(t, e, call{kind: callAmbient, err: err}, true)
}

func (s *Source) clearAmbient(t *typeState, e *entry) {
	if e.ambient == nil {
		return
	}
	e.ambient = nil
	s.tell(t, e, call{kind: callAmbient}, true)
}

// greet tells a new watch what is known of an entry.
func (s *Source) greet(t *typeState, x *watch, e *entry, name string) {
	switch {
	case e.u != nil:
		s.calls = append(s.calls, call{x: x, kind: callChange, name: name, u: t.whole(e.u)})
		if e.ambient != nil {
			s.calls = append(s.calls, call{x: x, kind: callAmbient, name: name, err: e.ambient})
		}
	case e.err != nil:
		s.calls = append(s.calls, call{x: x, kind: callError, name: name, err: e.err})
	}
}

func (s *Source) collectionFailed(c *collection, err *Error) {
	kind := callError
	if c.answered && err.is(ErrUnreachable) {
		kind = callAmbient
		c.ambient = err
	} else {
		c.err = err
	}
	for _, x := range c.watches {
		s.calls = append(s.calls, call{x: x, kind: kind, name: x.name, err: err})
	}
}

// collectionAnswered ends errors of a collection as a whole.
func (s *Source) collectionAnswered(c *collection) {
	c.answered, c.err = true, nil
	if c.ambient == nil {
		return
	}
	c.ambient = nil
	for _, x := range c.watches {
		s.calls = append(s.calls, call{x: x, kind: callAmbient, name: x.name})
	}
}

// kept reports whether a collection keeps an entry that nobody watches: a member,
// which neither a name of nothing is nor an alias.
func (t *typeState) kept(e *entry) bool {
	if e.u == nil && (e.err == nil || e.err.is(ErrMissing)) || e.u != nil && e.u.name != e.name {
		return false
	}
	return t.covered(e.name)
}

// forgetIdle drops entries that nobody watches, once the server has been told.
func (t *typeState) forgetIdle() {
	for _, e := range t.idle {
		if len(e.watches) == 0 && !t.kept(e) && t.entries[e.name] == e {
			delete(t.entries, e.name)
		}
	}
	t.idle = nil
}

// forgetRefused drops members of collections that were invalid and that an
// accepted response has made good or does not hold.
func (t *typeState) forgetRefused() {
	for _, e := range t.refused {
		if e.u == nil && len(e.watches) == 0 && t.entries[e.name] == e {
			delete(t.entries, e.name)
		}
	}
	t.refused = nil
}

func without(list []*watch, x *watch) []*watch {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
