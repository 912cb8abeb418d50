package proxy

import (
	"container/list"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Names come from clients, so what is kept of them is bounded, for each route
// configuration with discovered virtual hosts and each source of clusters.
const (
	// maxAsked is how many names may be without an answer.
	maxAsked = 1000
	// maxVain is how many names are remembered that there is nothing of, vainFor
	// for how long.
	maxVain = 1000
	vainFor = time.Second
)

// askedSet is what was asked for of one source because requests needed it. Names
// that there is nothing of are given up with the answer. Names without an answer
// that nobody waits for are given up when others need their place: until then a
// slow source may still bring what they lead to.
type askedSet struct {
	typ    string
	source *corev3.ConfigSource
	names  map[string]*asked
	open   int       // of names, those without an answer
	left   list.List // of *asked: of those, the ones nobody waits for, the longest first
	vain   vainNames
	full   bool // it was logged that there are too many
}

// asked is a name that was asked for and not given up.
type asked struct {
	name string
	// found says that there is something of the name, or on its way: it stays
	// subscribed to.
	found bool
	by    []asker
	left  *list.Element // in the set's list, or nil
}

func newAskedSet(typeURL string, source *corev3.ConfigSource) *askedSet {
	return &askedSet{typ: typeURL, source: source, names: map[string]*asked{}}
}

// find is a name that is asked for from now on, if it was not; nil if there is
// nothing to wait for.
func (s *askedSet) find(r *Resources, name string) *asked {
	if a := s.names[name]; a != nil {
		return a
	}
	if s.vain.has(name, time.Now()) || !s.room(r) {
		return nil
	}
	a := &asked{name: name}
	s.names[name] = a
	s.open++
	r.tell.add(true, s.typ, name, s.source)
	return a
}

// room makes room for one more name without an answer.
func (s *askedSet) room(r *Resources) bool {
	if s.open < maxAsked {
		return true
	}
	if first := s.left.Front(); first != nil {
		if a, ok := first.Value.(*asked); ok {
			s.giveUp(r, a)
			return true
		}
	}
	r.p.stat.Main().Inc(r.p.stat.Scope("on_demand").Counter("overflow")) // not one of Envoy's: it is there once it has happened
	if !s.full {
		s.full = true
		r.p.component("router").Warn("too many names wait for an answer; requests for others go on as if there were nothing of theirs",
			"type", s.typ, "limit", maxAsked)
	}
	return false
}

// await lets a worker wait for a name.
func (s *askedSet) await(a *asked, w asker) {
	a.by = append(a.by, w)
	s.stays(a)
}

func (s *askedSet) stays(a *asked) {
	if a.left != nil {
		s.left.Remove(a.left)
		a.left = nil
	}
}

// leave notes that nobody on a worker waits for a name any more.
func (s *askedSet) leave(w asker) {
	a := s.names[w.key.Name]
	if a == nil {
		return
	}
	for i := range a.by {
		if a.by[i].worker == w.worker {
			a.by[i] = a.by[len(a.by)-1]
			a.by = a.by[:len(a.by)-1]
			break
		}
	}
	if len(a.by) == 0 && !a.found && a.left == nil {
		a.left = s.left.PushBack(a)
	}
}

// comes says that what a name leads to is on its way.
func (s *askedSet) comes(name string) *asked {
	s.vain.forget(name)
	a := s.names[name]
	if a != nil && !a.found {
		a.found = true
		s.open--
		s.stays(a)
	}
	return a
}

// came lets those go on who wait for a name, whose answer is there. A name that
// nobody waited for by then stays, too.
func (s *askedSet) came(r *Resources, name string) {
	if a := s.comes(name); a != nil {
		a.answer(r)
	}
}

// none lets those go on who wait for a name of which there is nothing.
func (s *askedSet) none(r *Resources, name string) {
	if a := s.names[name]; a != nil {
		s.vain.add(name, time.Now())
		s.giveUp(r, a)
	}
}

// giveUp ends the subscription to a name.
func (s *askedSet) giveUp(r *Resources, a *asked) {
	s.stays(a)
	if !a.found {
		s.open--
	}
	delete(s.names, a.name)
	r.tell.add(false, s.typ, a.name, s.source)
	a.answer(r)
}

// answer lets those go on who wait.
func (a *asked) answer(r *Resources) {
	by := a.by
	a.by = nil
	for _, w := range by {
		r.answer(w)
	}
}

// vainNames are the last names that there was nothing of, and until when that
// counts. The zero value has none.
type vainNames struct {
	until map[string]time.Time
	order []string // those that were added last; the oldest is at next once it is full
	next  int
}

func (v *vainNames) has(name string, now time.Time) bool { return now.Before(v.until[name]) }

func (v *vainNames) add(name string, now time.Time) {
	if v.until == nil {
		v.until = map[string]time.Time{}
	}
	if _, known := v.until[name]; !known {
		if len(v.order) < maxVain {
			v.order = append(v.order, name)
		} else {
			delete(v.until, v.order[v.next])
			v.order[v.next] = name
			v.next = (v.next + 1) % maxVain
		}
	}
	v.until[name] = now.Add(vainFor)
}

func (v *vainNames) forget(name string) {
	if _, known := v.until[name]; known {
		v.until[name] = time.Time{} // its place goes with its turn
	}
}
