package validate

// nodeSet is a set of nodes; most have one member, which costs no allocation.
type nodeSet struct {
	one  *node
	more map[*node]struct{}
}

func (s *nodeSet) len() int {
	if s.one == nil {
		return len(s.more)
	}
	return 1 + len(s.more)
}

func (s *nodeSet) add(n *node) {
	if _, in := s.more[n]; in || s.one == n {
		return
	}
	if s.one == nil {
		s.one = n
		return
	}
	if s.more == nil {
		s.more = map[*node]struct{}{}
	}
	s.more[n] = struct{}{}
}

func (s *nodeSet) remove(n *node) {
	if s.one == n {
		s.one = nil
		return
	}
	delete(s.more, n)
}

// all iterates over the members in no order.
func (s *nodeSet) all(yield func(*node) bool) {
	if s.one != nil && !yield(s.one) {
		return
	}
	for n := range s.more {
		if !yield(n) {
			return
		}
	}
}
