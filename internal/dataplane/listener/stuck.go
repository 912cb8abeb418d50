package listener

import "github.com/xebec-proxy/xebec/internal/dataplane/loop"

// The buffers of a connection that have a limit: what is to be sent to the client,
// and what filters hold of what it has sent.
type buffers uint8

const (
	sending buffers = 1 << iota
	holding
)

// stuck is the clock of a connection that holds more than its limit.
type stuck struct {
	full  buffers
	timer loop.Timer
}

// fill says that a buffer is above its limit, or has fallen to half of it. A
// connection that has had a full one for the time that the listener allows is closed
// (LM-13).
func (c *Connection) fill(b buffers, full bool) {
	if c.l.StuckTimeout <= 0 || c.stuck == nil && !full {
		return
	}
	s := c.stuck
	if s == nil {
		s = &stuck{}
		s.timer.Init(c.w.Loop, c.onStuck)
		c.stuck = s
	}
	before := s.full
	if full {
		s.full |= b
	} else {
		s.full &^= b
	}
	switch {
	case s.full == 0:
		s.timer.Stop()
	case before == 0:
		s.timer.Set(c.l.StuckTimeout)
	}
}

func (c *Connection) onStuck() {
	const reason = "buffer_high_watermark_timeout_reached"
	c.closes(reason, reason)
	c.conn.Abort(false)
}
