package xdsclient

import "sync"

// Conflate lets a slow watcher fall behind without holding up the stream
// (GC-56): w is called on a goroutine of its own, one call at a time, and of
// each name it is told the newest state only. What it has not been told yet is
// kept once for each name, so that memory is bounded by what is watched. It is
// not told of responses. A call of w may come after its watch was cancelled.
func Conflate[T any](w Watcher[T]) Watcher[T] {
	return &conflated[T]{w: w, late: map[string]*state[T]{}}
}

type conflated[T any] struct {
	w Watcher[T]

	mu    sync.Mutex
	order []string
	late  map[string]*state[T]
	busy  bool
}

// state is what a watcher has not been told of a name.
type state[T any] struct {
	u       *Update[T]
	err     error
	ambient error
	// told: there is an ambient error, or the end of one, to be told.
	told bool
}

// OnChange keeps the value.
func (c *conflated[T]) OnChange(u Update[T]) {
	c.note(u.Name, func(s *state[T]) { *s = state[T]{u: &u} })
}

// OnError keeps the error.
func (c *conflated[T]) OnError(name string, err error) {
	c.note(name, func(s *state[T]) { *s = state[T]{err: err} })
}

// OnAmbientError keeps the error beside the value.
func (c *conflated[T]) OnAmbientError(name string, err error) {
	c.note(name, func(s *state[T]) { s.ambient, s.told = err, true })
}

func (c *conflated[T]) note(name string, change func(*state[T])) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.late[name]
	if s == nil {
		s = &state[T]{}
		c.late[name] = s
		c.order = append(c.order, name)
	}
	change(s)
	if !c.busy {
		c.busy = true
		go c.run()
	}
}

func (c *conflated[T]) run() {
	for {
		c.mu.Lock()
		if len(c.order) == 0 {
			c.busy = false
			c.mu.Unlock()
			return
		}
		name := c.order[0]
		c.order = c.order[1:]
		s := c.late[name]
		delete(c.late, name)
		c.mu.Unlock()
		switch {
		case s.u != nil:
			c.w.OnChange(*s.u)
		case s.err != nil:
			c.w.OnError(name, s.err)
		}
		if s.told {
			c.w.OnAmbientError(name, s.ambient)
		}
	}
}
