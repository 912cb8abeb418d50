package wire

import (
	"slices"
	"time"
)

// An aggregated stream may also be the streams of a client that has one for each
// type, taken together so that one order holds for them (XS-75). Whoever carries
// them asks for the responses of one type, and takes parts away and in.

// NextOf is Next for one type. What it returns can depend on the others: after a
// publication, after a request of one type, and if NextOf says that it was news to
// the others (it can be without a response), ask for all that Owe something.
func (s *Stream) NextOf(now time.Time, typeURL string) (resp *Response, news bool) {
	x := s.sub(typeURL)
	if s.view == nil || x == nil {
		return nil, false
	}
	before := x.outlook()
	resp = s.nextOf(x, now)
	return resp, resp != nil || x.outlook() != before
}

// outlook is what other types can see of a sub-stream's due resources.
type outlook struct {
	due, refused    int
	sweeps, answers bool
}

func (x *sub) outlook() outlook {
	l := outlook{due: x.due.len(), sweeps: x.sweep != nil, answers: x.mustAnswer}
	for i := range x.due.list {
		if o := &x.due.list[i]; !o.gone && o.blocked == refused {
			l.refused++
		}
	}
	return l
}

func (s *Stream) nextOf(x *sub, now time.Time) *Response {
	for _, removals := range []bool{false, true} {
		if r := x.next(now, removals); r != nil {
			return r
		}
	}
	s.endRollout()
	s.endResumption()
	return nil
}

// DeadlineOf is Deadline for one type.
func (s *Stream) DeadlineOf(typeURL string) time.Time {
	if x := s.sub(typeURL); x != nil {
		return x.deadline()
	}
	return time.Time{}
}

// Owes reports whether something of a type is due, though it may have to wait.
func (s *Stream) Owes(typeURL string) bool {
	x := s.sub(typeURL)
	return x != nil && x.owes()
}

func (x *sub) owes() bool {
	return !x.windowFull() && (x.due.len() > 0 || x.sweep != nil || x.mustAnswer)
}

// InterestsOf is Interests for one type.
func (s *Stream) InterestsOf(typeURL string, visit func(typeURL, name string)) {
	if x := s.sub(typeURL); x != nil {
		x.interests(visit)
	}
}

// Split takes a type out of the stream, into one that carries nothing else and
// goes on where this one was. If nobody wants that, the type is forgotten.
func (s *Stream) Split(typeURL string, cfg Config) *Stream {
	cfg.Only = typeURL
	part := NewStream(cfg)
	part.view, part.seq, part.nonce = s.view, s.seq, s.nonce
	if x := s.sub(typeURL); x != nil {
		s.subs = slices.DeleteFunc(s.subs, func(y *sub) bool { return y == x })
		x.stream = part
		part.subs = []*sub{x}
	}
	return part
}
