package client

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// TypeStatus is the state of one type, for statistics and CSDS.
type TypeStatus struct {
	TypeURL string
	// Requested says that the type was requested on the present stream.
	Requested bool
	// Version is that of the last SotW response accepted, Nonce the newest on the
	// present stream.
	Version, Nonce string
	Wildcard       bool
	// Wanted is the number of names subscribed to, "*" included; Resources that
	// of the resources held.
	Wanted, Resources int
	// Rejection is set if the last response was rejected, RejectedAt is when.
	Rejection  *Rejection
	RejectedAt time.Time
}

// State is what a client knows of a resource (ClientResourceStatus in
// envoy/admin/v3/config_dump_shared.proto).
type State uint8

// States.
const (
	Requested State = iota
	DoesNotExist
	Acked
	Nacked
	ReceivedError
	TimedOut
)

// ResourceStatus is the state of one resource.
type ResourceStatus struct {
	Name    string
	Aliases []string
	State   State
	// Wanted says that the name itself is subscribed to.
	Wanted bool
	// Held says that Version and Body are the server's last good word, which came
	// at Updated.
	Held    bool
	Version string
	Form    Form
	Body    []byte
	Updated time.Time
	// Err is why the state is Nacked, ReceivedError or TimedOut, since ErrAt.
	// ErrVersion is the version refused, ErrBody what was refused for itself.
	Err        error
	ErrAt      time.Time
	ErrVersion string
	ErrBody    []byte
}

// Status tells about one type; false if nothing is known of it.
func (c *Channel) Status(typeURL string) (TypeStatus, bool) {
	x := c.subs[typeURL]
	if x == nil {
		return TypeStatus{TypeURL: typeURL}, false
	}
	s := TypeStatus{
		TypeURL: typeURL, Requested: x.opened, Version: x.version, Nonce: x.nonce, Wanted: x.wanted, Rejection: x.rejection,
	}
	if e := x.names[wildcard]; e != nil {
		s.Wildcard = e.wanted
	}
	for _, e := range x.names {
		if e.held {
			s.Resources++
		}
	}
	if x.rejection != nil {
		s.RejectedAt = c.at(x.rejected)
	}
	return s, true
}

// Types are the types the channel knows, in the order of their first requests.
func (c *Channel) Types() []string {
	list := make([]string, 0, len(c.order))
	for _, x := range c.order {
		list = append(list, x.typ.URL)
	}
	return list
}

// Resource tells about one name; false if it is not known. An alias leads to its
// resource.
func (c *Channel) Resource(typeURL, name string) (ResourceStatus, bool) {
	x := c.subs[typeURL]
	if x == nil {
		return ResourceStatus{}, false
	}
	name = canonical(name)
	e := x.names[name]
	if r := x.links[name]; r != nil && (e == nil || !e.held) {
		e = r
	}
	if e == nil {
		return ResourceStatus{}, false
	}
	return c.status(e), true
}

// Resources tells about every name of a type, sorted, without the wildcard,
// glob collections and aliases that lead to a resource. The channel must not be
// used meanwhile.
func (c *Channel) Resources(typeURL string) iter.Seq[ResourceStatus] {
	return func(yield func(ResourceStatus) bool) {
		x := c.subs[typeURL]
		if x == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(x.names)) {
			e := x.names[name]
			if name == wildcard || x.isGlob(name) || !e.held && x.links[name] != nil {
				continue
			}
			if !yield(c.status(e)) {
				return
			}
		}
	}
}

func (c *Channel) status(e *entry) ResourceStatus {
	s := ResourceStatus{
		Name: e.name, Aliases: e.aliases(), Wanted: e.wanted, Held: e.held, Version: e.version, Form: e.form, Body: e.body,
	}
	switch e.state {
	case missing:
		s.State = DoesNotExist
	case present:
		s.State = Acked
	}
	if e.held {
		s.State, s.Updated = Acked, c.at(e.updated)
	}
	if f := e.failure(); f != nil {
		s.Err, s.ErrAt, s.ErrVersion, s.ErrBody = f.err, c.at(f.at), f.version, f.body
		s.State = f.state()
	}
	return s
}

func (f *failure) state() State {
	switch {
	case f.kind == Rejected:
		return Nacked
	case f.timeout:
		return TimedOut
	}
	return ReceivedError
}

// Stats are the counts of a channel.
type Stats struct {
	// Pending is how many requests are due: one for each response that is not
	// answered, and one for each type whose names have changed (XC-30). Who reads
	// responses should stop while it is large. What is withheld is not counted.
	Pending int
	// Limited is how often a request had to wait for the rate limit.
	Limited uint64
}

// Stats returns the counts.
func (c *Channel) Stats() Stats {
	s := Stats{Limited: c.bucket.enforced}
	if !c.open {
		return s
	}
	for i := c.head; i < len(c.answers); i++ {
		if !c.withheld(c.answers[i].sub) {
			s.Pending++
		}
	}
	for _, x := range c.order {
		if x.due() && !c.owesAnswer(x) && !c.withheld(x) {
			s.Pending++
		}
	}
	return s
}
