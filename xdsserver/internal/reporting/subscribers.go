package reporting

import "sync"

// Subscribers hear of every report. The zero value has none. It is safe for
// concurrent use.
type Subscribers[R any] struct {
	mu    sync.Mutex // guards what follows; not held while functions run
	next  int
	funcs map[int]func(R)
}

// Add has f called with every report until cancel is called; a call that has
// begun may outlast it.
func (s *Subscribers[R]) Add(f func(R)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.next
	s.next++
	if s.funcs == nil {
		s.funcs = map[int]func(R){}
	}
	s.funcs[id] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.funcs, id)
	}
}

// Deliver calls every subscriber, one after the other. It builds the report
// only if someone wants it.
func (s *Subscribers[R]) Deliver(build func() R) {
	s.mu.Lock()
	funcs := make([]func(R), 0, len(s.funcs))
	for _, f := range s.funcs {
		funcs = append(funcs, f)
	}
	s.mu.Unlock()
	if len(funcs) == 0 {
		return
	}
	r := build()
	for _, f := range funcs {
		f(r)
	}
}
