package xdsclient

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// emptyAuthority is the key of the authority of names "xdstp:///…", if it is
// configured apart; names without a scheme have the key "".
const emptyAuthority = "\x00"

// authority is who owns names: an ordered list of servers, of which the first
// ones are in use.
type authority struct {
	name    string
	servers []*server
	atOnce  bool
	// levels says, by link key, how far down the list servers are in use: those
	// before the last cannot be reached (XC-32).
	levels map[string]int
}

// server is a management server and the streams to it.
type server struct {
	Server
	links map[string]*link
}

func (srv *server) close() error {
	var first error
	for _, t := range append([]Transport{srv.Transport}, srv.Alternates...) {
		if err := t.Close(); err != nil && first == nil {
			first = fmt.Errorf("closing the transport of server %q: %w", srv.Name, err)
		}
	}
	return first
}

func (s *Source) addAuthority(name string, servers []Server) *authority {
	a := s.newAuthority(name, servers, false)
	s.authorities[name] = a
	return a
}

// newAuthority shares the servers that other authorities name as well.
func (s *Source) newAuthority(name string, servers []Server, atOnce bool) *authority {
	a := &authority{name: name, atOnce: atOnce, levels: map[string]int{}}
	for _, cfg := range servers {
		i := slices.IndexFunc(s.servers, func(o *server) bool { return o.Name == cfg.Name })
		if i < 0 {
			i = len(s.servers)
			s.servers = append(s.servers, &server{Server: cfg, links: map[string]*link{}})
		}
		a.servers = append(a.servers, s.servers[i])
	}
	return a
}

var errNobody = errors.New("nobody is configured")

// owner finds who is responsible for a name, and the name's canonical form.
func (s *Source) owner(t xds.Type, name string) (*authority, string, error) {
	if !xds.IsURN(name) {
		return s.authorities[""], name, nil
	}
	u, err := xds.ParseURN(name)
	if err != nil {
		return nil, name, err //nolint:wrapcheck // says it all
	}
	if err := u.CheckType(t.URL); err != nil {
		return nil, name, err //nolint:wrapcheck // says it all
	}
	key := u.Authority
	if key == "" && s.authorities[emptyAuthority] != nil {
		key = emptyAuthority
	}
	a := s.authorities[key]
	if a == nil && s.cfg.AnyAuthority {
		a = s.authorities[""]
	}
	if a == nil {
		return nil, name, fmt.Errorf("%w for the authority %q: add it to Authorities", errNobody, u.Authority)
	}
	return a, u.String(), nil
}

// key is under which a server keeps the link for a type.
func (s *Source) key(typeURL string) string {
	if s.cfg.PerType {
		return typeURL
	}
	return ""
}

// carries reports whether a link is for a type.
func (l *link) carries(typeURL string) bool { return l.typeURL == "" || l.typeURL == typeURL }

// inUse are the servers an authority asks for a type, preferred ones first.
func (a *authority) inUse(key string) []*server { return a.servers[:a.levels[key]+1] }

// subscribe asks all servers in use for a name.
func (s *Source) subscribe(a *authority, t *typeState, name string) {
	key := s.key(t.URL)
	for _, srv := range a.inUse(key) {
		s.link(srv, key).subscribe(t.Type, name)
	}
}

func (s *Source) unsubscribe(a *authority, t *typeState, name string) {
	key := s.key(t.URL)
	for _, srv := range a.inUse(key) {
		s.link(srv, key).unsubscribe(t.URL, name)
	}
}

// link finds or makes the stream of a server.
func (s *Source) link(srv *server, key string) *link {
	l := srv.links[key]
	if l == nil {
		l = newLink(s, srv, key)
		srv.links[key] = l
	}
	return l
}

// wanted visits every name of an authority that is watched over a link.
func (s *Source) wanted(a *authority, l *link, visit func(t *typeState, name string)) {
	for _, t := range s.types {
		if !l.carries(t.URL) {
			continue
		}
		for name, c := range t.collections {
			if c.auth == a && len(c.watches) > 0 {
				visit(t, name)
			}
		}
		for name, e := range t.entries {
			if e.auth == a && len(e.watches) > 0 {
				visit(t, name)
			}
		}
	}
}

// unknown reports whether a watched resource or collection of an authority is
// not cached.
func (s *Source) unknown(a *authority, l *link) bool {
	for _, t := range s.types {
		if !l.carries(t.URL) {
			continue
		}
		for _, c := range t.collections {
			if c.auth == a && len(c.watches) > 0 && !c.answered {
				return true
			}
		}
		for _, e := range t.entries {
			if e.auth == a && e.unknown() {
				return true
			}
		}
	}
	return false
}

// failed works off that a stream ended without a response: authorities that
// miss something go on to their next server, the others' watchers are told.
func (s *Source) failed(l *link) {
	for _, a := range s.authorities {
		i := slices.Index(a.servers, l.srv)
		if i < 0 || i != a.levels[l.typeURL] {
			continue
		}
		if !s.fallBack(a, l) {
			s.unreachable(a, l)
		}
	}
}

// fallBack makes the next server of an authority serve as well, if there is one
// and it is needed (XC-32, GC-28).
func (s *Source) fallBack(a *authority, l *link) bool {
	i := a.levels[l.typeURL]
	if i+1 >= len(a.servers) || !a.atOnce && !s.unknown(a, l) {
		return false
	}
	some := false
	s.wanted(a, l, func(*typeState, string) { some = true })
	if !some {
		return false
	}
	next := a.servers[i+1]
	s.cfg.Logger.Warn("falling back to the next server", "authority", a.name, "server", next.Name, "instead_of", l.srv.Name, "reason", l.err)
	a.levels[l.typeURL] = i + 1
	// When the server comes back it must send everything, whatever the next one
	// has made of it meanwhile.
	l.renew()
	n := s.link(next, l.typeURL)
	s.wanted(a, l, func(t *typeState, name string) { n.subscribe(t.Type, name) })
	if n.err != nil { // it is known not to answer either
		s.failed(n)
	}
	return true
}

// returned gives up the servers after one that has sent something (XC-32).
func (s *Source) returned(a *authority, l *link) {
	i := slices.Index(a.servers, l.srv)
	last := a.levels[l.typeURL]
	s.cfg.Logger.Info("back to a preferred server", "authority", a.name, "server", l.srv.Name)
	for _, srv := range a.servers[i+1 : last+1] {
		lower := s.link(srv, l.typeURL)
		s.wanted(a, lower, func(t *typeState, name string) { lower.unsubscribe(t.URL, name) })
	}
	a.levels[l.typeURL] = i
}

// unreachable tells the watchers of an authority that no server can be reached.
// What is cached stays (GC-51, XC-29).
func (s *Source) unreachable(a *authority, l *link) {
	s.restore(a, l)
	for _, t := range s.types {
		if !l.carries(t.URL) {
			continue
		}
		for _, c := range t.collections {
			if c.auth == a && len(c.watches) > 0 && c.err == nil && c.ambient == nil {
				s.collectionFailed(c, s.errorOf(l, t, c.name, ErrUnreachable, l.err))
			}
		}
		for _, e := range t.entries {
			if e.auth == a {
				s.cutOff(l, t, e)
			}
		}
	}
}

// cutOff tells the watchers of an entry, unless they know already.
func (s *Source) cutOff(l *link, t *typeState, e *entry) {
	switch {
	case e.u != nil && e.ambient == nil:
		s.warn(t, e, s.errorOf(l, t, e.name, ErrUnreachable, l.err))
	case e.u == nil && e.err == nil:
		s.fail(t, e, s.errorOf(l, t, e.name, ErrUnreachable, l.err))
	}
}

// reached ends the ambient errors of a server that has answered.
func (s *Source) reached(l *link) {
	for _, t := range s.types {
		if !l.carries(t.URL) {
			continue
		}
		for _, e := range t.entries {
			if e.ambient.is(ErrUnreachable) && e.auth.uses(l) {
				s.clearAmbient(t, e)
			}
		}
	}
}

// uses reports whether an authority listens to a link.
func (a *authority) uses(l *link) bool {
	i := slices.Index(a.servers, l.srv)
	return i >= 0 && i <= a.levels[l.typeURL]
}

func (s *Source) errorOf(l *link, t *typeState, name string, reason, err error) *Error {
	return &Error{Reason: reason, TypeURL: t.URL, Name: name, Server: l.srv.Name, Node: s.node.GetId(), Err: err, at: time.Now()}
}
