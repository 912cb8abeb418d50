package xdsclient

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// maxRedirects is how many redirects lead from a name to a resource (XN-10).
const maxRedirects = 8

// way is how a watch gets to what it is told of if that is not the resource by its
// name: an entry or all of a list collection, what a redirect leads to, or an
// alternative. For each step the source watches by itself, for the watch before.
type way struct {
	// of is whom the source watches for; nil for a watch of the program's.
	of   *watch
	role role
	as   string // of a member: its name in the collection
	// redirects is how many have led here, origin the authority that the program
	// has named, locator where this step leads.
	redirects int
	origin    string
	locator   string

	entry string       // the entry of a list collection that is wanted, if one is
	list  bool         // all of a list collection is wanted
	alt   *xds.Locator // whom to ask if nobody can be reached

	next    *watch // where a redirect leads
	other   *watch // the alternative that is in use
	members map[string]*member
	// Of a list: that it has come, and all of it; and which members the program was
	// told of, which is kept where the program's watch is.
	listed, settled bool
	told            map[string]*update
	sole            member // the entry that is wanted
}

// role is what a step is to the one before.
type role uint8

const (
	redirected role = iota
	alternative
	memberOf
)

// member is what was told of a member of a collection.
type member struct {
	hop   *watch // of one that is elsewhere
	u     *update
	err   error
	known bool
}

// led reports whether a call is not for the program as it is.
func (c *call) led() bool {
	return !c.final && (c.x.way != nil || c.kind == callChange && c.u.form != client.Plain)
}

// lead makes of the calls that watches of the source's own are due, and those for
// watches that are led elsewhere, the calls of the program's watches.
func (s *Source) lead() {
	for i := range s.calls {
		if s.calls[i].led() {
			all := s.calls
			s.calls = append(s.leadAll(all[i:], append([]call(nil), all[:i]...)), s.settled...)
			s.settled = nil
			return
		}
	}
}

func (s *Source) leadAll(in, out []call) []call {
	for i := range in {
		switch c := in[i]; {
		case c.x.cancelled.Load():
		case !c.led():
			out = append(out, c)
		default:
			s.calls = nil
			s.take(c)
			out = s.leadAll(s.calls, out)
		}
	}
	s.calls = nil
	return out
}

// take works off one call.
func (s *Source) take(c call) {
	switch {
	case c.kind == callResponse:
		s.upward(c)
	case collectionName(c.x.canonical):
		s.takeOfCollection(c)
	default:
		s.takeOwn(c)
	}
}

// wayOf is a watch's way, which begins if there was none.
func (x *watch) wayOf() *way {
	if x.way == nil {
		x.way = &way{origin: authorityOf(x.canonical)}
	}
	return x.way
}

func authorityOf(name string) string {
	if !xds.IsURN(name) {
		return ""
	}
	u, _ := xds.ParseURN(name)
	return u.Authority
}

// takeOfCollection works off a call of a wildcard's or glob's watch: a member may be
// redirected.
func (s *Source) takeOfCollection(c call) {
	w := c.x.wayOf()
	c.member = c.name != c.x.name
	switch {
	case c.member && c.kind == callChange && c.u.form == client.Redirect:
		s.memberAt(c.x, c.name, *c.u.to)
		return
	case c.member && c.kind == callChange && c.u.form == client.List:
		return // a server's that sends more than it was asked for
	case c.member && c.kind != callAmbient:
		if m := w.members[c.name]; m != nil {
			s.dropStep(m.hop)
			delete(w.members, c.name)
		}
	}
	s.upward(c)
}

// takeOwn works off a call about what the watch names.
func (s *Source) takeOwn(c call) {
	x := c.x
	w := x.wayOf()
	switch c.kind {
	case callChange:
		s.dropStep(w.other)
		w.other = nil
		s.arrive(c)
	case callError:
		if w.alt != nil && insteadOf(c.err) {
			if w.other == nil {
				w.other = s.step(x, alternative, *w.alt, way{})
			}
			return
		}
		s.dropSteps(w)
		w.sole = member{}
		if w.list {
			s.loseMembers(x, nil)
		}
		s.upward(c)
	case callAmbient:
		s.upward(c)
	case callResponse, callSettled:
	}
}

// insteadOf reports whether an error is one for which there are alternatives: nobody
// can be reached (XN-11).
func insteadOf(err error) bool { return errors.Is(err, ErrUnreachable) || errors.Is(err, errNobody) }

// arrive works off what was found under the watch's name.
func (s *Source) arrive(c call) {
	x, w := c.x, c.x.way
	if c.u.form == client.Redirect {
		if w.next != nil && w.next.way.locator == c.u.to.String() {
			s.again(w.next)
			return
		}
		s.dropStep(w.next)
		w.next = s.step(x, redirected, *c.u.to, way{redirects: w.redirects + 1, entry: w.entry})
		return
	}
	s.dropStep(w.next)
	w.next = nil
	switch {
	case c.u.form == client.Plain:
		s.upward(c)
	case w.entry != "":
		s.entry(x, c.u)
	default:
		s.list(x, c.u)
	}
}

// entry tells of the entry of a list collection that is wanted.
func (s *Source) entry(x *watch, u *update) {
	w := x.way
	e := u.list.find(w.entry)
	if e == nil {
		err := fmt.Errorf("the list collection has no entry %q", w.entry)
		if w.sole.err == nil || w.sole.u != nil {
			s.upward(call{x: x, kind: callError, err: s.errorOn(x, ErrMissing, u, err)})
		}
		w.sole = member{err: err}
		return
	}
	s.inline(x, &w.sole, e, u, call{x: x})
}

// list tells of the members of a list collection.
func (s *Source) list(x *watch, u *update) {
	w := x.way
	w.listed = true
	now := u.list.byName()
	if w.members == nil {
		w.members = map[string]*member{}
	}
	for _, e := range u.list.entries {
		if e.to != nil {
			s.memberAt(x, e.name, *e.to)
			continue
		}
		m := w.members[e.name]
		if m == nil || m.hop != nil {
			if m != nil {
				s.dropStep(m.hop)
			}
			m = &member{}
			w.members[e.name] = m
		}
		m.known = true
		s.inline(x, m, e, u, call{x: x, name: e.name, member: true})
	}
	s.loseMembers(x, now)
	s.settleList(x)
}

// inline tells what is new of an inline entry; c is the call to be filled in.
func (s *Source) inline(x *watch, m *member, e *listed, u *update, c call) {
	before := *m
	m.u, m.err = e.u, e.err
	switch {
	case e.u == nil:
		if before.u != nil || before.err == nil || before.err.Error() != e.err.Error() {
			c.kind, c.err = callError, s.errorOn(x, ErrRejected, u, e.err)
			s.upward(c)
		}
		return
	case before.u == nil || !bytes.Equal(before.u.body, e.u.body):
		c.kind, c.u = callChange, x.t.whole(e.u)
		s.upward(c)
		before.err = nil
	}
	switch {
	case e.err != nil && (before.err == nil || before.err.Error() != e.err.Error()):
		c.kind, c.u, c.err = callAmbient, nil, s.errorOn(x, ErrRejected, u, e.err)
		s.upward(c)
	case e.err == nil && before.err != nil:
		c.kind, c.u, c.err = callAmbient, nil, nil
		s.upward(c)
	}
}

// memberAt follows a member of a collection that is elsewhere.
func (s *Source) memberAt(x *watch, name string, to xds.Locator) {
	w := x.wayOf()
	if w.members == nil {
		w.members = map[string]*member{}
	}
	m := w.members[name]
	if m != nil && m.hop != nil && m.hop.way.locator == to.String() {
		if !w.list {
			s.again(m.hop)
		}
		return
	}
	if m != nil {
		s.dropStep(m.hop)
	}
	n := way{as: name, redirects: w.redirects}
	if !w.list {
		n.redirects++
	}
	m = &member{}
	w.members[name] = m
	m.hop = s.step(x, memberOf, to, n)
}

// loseMembers gives up the members of a list that are not in it now, and tells that
// they are gone. Until a list has come, those of the one before it stay.
func (s *Source) loseMembers(x *watch, now map[string]*listed) {
	for name, m := range x.way.members {
		if now[name] == nil {
			s.dropStep(m.hop)
			delete(x.way.members, name)
		}
	}
	root := x.root()
	for _, name := range slices.Sorted(maps.Keys(root.way.told)) {
		if now[name] == nil {
			s.upward(call{x: root, kind: callError, name: name, member: true, err: s.errorOn(x, ErrMissing, nil, errNotListed)})
		}
	}
}

var errNotListed = errors.New("the list collection does not hold it")

// root is the watch that a step of a list collection is for.
func (x *watch) root() *watch {
	for x.way.of != nil {
		x = x.way.of
	}
	return x
}

// settleList notes that something is known of every member of a list.
func (s *Source) settleList(x *watch) {
	w := x.way
	root := x.root()
	if !w.listed || root.way.settled {
		return
	}
	for _, m := range w.members {
		if !m.known {
			return
		}
	}
	root.way.settled = true
	s.settled = append(s.settled, call{x: root, kind: callSettled, final: true})
}

// upward hands a call to the watch that its own is for.
func (s *Source) upward(c call) {
	w := c.x.wayOf()
	if w.of == nil {
		s.deliverTo(c)
		return
	}
	p := w.of
	step := c.x
	c.x = p
	switch {
	case w.role == memberOf:
		c.member, c.name = true, w.as
		c.u = renamed(c.u, w.as)
		if m := p.way.members[w.as]; m != nil && m.hop == step && c.kind != callAmbient {
			m.known = true
		}
		s.upward(c)
		if p.way.list {
			s.settleList(p)
		}
		return
	case !c.member:
		c.name = p.name
	}
	s.upward(c)
}

// deliverTo makes a call final: it is the program's.
func (s *Source) deliverTo(c call) {
	x := c.x
	w := x.way
	if !c.member {
		c.name = x.name
		if !collectionName(x.canonical) {
			c.u = renamed(c.u, x.known())
		}
	}
	if w.list && c.member {
		switch c.kind {
		case callChange:
			if before := w.told[c.name]; before != nil && bytes.Equal(before.body, c.u.body) {
				return // the list has moved, and holds the same
			}
			if w.told == nil {
				w.told = map[string]*update{}
			}
			w.told[c.name] = x.t.keep(c.u)
		case callError:
			delete(w.told, c.name)
		case callAmbient, callResponse, callSettled:
		}
	}
	c.final = true
	s.calls = append(s.calls, c)
}

// known is what a watch of one resource knows it by.
func (x *watch) known() string {
	if x.way != nil && x.way.entry != "" {
		return x.canonical + "#entry=" + x.way.entry
	}
	return x.canonical
}

// renamed is an update under the name that it is asked for by.
func renamed(u *update, name string) *update {
	if u == nil || u.name == name {
		return u
	}
	n := *u
	if n.found == "" {
		n.found = u.name
	}
	n.name = name
	return &n
}

// step begins to watch where a locator leads, for another watch.
func (s *Source) step(of *watch, r role, l xds.Locator, w way) *watch {
	p := of.wayOf()
	w.of, w.role, w.origin, w.locator, w.alt = of, r, p.origin, l.String(), l.Alt
	if w.redirects == 0 {
		w.redirects = p.redirects
	}
	if l.Entry != "" {
		w.entry = l.Entry
	}
	if r == alternative && w.entry == "" && l.URN.IsListCollection() {
		w.entry = p.entry
	}
	w.list = l.URN.IsListCollection() && w.entry == ""
	x := &watch{t: of.t, name: l.String(), canonical: l.URN.String(), way: &w}
	if err := s.enter(x, l); err != nil {
		s.calls = append(s.calls, call{x: x, kind: callError, err: err})
	}
	return x
}

// enter puts a watch of the source's own onto the resource that it names.
func (s *Source) enter(x *watch, l xds.Locator) *Error {
	if x.way.redirects > maxRedirects {
		return s.errorOn(x, ErrRedirect, nil, fmt.Errorf("more than %d lead on, at last to %s", maxRedirects, x.name))
	}
	a, _, err := s.owner(x.t.Type, x.canonical)
	if err == nil && s.cfg.AnyAuthority && s.authorities[l.URN.Authority] == nil && l.URN.Authority != x.way.origin {
		err = fmt.Errorf("%w for the authority %q of %s, which this source is not for", errNobody, l.URN.Authority, x.name)
	}
	if err != nil {
		return s.errorOn(x, ErrMisused, nil, err)
	}
	x.added = true
	s.watchName(x.t, a, x)
	return nil
}

// again tells a step once more what it was told, for who waits for a repetition.
func (s *Source) again(x *watch) {
	if e := x.t.entries[x.canonical]; e != nil {
		s.greet(x.t, x, e, x.name)
	}
	if x.way.other != nil {
		s.again(x.way.other)
	}
}

func (s *Source) dropSteps(w *way) {
	s.dropStep(w.next)
	s.dropStep(w.other)
	w.next, w.other = nil, nil
}

// dropStep ends a watch of the source's own and all that it has led to.
func (s *Source) dropStep(x *watch) {
	if x == nil {
		return
	}
	x.cancelled.Store(true)
	s.dropWay(x)
	if x.added {
		s.leave(x)
	}
}

func (s *Source) dropWay(x *watch) {
	if x.way == nil {
		return
	}
	s.dropSteps(x.way)
	for _, m := range x.way.members {
		s.dropStep(m.hop)
	}
	x.way.members = nil
}

// errorOn is an error of a watch; u is what it follows from, if anything does.
func (s *Source) errorOn(x *watch, reason error, u *update, err error) *Error {
	e := &Error{Reason: reason, TypeURL: x.t.URL, Name: x.name, Node: s.node.GetId(), Err: err, at: time.Now()}
	if u != nil {
		e.Server = u.server
	}
	return e
}
