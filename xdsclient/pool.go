package xdsclient

import (
	"fmt"
	"sync"
)

// Pool shares sources by key, so that many users of one configuration have one
// stream (GC-33): the first to ask for a key makes its source, the last to let
// go of it closes it. The zero value is ready; it is safe for concurrent use.
type Pool struct {
	mu      sync.Mutex
	sources map[string]*pooled
}

type pooled struct {
	users int
	once  sync.Once
	s     *Source
	err   error
}

// Get returns the source of a key, which is made by calling source if there
// is none. Release gives it back, and with the last one waits for its end; a second
// call of the same release does nothing. It must not be called by a watcher of
// the source.
func (p *Pool) Get(key string, source func() (*Source, error)) (s *Source, release func() error, err error) {
	p.mu.Lock()
	e := p.sources[key]
	if e == nil {
		if p.sources == nil {
			p.sources = map[string]*pooled{}
		}
		e = &pooled{}
		p.sources[key] = e
	}
	e.users++
	p.mu.Unlock()
	e.once.Do(func() { e.s, e.err = source() })
	if e.err != nil {
		_ = p.release(key, e)
		return nil, nil, fmt.Errorf("making the source %q: %w", key, e.err)
	}
	return e.s, sync.OnceValue(func() error { return p.release(key, e) }), nil
}

func (p *Pool) release(key string, e *pooled) error {
	p.mu.Lock()
	e.users--
	last := e.users == 0
	if last && p.sources[key] == e {
		delete(p.sources, key)
	}
	p.mu.Unlock()
	if last && e.s != nil {
		return e.s.Close()
	}
	return nil
}
