package http2

import "github.com/xebec-proxy/xebec/filter/header"

// While the heads of a batch are told, the heads of requests that they lead to wait,
// and are then written one after the other: for the reason of the batch itself.

// laterHead is a request's head that waits. The stream is nil if it was closed
// meanwhile.
type laterHead struct {
	s   *Stream
	h   *header.Map
	end bool
}

// OpenStreamLater is OpenStream, but that the head may be written when the handler
// of the connection whose head is told just now has returned, of this worker. Until
// that h must not change. What is sent after it stays behind it.
func (c *Conn) OpenStreamLater(h *header.Map, end bool, resp, trailers *header.Map, user any) (*Stream, error) {
	if !c.pool.telling {
		return c.OpenStream(h, end, resp, trailers, user)
	}
	if err := c.canOpen(); err != nil {
		return nil, err
	}
	s := c.openStream(h, end, resp, trailers, user)
	s.later, c.later = true, true
	c.pool.heads = append(c.pool.heads, laterHead{s, h, end})
	return s, nil
}

// writeLater writes the heads that wait of this connection: something is to be
// written behind them.
func (c *Conn) writeLater() {
	c.later = false
	for i := range c.pool.heads {
		if e := &c.pool.heads[i]; e.s != nil && e.s.c == c {
			e.write()
		}
	}
}

// forgetLater takes a stream out that was closed.
func (c *Conn) forgetLater(s *Stream) {
	for i := range c.pool.heads {
		if e := &c.pool.heads[i]; e.s == s {
			*e = laterHead{}
		}
	}
}

func (e *laterHead) write() {
	s, h, end := e.s, e.h, e.end
	*e = laterHead{}
	s.later = false
	s.c.writeHeaders(s, h, end)
}

// writeLater writes all heads that wait.
func (p *Pool) writeLater() {
	for i := range p.heads {
		if e := &p.heads[i]; e.s != nil {
			e.s.c.later = false // else those behind it would come first
			e.write()
		}
	}
	p.heads = p.heads[:0]
}
