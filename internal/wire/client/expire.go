package client

import (
	"fmt"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// TypedEvents is what happened to resources of one type.
type TypedEvents struct {
	TypeURL string
	Events  []Event
}

// Expire takes what has run out by now: resources whose time to live is over
// (XT-04), and names that nothing was heard of in time (XC-17, GC-47). There is
// one element for each type.
func (c *Channel) Expire(now time.Time) []TypedEvents {
	t := c.since(now)
	var list []TypedEvents
	for {
		due, ok := c.timers.first()
		if !ok || due > t {
			return list
		}
		e := c.timers[0]
		c.timers.stop(e)
		list = appendEvent(list, e.sub.typ.URL, e.sub.expire(t, e))
	}
}

func appendEvent(list []TypedEvents, typeURL string, ev Event) []TypedEvents {
	for i := range list {
		if list[i].TypeURL == typeURL {
			list[i].Events = append(list[i].Events, ev)
			return list
		}
	}
	return append(list, TypedEvents{TypeURL: typeURL, Events: []Event{ev}})
}

func (x *sub) expire(now time.Duration, e *entry) Event {
	ev := Event{Name: e.name, Aliases: e.aliases(), Version: e.version}
	switch {
	case e.held:
		ev.Kind, ev.Err = Expired, ByTTL
		x.vanish(e)
		x.exact = false
	case x.ch.cfg.TransientTimeout:
		st := &Status{Code: CodeUnavailable, Message: fmt.Sprintf("%s %q: the server did not send it within %v", xds.Kind(x.typ.URL), e.name, x.ch.cfg.ResourceTimeout)}
		ev.Kind, ev.Err = ServerError, st
		e.fail(&failure{kind: ServerError, err: st, at: now, timeout: true})
	default:
		ev.Kind, ev.Err = Missing, ByTimeout
		e.state = missing
	}
	return ev
}

// vanish notes that a resource no longer exists.
func (x *sub) vanish(e *entry) {
	for _, a := range e.aliases() {
		if al := x.names[a]; al != nil && x.links[a] == e {
			al.state = missing
		}
	}
	x.lose(e)
	e.state = missing
	if !x.active(e) {
		x.drop(e)
	}
}
