package engine

// http1Server is a connection of the upstream: it answers every request with
// the same bytes, once it has read it whole.
type http1Server struct {
	loop     *Loop
	fd       int
	response []byte
	in       []byte // the beginning of a head
	left     []byte // what is still to be sent of a response
	waiting  bool   // for the socket to be writable
	body     int    // bytes of the request's body still to come
}

func (s *http1Server) ready(events uint32) {
	if events&writable != 0 && len(s.left) > 0 {
		s.send(s.left)
	}
	if events&^writable == 0 {
		return
	}
	b, closed := s.loop.read(s.fd)
	if closed {
		s.loop.close(s.fd)
		return
	}
	if len(s.in) > 0 {
		s.in = append(s.in, b...)
		b = s.in
	}
	s.in = append(s.in[:0], s.answer(b)...)
}

// answer answers the requests in b and returns what is left of it.
func (s *http1Server) answer(b []byte) []byte {
	for len(b) > 0 {
		if s.body == 0 {
			n := headLength(b)
			if n < 0 {
				return b
			}
			s.body = max(contentLength(b[:n]), 0)
			b = b[n:]
		}
		n := min(s.body, len(b))
		s.body -= n
		b = b[n:]
		if s.body == 0 {
			s.send(s.response)
		}
	}
	return b
}

func (s *http1Server) send(p []byte) {
	s.left = p[write(s.fd, p):]
	if (len(s.left) > 0) != s.waiting {
		s.waiting = !s.waiting
		s.loop.wantWrite(s.fd, s.waiting)
	}
}
