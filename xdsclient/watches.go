package xdsclient

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/xebec-proxy/xebec/xds"
)

// addWatch is the event of a call of Watch.
func (s *Source) addWatch(d decoder, x *watch) {
	if x.cancelled.Load() {
		return
	}
	t, a, err := s.admit(d, x)
	if err != nil {
		e := &Error{Reason: ErrMisused, TypeURL: d.URL, Name: x.name, Node: s.node.GetId(), Err: err}
		s.calls = append(s.calls, call{x: x, kind: callError, name: x.name, err: e})
		return
	}
	x.added, x.t = true, t
	if x.responses {
		t.responders = append(t.responders, x)
	}
	switch {
	case a == nil: // there is an alternative
		s.calls = append(s.calls, call{x: x, kind: callError, name: x.name, err: s.errorOn(x, ErrMisused, nil, errNobody)})
	case collectionName(x.canonical):
		s.watchCollection(t, a, x)
	default:
		s.watchName(t, a, x)
	}
}

// admit finds the type and the authority of a watch.
func (s *Source) admit(d decoder, x *watch) (*typeState, *authority, error) {
	switch {
	case d.URL == "":
		return nil, nil, errors.New("the type has no URL")
	case x.name == "":
		return nil, nil, fmt.Errorf("the name is empty; %q is everything", Wildcard)
	case !s.cfg.Delta && d.DeltaOnly:
		return nil, nil, fmt.Errorf("%s exists in the delta variant only: set Config.Delta", d.API)
	case !s.cfg.Delta && x.name != Wildcard && collectionName(x.name):
		return nil, nil, errors.New("glob collections exist in the delta variant only: set Config.Delta")
	}
	t := s.types[d.URL]
	if t == nil {
		t = &typeState{decoder: d, entries: map[string]*entry{}, collections: map[string]*collection{}}
		s.types[d.URL] = t
	}
	if t.of != d.of {
		return nil, nil, fmt.Errorf("the source has decoded the type as %v before, and cannot as %v too",
			reflect.TypeOf(t.of).Elem(), reflect.TypeOf(d.of).Elem())
	}
	if err := x.parse(t.URL); err != nil {
		return nil, nil, err
	}
	if x.way != nil && d.direct {
		return nil, nil, errDirect
	}
	a, name, err := s.owner(t.Type, cmp.Or(x.canonical, x.name))
	if err != nil && (x.way == nil || x.way.alt == nil || !errors.Is(err, errNobody)) {
		return nil, nil, err
	}
	x.canonical = name
	return t, a, nil
}

// parse reads the directives of a name, and whether it is a list collection's.
func (x *watch) parse(typeURL string) error {
	if !xds.IsURN(x.name) || collectionName(x.name) {
		return nil
	}
	l, err := xds.ParseLocator(x.name)
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	x.canonical = l.URN.String()
	if l.Alt == nil && l.Entry == "" && !l.IsList() {
		return nil
	}
	if err := l.Check(typeURL, l.IsList()); err != nil {
		return err //nolint:wrapcheck // says it all
	}
	x.way = &way{origin: l.URN.Authority, entry: l.Entry, alt: l.Alt, list: l.IsList()}
	return nil
}

func (s *Source) watchName(t *typeState, a *authority, x *watch) {
	e := t.entries[x.canonical]
	if e == nil {
		e = &entry{name: x.canonical, auth: a}
		t.entries[e.name] = e
	}
	e.watches = append(e.watches, x)
	if len(e.watches) == 1 {
		s.subscribe(a, t, e.name)
	}
	s.greet(t, x, e, x.name)
	if e.u == nil && e.err == nil {
		if l := s.last(a, t); l.err != nil && !s.fallBack(a, l) {
			s.restoreOne(t, e, l)
			s.cutOff(l, t, e)
		}
	}
}

func (s *Source) watchCollection(t *typeState, a *authority, x *watch) {
	c := t.collections[x.canonical]
	if c == nil {
		c = &collection{name: x.canonical, auth: a}
		if x.canonical != Wildcard {
			c.urn, _ = xds.ParseURN(x.canonical)
		}
		t.collections[c.name] = c
	}
	c.watches = append(c.watches, x)
	if len(c.watches) == 1 {
		s.subscribe(a, t, c.name)
	}
	greeted := false
	for _, e := range t.entries {
		if e.u != nil && c.covers(e.name) {
			s.greet(t, x, e, e.name)
			greeted = true
		}
	}
	if greeted {
		s.calls = append(s.calls, call{x: x, kind: callSettled, final: true})
	}
	switch l := s.last(a, t); {
	case c.err != nil:
		s.calls = append(s.calls, call{x: x, kind: callError, name: x.name, err: c.err})
	case c.ambient != nil:
		s.calls = append(s.calls, call{x: x, kind: callAmbient, name: x.name, err: c.ambient})
	case !c.answered && l.err != nil && !s.fallBack(a, l):
		if s.restore(a, l); c.ambient == nil {
			s.collectionFailed(c, s.errorOf(l, t, c.name, ErrUnreachable, l.err))
		}
	}
}

// last is the link of the last server that an authority uses for a type.
func (s *Source) last(a *authority, t *typeState) *link {
	key := s.key(t.URL)
	servers := a.inUse(key)
	return s.link(servers[len(servers)-1], key)
}

// dropWatch is the event of a cancelled watch.
func (s *Source) dropWatch(typeURL string, x *watch) {
	t := s.types[typeURL]
	if t == nil || !x.added {
		return
	}
	t.responders = without(t.responders, x)
	s.dropWay(x)
	s.leave(x)
}

// leave takes a watch off what it watches.
func (s *Source) leave(x *watch) {
	t := x.t
	if c := t.collections[x.canonical]; c != nil {
		c.watches = without(c.watches, x)
		if len(c.watches) == 0 {
			s.unsubscribe(c.auth, t, c.name)
			delete(t.collections, c.name)
			for _, e := range t.entries {
				t.rest(e)
			}
		}
		return
	}
	e := t.entries[x.canonical]
	if e == nil {
		return
	}
	e.watches = without(e.watches, x)
	if len(e.watches) == 0 {
		s.unsubscribe(e.auth, t, e.name)
		t.rest(e)
	}
}

// rest puts an entry that nobody watches on the list of those to be forgotten:
// until the server has been told it is kept, since it may be wanted again
// (GC-37).
func (t *typeState) rest(e *entry) {
	if len(e.watches) == 0 && !t.kept(e) {
		t.idle = append(t.idle, e)
	}
}

// Await makes the next receipt of a resource a call of OnChange even if nothing
// has changed: for a parent that waits for its child to be sent again after it
// has changed itself, as a cluster for its endpoints (XC-41, XC-43). It has no
// effect on a resource that is not held.
func (s *Source) Await(typeURL, name string) {
	s.post(func() {
		e := s.entryOf(typeURL, name)
		if e == nil || e.u == nil {
			return
		}
		e.awaited = true
		for _, srv := range e.auth.inUse(s.key(typeURL)) {
			s.link(srv, s.key(typeURL)).ch.Await(typeURL, e.name)
		}
	})
}

// entryOf is what is known of a resource; nil if nothing is, or its name is bad.
func (s *Source) entryOf(typeURL, name string) *entry {
	t := s.types[typeURL]
	if t == nil {
		return nil
	}
	_, name, err := s.owner(t.Type, name)
	if err != nil {
		return nil
	}
	return t.entries[name]
}

// AskAgain asks for a resource that is watched once more: for a parent that waits
// for its child (see [Source.Await]) when the server does not send it by itself.
// In delta a server has to answer; in SotW it may.
func (s *Source) AskAgain(typeURL, name string) {
	s.post(func() {
		e := s.entryOf(typeURL, name)
		if e == nil || len(e.watches) == 0 {
			return
		}
		for _, srv := range e.auth.inUse(s.key(typeURL)) {
			l := s.link(srv, s.key(typeURL))
			l.ch.Repeat(typeURL, e.name)
			l.dirty = true
		}
	})
}
