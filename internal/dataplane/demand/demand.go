// Package demand is what the requests and connections of one worker wait for
// while the configuration asks elsewhere for it: virtual hosts and clusters that
// are discovered when they are first needed, and the routes of scopes.
package demand

import corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

// Kind is what is asked for.
type Kind uint8

// The kinds, and what their names are.
const (
	VirtualHost Kind = iota // "<route configuration>/<host>"
	Cluster                 // the cluster's
	Scope                   // the scope's key; the source is that of the scopes
)

// Key is something that can be asked for.
type Key struct {
	Kind Kind
	Name string
	// Source is where, as configured.
	Source *corev3.ConfigSource
}

// Waits are those who wait on one worker. Confined to it.
type Waits struct {
	ask, leave func(Key)
	keys       map[Key]*list
}

// New makes the waits of a worker. What ask is called with is answered by
// [Waits.Answer], later, however long that takes; leave is called when nobody
// waits for it any more before there is an answer. Neither must wait.
func New(ask, leave func(Key)) *Waits { return &Waits{ask: ask, leave: leave, keys: map[Key]*list{}} }

// list is who waits for one key, the oldest first.
type list struct {
	first, last *Wait
	key         Key
	of          *Waits // nil once it is answered
}

// Wait is the waiting of one request; the zero value does not wait. It must not
// be copied while it waits.
type Wait struct {
	in         *list
	prev, next *Wait
	resume     func()
}

// Add makes w wait for a key: resume is called once there is an answer, never
// within Add. The first who waits for a key has it asked for.
func (s *Waits) Add(w *Wait, k Key, resume func()) {
	w.Cancel()
	l := s.keys[k]
	if l == nil {
		l = &list{key: k, of: s}
		s.keys[k] = l
		defer s.ask(k)
	}
	w.in, w.resume, w.prev = l, resume, l.last
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
}

// Cancel ends the waiting; resume is not called.
func (w *Wait) Cancel() {
	l := w.in
	if l == nil {
		return
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	*w = Wait{}
	if l.first == nil && l.of != nil {
		delete(l.of.keys, l.key)
		l.of.leave(l.key)
	}
}

// Answer lets everybody go on who waits for a key. Who waits for it again is
// not among them.
func (s *Waits) Answer(k Key) {
	l := s.keys[k]
	if l == nil {
		return
	}
	delete(s.keys, k)
	l.of = nil
	for l.first != nil {
		w := l.first
		resume := w.resume
		w.Cancel()
		resume()
	}
}

// Len is how many keys are waited for.
func (s *Waits) Len() int { return len(s.keys) }
