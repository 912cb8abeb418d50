package xdsclient

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// outcome works off what a response did.
func (l *link) outcome(out *client.Outcome, began time.Time) {
	t := l.s.types[out.TypeURL]
	if t == nil {
		return
	}
	for i := range out.Events {
		l.apply(out.TypeURL, &out.Events[i])
	}
	for _, c := range t.collections {
		if c.auth.uses(l) && (c.err == nil || c.err.is(ErrUnreachable)) {
			l.s.collectionAnswered(c)
		}
	}
	if out.Err == nil {
		t.forgetRefused()
		l.disown(t)
	}
	l.responded(t, out, time.Since(began))
	r := Response{TypeURL: out.TypeURL, Version: out.Version, Server: l.srv.Name, Err: out.Err}
	for _, x := range t.responders {
		l.s.calls = append(l.s.calls, call{x: x, kind: callResponse, r: r})
	}
}

// apply works off one event of the protocol.
func (l *link) apply(typeURL string, ev *client.Event) {
	t := l.s.types[typeURL]
	if t == nil {
		return
	}
	if c := t.collections[ev.Name]; c != nil {
		l.applyCollection(t, c, ev)
		return
	}
	l.applyTo(t, ev.Name, ev)
	for _, alias := range ev.Aliases {
		if e := t.entries[alias]; e != nil && len(e.watches) > 0 {
			l.applyTo(t, alias, ev)
		}
	}
}

func (l *link) applyCollection(t *typeState, c *collection, ev *client.Event) {
	if !c.auth.uses(l) {
		return
	}
	switch ev.Kind {
	case client.Missing, client.Expired, client.ServerError, client.Rejected:
		l.s.collectionFailed(c, l.explain(t, ev))
		c.answered = true
	case client.Changed, client.Unchanged:
		l.s.collectionAnswered(c)
	}
}

func (l *link) applyTo(t *typeState, name string, ev *client.Event) {
	e := t.entries[name]
	if e == nil {
		if ev.Kind != client.Changed && ev.Kind != client.Rejected {
			return
		}
		if e = l.s.member(t, name); e == nil {
			return
		}
	}
	if !l.ranks(t, e, ev) {
		return
	}
	if e.u != nil && e.u.server != storeName && l.expiring && ev.Kind != client.Expired {
		return // another server has sent it (XC-18)
	}
	switch ev.Kind {
	case client.Changed:
		l.s.set(t, e, l.update(ev))
		l.s.save(t, e)
	case client.Unchanged:
		l.unchanged(t, e, ev)
	default:
		l.wrong(t, e, ev)
	}
}

// ranks reports whether a server's word counts. A preferred one that was away
// takes over with the first resource it sends; what else it says before that is
// kept until then (XC-32).
func (l *link) ranks(t *typeState, e *entry, ev *client.Event) bool {
	i := slices.Index(e.auth.servers, l.srv)
	level := e.auth.levels[l.typeURL]
	if i < 0 || i > level {
		return false
	}
	if i == level {
		return true
	}
	if ev.Kind != client.Changed && l.expiring {
		return false
	}
	if ev.Kind != client.Changed {
		if l.skipped == nil {
			l.skipped = map[xds.Key]client.Event{}
		}
		l.skipped[xds.Key{Type: t.URL, Name: e.name}] = *ev
		return false
	}
	l.s.returned(e.auth, l)
	skipped := l.skipped
	l.skipped = nil
	delete(skipped, xds.Key{Type: t.URL, Name: e.name})
	for key, ev := range skipped {
		l.apply(key.Type, &ev)
	}
	return true
}

func (l *link) update(ev *client.Event) *update {
	u := &update{name: ev.Name, version: ev.Version, server: l.srv.Name, body: ev.Body}
	return u.fill(ev.Form, ev.Value)
}

// unchanged: the server has said again what it said before.
func (l *link) unchanged(t *typeState, e *entry, ev *client.Event) {
	if e.u != nil {
		u := *e.u
		u.version = ev.Version
		l.s.set(t, e, &u)
		return
	}
	v, err := l.s.read(l, t, ev.Name, ev.Version, ev.Form, ev.Body)
	if err != nil {
		return // it was accepted before
	}
	l.s.set(t, e, l.update(ev).fill(ev.Form, v))
}

// read decodes and validates what is not told by a channel that it has changed. Of a
// list collection it makes what is good.
func (s *Source) read(l *link, t *typeState, name, version string, form client.Form, body []byte) (any, error) {
	if form == client.Plain {
		return t.decode(name, version, body, t.knownBy(name))
	}
	v, err := checker{l}.indirect(t, name, version, form, body)
	if _, partly := errors.AsType[*client.Flaw](err); partly {
		err = nil
	}
	return v, err
}

// wrong: something is the matter with a resource. The server's policy says what
// becomes of the cached one.
func (l *link) wrong(t *typeState, e *entry, ev *client.Event) {
	err := l.explain(t, ev)
	if e.u == nil || !l.keeps(ev) {
		if e.u != nil {
			l.ch.Forget(t.URL, e.name) // so that the same content is news
		}
		l.s.fail(t, e, err)
		l.s.save(t, e)
		return
	}
	if !e.deleted && ev.Kind == client.Missing {
		e.deleted = true
		l.s.cfg.Logger.Warn("keeping a resource that the server has deleted", "type", t.Kind, "resource", e.name, "server", l.srv.Name)
	}
	l.s.warn(t, e, err)
}

// keeps reports whether the cached resource is kept (XC-33, XC-36, GC-63).
func (l *link) keeps(ev *client.Event) bool {
	p := l.srv.Policy
	var st *client.Status
	switch {
	case ev.Kind == client.Expired:
		return false
	case errors.As(ev.Err, &st) && st.Code != int32(codes.NotFound) && st.Code != int32(codes.PermissionDenied):
		return true
	case p.FailOnDataErrors:
		return false
	case ev.Kind == client.Missing && st == nil:
		return p.KeepDeleted
	}
	return true
}

// explain makes an event's error one for people (GC-66).
func (l *link) explain(t *typeState, ev *client.Event) *Error {
	e := l.s.errorOf(l, t, ev.Name, ErrMissing, ev.Err)
	var st *client.Status
	switch {
	case ev.Kind == client.Expired:
		e.Reason, e.Err = ErrExpired, nil
	case ev.Kind == client.Rejected:
		e.Reason, e.version = ErrRejected, ev.Version
	case l.expiring:
		l.s.count(StatInitFetchTimeout, l, t.URL, 1)
		e.Err = fmt.Errorf("not sent within %v", l.timeout())
		if ev.Kind == client.ServerError {
			e.Reason = ErrTimeout
		}
	case errors.As(ev.Err, &st):
		e.Code = codes.Code(st.Code) //nolint:gosec // an unknown code is shown as it is
		if e.Code != codes.NotFound {
			e.Reason = ErrRefused
		}
	}
	return e
}

// member makes the entry of a resource that a collection covers.
func (s *Source) member(t *typeState, name string) *entry {
	if !t.covered(name) {
		return nil
	}
	a, name, err := s.owner(t.Type, name)
	if err != nil {
		return nil
	}
	e := &entry{name: name, auth: a}
	t.entries[name] = e
	return e
}
