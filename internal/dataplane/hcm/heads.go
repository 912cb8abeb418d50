package hcm

// Heads of requests that came together go in steps that each fit into a core's cache:
// all have their routes before a filter sees the first (decision 16). Over HTTP/2 they
// came in one read, over HTTP/1 in the reads of several connections of a turn.

// routedHead is a request's head that has its route and filters.
type routedHead struct {
	s   *Stream
	gen uint64
	end bool
}

// mostHeads is how many heads of several connections wait at most: they have to be in
// the cache themselves.
const mostHeads = 32

// put keeps a head until tellHeads.
func (sv *Server) put(s *Stream, end bool) {
	sv.heads = append(sv.heads, routedHead{s, s.gen, end})
}

// gather keeps the head of a request without a body until those of other connections
// have their routes as well.
func (sv *Server) gather(s *Stream) {
	switch len(sv.heads) {
	case mostHeads:
		sv.tellHeads()
	case 0:
		sv.W.Loop.AfterAll(sv.tell)
	}
	sv.put(s, true)
}

// tellHeads gives the heads that wait to their filters.
func (sv *Server) tellHeads() {
	heads := sv.heads
	for i := range heads {
		e := heads[i]
		heads[i] = routedHead{}
		if e.s.gen == e.gen && !e.s.finished {
			e.s.chain.DecodeHeaders(&e.s.req, e.end)
		}
	}
	sv.heads = heads[:0]
}
