package loop

import (
	"errors"
	"io"
	"math"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// Handler is told of a connection's events, on its loop.
type Handler interface {
	// OnOpen says that the connection can be used: connected, and its transport
	// socket's handshake done. It comes once, and not for accepted connections
	// without a transport.
	OnOpen()
	// OnData brings bytes that were received. They are valid during the call.
	OnData(data []byte)
	// OnEnd says that the peer sends no more.
	OnEnd()
	// OnBlocked says that more output waits than the high watermark allows.
	OnBlocked()
	// OnDrained says that output has fallen to half of it again.
	OnDrained()
	// OnClose says that the connection is gone. It comes once, whoever closed.
	OnClose(why Reason, err error)
}

// Reason is why a connection ended.
type Reason uint8

// Reasons.
const (
	// Local: this side closed it.
	Local Reason = iota
	// RemoteReset: the peer reset it, or reading or writing failed.
	RemoteReset
	// RemoteEnd: the peer closed it, and the handler closed nothing itself.
	RemoteEnd
	// ConnectFailed: it never was connected.
	ConnectFailed
	// TransportFailed: the handshake of its transport socket failed.
	TransportFailed
)

// socket is a connection's operating-system side. Its methods do not block.
type socket interface {
	// send sends what the system takes now of the two pieces.
	send(a, b []byte) (int, error)
	// want sets what events are asked for.
	want(read, write bool)
	// closeWrite ends the sending direction.
	closeWrite()
	// close frees it; with abort the peer gets a reset.
	close(abort bool)
	localAddr() filter.Address
	// adopt makes it another connection's.
	adopt(c *Conn)
}

type connState uint8

const (
	connecting connState = iota
	handshaking
	established
	lingering // everything is sent, the peer is given time to read it
	closed
)

// Conn is one connection of a loop. Confined to the loop.
type Conn struct {
	loop *Loop
	h    Handler
	sock socket

	out       []byte // what waits to be sent, before the transport
	delay     time.Duration
	patience  time.Duration // see SetFlushTimeout
	transport Transport
	timer     *Timer // connect timeout, then flush timeout and delayed close; nil without

	sent, received uint64
	own            fdSocket // what sock is, where there are descriptors

	// What is small stands together: there may be many idle connections.
	high      uint32
	later     uint32 // output of the transport that waits for company
	blockedAt int32  // in the loop's list
	paused    int32
	state     connState
	dirty     bool
	// blocked: the system took less than it was given.
	blocked  bool
	overHigh bool
	ended    bool // the peer sends no more
	eof      bool // nor does its socket
	finAfter bool // end the sending direction once all is sent
	finSent  bool
	closing  bool // close once all is sent
	reading  bool // what was last asked of the system
	writing  bool
	noticed  bool // the transport has said that this side ends
	late     bool // see ReceiveLate
}

// DefaultHigh is the high watermark of a connection's output
// (per_connection_buffer_limit_bytes, LM-13).
const DefaultHigh = 1 << 20

func (l *Loop) newConn(h Handler) *Conn {
	l.open++
	return &Conn{loop: l, h: h, high: DefaultHigh}
}

func (c *Conn) setTimer(d time.Duration) {
	if c.timer == nil {
		c.timer = &Timer{}
		c.timer.Init(c.loop, c.expire)
	}
	c.timer.Set(d)
}

// stopTimer gives the timer up: an open connection has no use for one.
func (c *Conn) stopTimer() {
	if c.timer != nil {
		c.timer.Unlink()
		c.timer = nil
	}
}

// SetHandler makes h the handler.
func (c *Conn) SetHandler(h Handler) { c.h = h }

// Handler is the handler.
func (c *Conn) Handler() Handler { return c.h }

// Loop is the connection's loop.
func (c *Conn) Loop() *Loop { return c.loop }

// SetHigh sets the high watermark in bytes. One receive brings no more than that
// either, but for small ones.
func (c *Conn) SetHigh(n int) { c.high = uint32(min(max(n, 1), math.MaxInt32)) }

// mostReceived is how much one receive may bring: where little output may wait,
// little is to come that it could be made of.
func (c *Conn) mostReceived() int { return min(scratchSize, max(int(c.high), leastReceived)) }

// leastReceived is how much one receive may bring whatever the limit: the largest
// record of TLS.
const leastReceived = 16 << 10

// ReceiveLate says that one receive may bring many messages. It is made when the turn
// has done with what came on other connections, so that there are more of them by then.
func (c *Conn) ReceiveLate() { c.late = true }

// Closed reports whether the connection is closed or about to be.
func (c *Conn) Closed() bool { return c.state == closed || c.closing || c.state == lingering }

// Local is the address of this end: a system call.
func (c *Conn) Local() filter.Address { return c.sock.localAddr() }

// Sent is the number of bytes that were sent, on the wire.
func (c *Conn) Sent() uint64 { return c.sent }

// Received is the number of bytes that were received, on the wire.
func (c *Conn) Received() uint64 { return c.received }

// Buffered is the number of bytes that wait to be sent.
func (c *Conn) Buffered() int { return len(c.out) }

// Waiting is Buffered with what the transport has made ready to be sent.
func (c *Conn) Waiting() int {
	n := len(c.out)
	if c.transport != nil {
		n += len(c.transport.Output())
	}
	return n
}

// Writer is the output to append to. What is appended is sent at the end of
// the turn. The pointer stays valid while the connection lives, but each turn's
// first use must ask for it again.
func (c *Conn) Writer() *[]byte {
	if c.out == nil {
		c.out = c.loop.borrow()
	}
	c.Touch()
	return &c.out
}

// Touch says that there may be something to send.
func (c *Conn) Touch() {
	if !c.dirty {
		c.dirty = true
		c.loop.dirty = append(c.loop.dirty, c)
	}
}

// Write copies bytes to the output.
func (c *Conn) Write(data []byte) {
	w := c.Writer()
	*w = append(*w, data...)
}

// directSize is from where bytes are sent at once, together with what is
// waiting, instead of being copied behind it.
const directSize = 4 << 10

// WriteBody is Write for what may be large: it is sent without a copy if the
// system takes it now.
func (c *Conn) WriteBody(data []byte) {
	if len(data) < directSize || c.blocked || c.transport != nil || c.state != established {
		c.Write(data)
		return
	}
	n, err := c.sock.send(c.out, data)
	if err != nil {
		c.Touch() // flush meets the error again and reports it
		n = 0
	}
	c.sent += uint64(n)
	if k := min(n, len(c.out)); k > 0 {
		c.out = c.out[:copy(c.out, c.out[k:])]
		n -= k
	}
	if n < len(data) {
		c.Write(data[n:])
	}
}

// CloseWrite ends the sending direction once everything is sent.
func (c *Conn) CloseWrite() {
	c.finAfter = true
	c.Touch()
}

// WriteClosed reports whether CloseWrite was called.
func (c *Conn) WriteClosed() bool { return c.finAfter }

// Pause stops reading; each Pause needs a Resume.
func (c *Conn) Pause() {
	c.paused++
	if c.paused == 1 {
		c.ask()
	}
}

// Resume undoes a Pause.
func (c *Conn) Resume() {
	c.paused--
	if c.paused > 0 {
		return
	}
	c.ask()
	switch {
	case c.transport != nil && c.state == established:
		c.loop.AtEnd(c.readTransport) // what was received and not read
	case c.loop.withheld[c] != nil:
		c.loop.AtEnd(func() {
			if c.paused == 0 {
				c.deliverWithheld()
			}
		})
	}
}

// withhold keeps bytes that were received before the connection was paused.
func (c *Conn) withhold(data []byte) {
	if len(data) == 0 {
		return
	}
	if c.loop.withheld == nil {
		c.loop.withheld = map[*Conn][]byte{}
	}
	c.loop.withheld[c] = append(c.loop.withheld[c], data...)
}

// deliverWithheld hands over what was withheld, if anything was.
func (c *Conn) deliverWithheld() {
	if data := c.loop.withheld[c]; data != nil {
		delete(c.loop.withheld, c)
		c.deliver(data)
	}
}

// Paused reports whether reading is stopped.
func (c *Conn) Paused() bool { return c.paused > 0 }

// SetFlushTimeout bounds how long a closing connection waits for a peer that
// takes nothing of what is still to be sent (delayed_close_timeout, HC-25).
// Default 0: without end.
func (c *Conn) SetFlushTimeout(d time.Duration) { c.patience = d }

// Close closes the connection once everything is sent. After that the peer is
// given so long to read it and close by itself; 0 closes at once. What the peer
// sends from now on is thrown away.
func (c *Conn) Close(delay time.Duration) {
	if c.closing || c.state >= lingering {
		return
	}
	c.closing, c.delay = true, delay
	c.Touch()
}

// Abort closes the connection at once; what waits is lost. With reset the peer
// gets a reset instead of an end.
func (c *Conn) Abort(reset bool) { c.end(Local, nil, reset) }

// Redeliver gives bytes to the connection as if they were received now.
func (c *Conn) Redeliver(data []byte) { c.deliver(data) }

// deliver takes received bytes.
func (c *Conn) deliver(data []byte) {
	if c.state >= lingering || c.closing && c.transport == nil {
		return
	}
	if c.transport == nil {
		c.h.OnData(data)
		return
	}
	c.transport.Borrow(data)
	if c.state == established {
		c.readTransport()
	}
	if c.state == closed {
		return
	}
	c.transport.Settle()
	if c.state == handshaking && c.transport.Buffered() > maxHandshake {
		c.end(TransportFailed, errHandshake, false)
	}
}

// maxHandshake bounds what a peer may send before its handshake is done.
const maxHandshake = 256 << 10

var errHandshake = errors.New("too much was sent before the end of the handshake")

// socketEnded takes the end of what the peer sends.
func (c *Conn) socketEnded() {
	switch {
	case c.state == lingering:
		c.end(Local, nil, false)
	case c.state == handshaking:
		c.transport.FeedEOF()
		c.transport.Abort(io.ErrUnexpectedEOF)
		c.end(TransportFailed, io.ErrUnexpectedEOF, false)
	case c.state == established && c.transport != nil:
		c.transport.FeedEOF()
		c.readTransport()
		c.eof = true
		c.ask()
	case c.state == established:
		c.peerEnded()
	}
}

func (c *Conn) peerEnded() {
	if c.ended {
		return
	}
	c.ended = true
	c.ask()
	if c.closing {
		return
	}
	c.h.OnEnd()
}

// ask tells the system what events are wanted.
func (c *Conn) ask() {
	if c.state == closed {
		return
	}
	read := (c.paused == 0 || c.state == lingering) && !c.ended && !c.eof && c.state != connecting
	write := c.blocked || c.state == connecting
	if read != c.reading || write != c.writing {
		c.reading, c.writing = read, write
		c.sock.want(read, write)
	}
}

func (c *Conn) shutdownWrite() {
	if c.transport != nil && c.state == established {
		c.transport.CloseNotify()
		_ = c.sendAll()
	}
	if c.state != closed {
		c.sock.closeWrite()
	}
}

// linger gives the peer time to read and close: closing at once could make the
// system reset the connection and lose the last bytes (HC-25).
func (c *Conn) linger() {
	c.shutdownWrite()
	if c.state == closed {
		return
	}
	c.state = lingering
	c.ask()
	c.setTimer(c.delay)
}

// expire is the timer: the peer did not connect, read or close in time.
func (c *Conn) expire() {
	switch c.state {
	case connecting, handshaking:
		c.end(ConnectFailed, errTimeout, false)
	case established, lingering:
		c.end(Local, errDelayed, false)
	}
}

var (
	errTimeout = errors.New("connect timeout")
	// errDelayed is what OnClose gets when the peer did not close within the delay.
	errDelayed = errors.New("delayed close timeout")
)

// IsTimeout reports whether a connection failed since connecting took too long.
func IsTimeout(err error) bool { return errors.Is(err, errTimeout) }

// IsDelayedClose reports whether the peer had to be cut off after the delay.
func IsDelayedClose(err error) bool { return errors.Is(err, errDelayed) }

// end closes the connection, tells the handler and frees what it holds.
func (c *Conn) end(why Reason, err error, abort bool) {
	if c.state == closed {
		return
	}
	if c.transport != nil {
		if why == Local && c.state == established && !abort && !c.finSent && !c.noticed && !c.ended {
			c.transport.CloseNotify()
			if o := c.transport.Output(); len(o) > 0 && !c.blocked {
				_, _ = c.sock.send(o, nil)
			}
		}
		c.transport.Abort(err)
	}
	c.state = closed
	if c.out != nil {
		c.reclaim()
	}
	if c.blocked {
		c.blocked = false
		c.loop.noteBlocked(c)
	}
	c.loop.open--
	delete(c.loop.withheld, c)
	c.stopTimer()
	c.sock.close(abort)
	if c.out != nil {
		c.loop.giveBack(c.out)
		c.out = nil
	}
	c.h.OnClose(why, err)
}

// connected ends the connecting state.
func (c *Conn) connected() {
	if c.transport != nil {
		c.state = handshaking
		c.ask()
		c.startTransport()
		return
	}
	c.stopTimer()
	c.state = established
	c.ask()
	c.h.OnOpen()
	c.Touch()
}
