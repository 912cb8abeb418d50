package loop

// outgoing is what one connection sends at the end of a turn.
type outgoing struct {
	conn *Conn
	data []byte // none: nothing is to be sent now
	sent int
	err  error
}

// sender sends for many connections at once: what each took and why it failed
// is in the slice afterwards. It does not block and keeps nothing.
type sender interface {
	send(out []outgoing)
}

// sendDirty sends what connections were given to send. Callbacks may give them
// more, which comes in the next round.
func (l *Loop) sendDirty() {
	if l.together != nil && len(l.dirty) > 1 {
		l.sendTogether()
		return
	}
	for i := 0; i < len(l.dirty); i++ {
		c := l.dirty[i]
		l.dirty[i] = nil
		c.dirty = false
		c.flush(false)
	}
	l.dirty = l.dirty[:0]
}

// sendTogether is sendDirty in few system calls. Every connection knows what
// was sent of its output before the first callback runs, which may write to
// any of them.
func (l *Loop) sendTogether() {
	for i, c := range l.dirty {
		l.dirty[i] = nil
		c.dirty = false
		l.outgoing = append(l.outgoing, c.outgoing())
	}
	l.dirty = l.dirty[:0]
	l.together.send(l.outgoing)
	for i := range l.outgoing {
		if o := &l.outgoing[i]; len(o.data) > 0 && o.err == nil {
			o.conn.took(o.sent, len(o.data))
		}
	}
	for i := range l.outgoing {
		o := l.outgoing[i]
		l.outgoing[i] = outgoing{}
		o.conn.wasSent(&o)
	}
	l.outgoing = l.outgoing[:0]
}

// outgoing is what the connection has to send, unless the system is known to
// take nothing now. The end of a connection is to follow its last bytes at once,
// so that its peer is woken once: such a connection sends by itself.
func (c *Conn) outgoing() outgoing {
	o := outgoing{conn: c}
	if !c.blocked && !c.closing && c.state != connecting && c.state != closed {
		o.data, o.err = c.unsent()
	}
	return o
}

// wasSent does what follows when output was sent. A callback may have closed
// the connection since.
func (c *Conn) wasSent(o *outgoing) {
	switch {
	case c.state == closed:
	case o.err != nil:
		c.end(RemoteReset, o.err, false)
	case len(o.data) == 0:
		c.flush(false)
	default:
		c.flushed(o.sent > 0)
	}
}
