package xdsclient

import "sync"

// inbox holds the events of a source that nobody has worked off.
type inbox struct {
	mu      sync.Mutex
	idle    sync.Cond // a turn has ended
	events  []event
	running bool
	refused bool // no more events
}

// event is something that happened. done, if not nil, is closed when it has
// been worked off and the watchers have been told.
type event struct {
	do   func()
	done chan struct{}
}

// put adds an event; start says that the caller has to work it off. Otherwise
// done, if wanted, is closed when another has; it is nil when the source is
// closed.
func (i *inbox) put(do func(), wanted bool) (start bool, done <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refused {
		return false, nil
	}
	ev := event{do: do}
	start = !i.running
	if wanted && !start {
		ev.done = make(chan struct{})
	}
	i.events = append(i.events, ev)
	i.running = true
	return start, ev.done
}

// take fetches what waits; false ends the turn.
func (i *inbox) take() ([]event, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.events) == 0 {
		i.running = false
		if i.idle.L != nil {
			i.idle.Broadcast()
		}
		return nil, false
	}
	events := i.events
	i.events = nil
	return events, true
}

func (i *inbox) refuse() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refused = true
}

// close refuses further events and waits for the turn that is under way.
func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refused = true
	i.idle.L = &i.mu
	for i.running {
		i.idle.Wait()
	}
}

// post leaves an event to be worked off by another goroutine.
func (s *Source) post(do func()) {
	if start, _ := s.inbox.put(do, false); start {
		go s.turn()
	}
}

// deliver returns when an event has been worked off and its callbacks have
// returned, or the source is closed.
func (s *Source) deliver(do func()) {
	start, done := s.inbox.put(do, true)
	switch {
	case start:
		s.turn()
	case done != nil:
		<-done
	}
}

// turn works off events until there are none.
func (s *Source) turn() {
	for {
		events, ok := s.inbox.take()
		if !ok {
			return
		}
		for _, ev := range events {
			s.handle(ev.do)
			if ev.done != nil {
				close(ev.done)
			}
		}
		s.handle(s.settle)
	}
}

// handle works off one event and tells the watchers what came of it.
func (s *Source) handle(do func()) {
	s.mu.Lock()
	do()
	s.lead()
	calls := s.calls
	s.calls = nil
	s.mu.Unlock()
	for i := range calls {
		calls[i].make()
	}
	s.recycle(calls)
}

// recycle keeps the list of calls for the next event.
func (s *Source) recycle(calls []call) {
	const keep = 1024
	if cap(calls) == 0 || cap(calls) > keep {
		return
	}
	clear(calls)
	s.mu.Lock()
	if s.calls == nil {
		s.calls = calls[:0]
	}
	s.mu.Unlock()
}

// settle lets the streams send what the events have made due. It comes after a
// batch of events, so that many watches become one request.
func (s *Source) settle() {
	for _, srv := range s.servers {
		for _, l := range srv.links {
			if l.dirty {
				l.dirty = false
				l.wake()
			}
		}
	}
}

// call is one callback that is due.
type call struct {
	x    *watch
	kind callKind
	u    *update
	name string
	err  error
	r    Response
	// member says that it is about a member of what the watch names, final that it is
	// the program's as it is; see [Source.lead].
	member, final bool
}

type callKind uint8

const (
	callChange callKind = iota
	callError
	callAmbient
	callResponse
	callSettled
)

func (c *call) make() {
	if c.x.cancelled.Load() {
		return
	}
	switch c.kind {
	case callChange:
		c.x.sink.change(c.u)
	case callError:
		c.x.sink.error(c.name, c.err)
	case callAmbient:
		c.x.sink.ambient(c.name, c.err)
	case callResponse:
		c.x.sink.response(c.r)
	case callSettled:
		c.x.sink.settled()
	}
}
