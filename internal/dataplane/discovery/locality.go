package discovery

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// LocalityEndpoint is what happened to an endpoint of a collection.
type LocalityEndpoint struct {
	// Name is the resource's.
	Name, Version string
	// Config is its new content; nil if there is none.
	Config *endpointv3.LbEndpoint
	// Gone says that there is none any more.
	Gone bool
	// Refused is why what was sent last is not used.
	Refused error
}

// locality gathers what a response changes of a collection of endpoints.
type locality struct {
	mu      sync.Mutex
	changes map[string]LocalityEndpoint
	version string
}

func (l *locality) note(e *LocalityEndpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes[e.Name] = *e
	l.version = cmp.Or(e.Version, l.version)
}

// followLocality watches the endpoints of a collection (XN-29). What a response
// changes is changed at one stroke; what is wrong with an endpoint is told to the
// server by its name, and the others are used.
func (d *Discovery) followLocality(k want, u *user) (cancel func()) {
	l := &locality{changes: map[string]LocalityEndpoint{}}
	flush := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.changes) == 0 {
			return // the response was about others
		}
		list := slices.SortedFunc(maps.Values(l.changes), func(a, b LocalityEndpoint) int { return cmp.Compare(a.Name, b.Name) })
		clear(l.changes)
		if err := d.target.SetLocalityEndpoints(u.source, k.name, list, l.version); err != nil {
			d.cfg.Logger.Warn("endpoints that were good are refused", "collection", k.name, "error", err)
		}
	}
	t := xdsclient.LocalityEndpoints()
	t.Validate = func(_, _ string, e *endpointv3.LbEndpoint) error { return d.target.CheckLocalityEndpoint(e) }
	return xdsclient.Watch(k.source, t, k.name, xdsclient.Funcs[*endpointv3.LbEndpoint]{
		Change: func(v xdsclient.Update[*endpointv3.LbEndpoint]) {
			l.note(&LocalityEndpoint{Name: v.Name, Version: v.Version, Config: v.Value})
		},
		Error: func(name string, err error) {
			switch missing := errors.Is(err, xdsclient.ErrMissing); {
			case name != k.name:
				e := LocalityEndpoint{Name: name, Gone: true}
				if !missing && !errors.Is(err, xdsclient.ErrExpired) {
					e.Refused = err
				}
				l.note(&e)
			case missing:
				d.target.Missing(u.source, k.typ, k.name)
			}
		},
		AmbientError: func(name string, err error) {
			if name != k.name {
				l.note(&LocalityEndpoint{Name: name, Refused: err})
			}
		},
		Response: func(xdsclient.Response) { flush() },
		Settled:  flush, // what was there already comes without a response
	})
}
