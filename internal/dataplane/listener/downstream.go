package listener

import "time"

// Downstream is the connection as a built-in session writes to it: straight to
// the loop's connection, unless write filters stand between.
type Downstream interface {
	Writer() *[]byte
	WriteBody(data []byte)
	Pause()
	Resume()
	Close(delay time.Duration)
	SetFlushTimeout(d time.Duration)
	ReceiveLate()
	Abort(reset bool)
	CloseWrite()
	Closed() bool
	Buffered() int
	Sent() uint64
	Received() uint64
}

// Downstream is what a session writes to.
func (c *Connection) Downstream() Downstream {
	if c.net != nil && c.net.hasWriters() {
		return &filtered{Connection: c, n: c.net}
	}
	return c.conn
}

// filtered sends what a session writes through the write filters at the end of
// the turn.
type filtered struct {
	*Connection
	n       *netChain
	out     []byte
	pending bool
	fin     bool
	closing bool
	delay   time.Duration
}

func (f *filtered) Writer() *[]byte {
	f.later()
	return &f.out
}

func (f *filtered) later() {
	if !f.pending {
		f.pending = true
		f.w.Loop.AtEnd(f.pass)
	}
}

func (f *filtered) pass() {
	f.pending = false
	if len(f.out) > 0 || f.fin {
		f.n.write(len(f.n.entries), f.out, f.fin)
		f.out = f.out[:0]
	}
	if f.closing {
		f.conn.Close(f.delay)
	}
}

func (f *filtered) WriteBody(data []byte) {
	f.later()
	f.out = append(f.out, data...)
}

func (f *filtered) CloseWrite() {
	f.fin = true
	f.later()
}

func (f *filtered) Close(delay time.Duration) {
	f.closing, f.delay = true, delay
	f.later()
}

func (f *filtered) SetFlushTimeout(d time.Duration) { f.conn.SetFlushTimeout(d) }

func (f *filtered) ReceiveLate() { f.conn.ReceiveLate() }

func (f *filtered) Pause()           { f.conn.Pause() }
func (f *filtered) Resume()          { f.conn.Resume() }
func (f *filtered) Abort(reset bool) { f.conn.Abort(reset) }
func (f *filtered) Closed() bool     { return f.conn.Closed() || f.closing }
func (f *filtered) Buffered() int    { return f.conn.Buffered() + len(f.out) }
func (f *filtered) Sent() uint64     { return f.conn.Sent() }
func (f *filtered) Received() uint64 { return f.conn.Received() }
