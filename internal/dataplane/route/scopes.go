package route

import "github.com/xebec-proxy/xebec/filter/header"

// Scope is a routing scope as one worker has it.
type Scope struct {
	// Name is the scope's.
	Name string
	// Table is where its table is, which is nil before it came. What it points to
	// changes with the routes.
	Table **Table
	// Lazy says that there is no table until somebody asks for one (on_demand).
	Lazy bool
}

// Scopes are the scopes of a connection manager by their keys (RT-11). Those that
// are discovered are confined to a worker; others do not change.
type Scopes struct {
	key    *ScopeKeyBuilder
	scopes map[string]*Scope
}

// NewScopes makes a set of scopes without any.
func NewScopes(key *ScopeKeyBuilder) *Scopes {
	return &Scopes{key: key, scopes: map[string]*Scope{}}
}

// Set puts a scope in the place of that of its key; nil takes that away.
func (s *Scopes) Set(key string, scope *Scope) {
	if scope == nil {
		delete(s.scopes, key)
		return
	}
	s.scopes[key] = scope
}

// Len is the number of scopes.
func (s *Scopes) Len() int { return len(s.scopes) }

// Find is the scope of a request, or nil. The key is made in buf, which is
// returned grown, to be used again: then nothing is allocated. Its cost does not
// depend on the number of scopes.
func (s *Scopes) Find(h *header.Map, buf []byte) (*Scope, []byte) {
	buf, ok := s.key.Append(buf[:0], h)
	if !ok {
		return nil, buf
	}
	return s.scopes[string(buf)], buf
}
