package xdsclient

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// ResourceStatus is what a source knows of one resource.
type ResourceStatus struct {
	TypeURL, Name string
	// Authority is who owns a structured name; "#old" for a plain one, as gRFC A78
	// has it.
	Authority string
	// Watches is how many watches of this name there are; a resource that is
	// held for a wildcard or a glob has none.
	Watches int
	// Held says that there is a value; then Version, Server, Body and Updated say
	// which.
	Held            bool
	Version, Server string
	Body            *anypb.Any
	Updated         time.Time
	// Err is why there is no value, or what is wrong beside it; an [*Error]. It is
	// nil with Held false while nothing is known yet.
	Err error
	// ErrAt is when Err came up. Of something rejected, Refused is the version, and
	// RefusedBody the resource, unless it was refused with its response only.
	ErrAt       time.Time
	Refused     string
	RefusedBody *anypb.Any
}

// ServerStatus is what a source knows of a stream.
type ServerStatus struct {
	// Name is the server's, TypeURL the type of the stream, empty if it carries
	// all.
	Name, TypeURL string
	// Wanted is how many names are asked for over it.
	Wanted int
	// Connected says that there is a stream, Answered that a response has come on
	// it.
	Connected, Answered bool
	// Err is why there is none; nil if it has not been tried, or the last one had
	// a response.
	Err error
}

// explainTo takes over an error, which may be nil. Of what is rejected again and
// again with the same bytes only the protocol knows the newest version.
func (s *Source) explainTo(r *ResourceStatus, e *Error) {
	if e == nil {
		return
	}
	r.Err, r.ErrAt, r.Refused = e, e.at, e.version
	if !e.is(ErrRejected) {
		return
	}
	for _, srv := range s.servers {
		l := srv.links[s.key(r.TypeURL)]
		if srv.Name != e.Server || l == nil {
			continue
		}
		if st, ok := l.ch.Resource(r.TypeURL, r.Name); ok && st.State == client.Nacked {
			r.ErrAt, r.Refused = st.ErrAt, st.ErrVersion
			if st.ErrBody != nil {
				r.RefusedBody = &anypb.Any{TypeUrl: r.TypeURL, Value: st.ErrBody}
			}
		}
	}
}

// Resources tells about every resource, sorted by type and name. A collection
// that has not come yet, or cannot, is told of as a resource: [Wildcard], or its
// structured name. Bodies are shared and must not be changed.
func (s *Source) Resources() []ResourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []ResourceStatus
	for _, t := range s.types {
		for _, e := range t.entries {
			r := ResourceStatus{TypeURL: t.URL, Name: e.name, Authority: authorityLabel(e.name), Watches: len(e.watches)}
			s.explainTo(&r, e.err)
			if e.u != nil {
				r.Held, r.Version, r.Server, r.Updated = true, e.u.version, e.u.server, e.updated
				r.Body = &anypb.Any{TypeUrl: e.u.bodyType(t.URL), Value: e.u.body}
				s.explainTo(&r, e.ambient)
			}
			list = append(list, r)
		}
		for _, c := range t.collections {
			if c.answered && c.err == nil {
				continue
			}
			r := ResourceStatus{TypeURL: t.URL, Name: c.name, Authority: authorityLabel(c.name), Watches: len(c.watches)}
			s.explainTo(&r, c.err)
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b ResourceStatus) int {
		return cmp.Or(strings.Compare(a.TypeURL, b.TypeURL), strings.Compare(a.Name, b.Name))
	})
	return list
}

// Servers tells about every stream that was needed so far, in the order of the
// configuration.
func (s *Source) Servers() []ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []ServerStatus
	for _, srv := range s.servers {
		from := len(list)
		for _, l := range srv.links {
			list = append(list, ServerStatus{
				Name: srv.Name, TypeURL: l.typeURL, Wanted: l.subscribed,
				Connected: l.state == open, Answered: l.state == open && l.answered, Err: l.err,
			})
		}
		slices.SortFunc(list[from:], func(a, b ServerStatus) int { return strings.Compare(a.TypeURL, b.TypeURL) })
	}
	return list
}

func authorityLabel(name string) string {
	if !xds.IsURN(name) {
		return "#old"
	}
	u, _ := xds.ParseURN(name)
	return u.Authority
}

// State is the resource's state in one word, as the gauge of resources by cache
// state has it (GC-67): "requested", "acked", "does_not_exist", "nacked",
// "nacked_but_cached", "received_error", "timeout", and "stored" for what is from
// the store. A resource that is only cut off from its server keeps its state.
func (r ResourceStatus) State() string {
	switch {
	case errors.Is(r.Err, ErrRejected) && r.Held:
		return "nacked_but_cached"
	case r.Held && r.Server == storeName:
		return "stored"
	case r.Held:
		return "acked"
	case errors.Is(r.Err, ErrRejected):
		return "nacked"
	case errors.Is(r.Err, ErrMissing), errors.Is(r.Err, ErrExpired):
		return "does_not_exist"
	case errors.Is(r.Err, ErrRefused):
		return "received_error"
	case errors.Is(r.Err, ErrTimeout):
		return "timeout"
	}
	return "requested"
}
