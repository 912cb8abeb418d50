package engine

// http2Server is a connection of the upstream: it answers every request that
// has come to its end.
type http2Server struct {
	*http2Conn
	grpc     bool
	head     blocks
	trailers blocks
	prefaced bool
}

// maxStreams is what the upstream allows on a connection.
const maxStreams = 1024

func (l *Load) acceptHTTP2(fd int) {
	s := &http2Server{
		http2Conn: newHTTP2Conn(l.loop, fd, l.response2), grpc: l.options.GRPC, head: l.head2, trailers: l.trailers2,
	}
	s.http2Conn.frame = s.handleFrame
	s.unblocked = func(id uint32) { s.send(id, true) }
	s.closed = func() {}
	s.settings(0, 3, 0, 0, maxStreams>>8, maxStreams&0xff)
	l.loop.add(fd, s)
	s.flush()
}

func (s *http2Server) handleFrame(kind, flags byte, id uint32, _ []byte) {
	if (kind == frameData || kind == frameHeaders) && flags&flagEnd != 0 {
		s.respond(id)
	}
}

func (s *http2Server) respond(id uint32) {
	wait := s.window < len(s.body) || len(s.blocked) > 0
	block := s.head.next
	switch {
	case s.table < fullTable || s.grpc && wait && !s.sent:
		block = s.head.plain
	case !s.sent:
		block = s.head.first
		s.sent = !s.grpc // with gRPC, it is the trailers that complete the table
	}
	if !s.grpc && len(s.body) == 0 {
		s.headers(id, block, flagEnd)
		return
	}
	s.headers(id, block, 0)
	if s.room(id) {
		s.send(id, false)
	}
}

// send sends body and trailers. A late one has trailers without a table, as
// others may have been sent between its head and them.
func (s *http2Server) send(id uint32, late bool) {
	s.data(id, !s.grpc)
	if !s.grpc {
		return
	}
	block := s.trailers.next
	switch {
	case s.table < fullTable || late:
		block = s.trailers.plain
	case !s.sent:
		block, s.sent = s.trailers.first, true
	}
	s.headers(id, block, flagEnd)
}

func (s *http2Server) ready(events uint32) {
	if s.prefaced || events&^writable == 0 {
		s.http2Conn.ready(events)
		return
	}
	b, closed := s.loop.read(s.fd)
	if closed {
		s.loop.close(s.fd)
		return
	}
	s.in = append(s.in, b...)
	if len(s.in) < len(preface) {
		return
	}
	s.prefaced = true
	s.in = append(s.in[:0], s.frames(s.in[len(preface):])...)
	s.flush()
}
