package loop

import (
	"errors"
	"io"
)

// Transport is a transport socket other than raw bytes: a TLS session. It is
// confined to the loop but for what Start runs by itself.
type Transport interface {
	// Start begins the handshake. post runs functions on the loop; onOutput says
	// that there is something to send, done how the handshake ended.
	Start(post func(func()) bool, onOutput func(), done func(error))
	// Borrow takes received bytes until Settle, which copies what is left of
	// them. FeedEOF says that there will be no more.
	Borrow(received []byte)
	Settle()
	FeedEOF()
	// Buffered is how much was received and not read.
	Buffered() int
	// Read gives what was received: ErrAgain when there is nothing yet, io.EOF at
	// the peer's orderly end, io.ErrUnexpectedEOF at another.
	Read(dst []byte) (int, error)
	// Write takes bytes to send, Output and Consumed hand out what they became.
	Write(data []byte) error
	Output() []byte
	Consumed(n int)
	// Protocol is what was agreed on by ALPN when the handshake is done, or "".
	Protocol() string
	// CloseNotify ends the sending direction in order, Abort gives up.
	CloseNotify()
	Abort(err error)
}

// ErrAgain is what Transport.Read gives when there is nothing to read yet.
var ErrAgain = errors.New("nothing to read yet")

// SetTransport puts a transport socket on the connection and starts its
// handshake; OnOpen says when it is done.
func (c *Conn) SetTransport(t Transport) {
	c.transport = t
	if c.state == established {
		c.state = handshaking
		c.startTransport()
	}
}

func (c *Conn) startTransport() {
	t := c.transport
	t.Start(c.loop.Post, func() {
		if c.state != closed {
			c.Touch()
		}
	}, func(err error) {
		if c.state == closed {
			return
		}
		if err != nil {
			c.Touch()
			c.flush(false) // an alert
			c.end(TransportFailed, err, false)
			return
		}
		c.stopTimer()
		c.state = established
		c.ask()
		c.later = uint32(len(c.transport.Output())) //nolint:gosec // one turn makes far less
		if len(c.out) > 0 {
			c.Touch()
		}
		c.h.OnOpen()
		c.readTransport()
	})
}

func (c *Conn) readTransport() {
	if c.transport == nil {
		return
	}
	if c.loop.plain == nil {
		c.loop.plain = make([]byte, scratchSize)
	}
	for c.state == established && c.paused == 0 && !c.ended {
		n, err := c.fill(c.loop.plain)
		if n > 0 && !c.closing {
			c.h.OnData(c.loop.plain[:n])
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrAgain):
			c.transportSent()
			return
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			c.peerEnded()
		default:
			c.end(RemoteReset, err, false)
		}
	}
	c.transportSent()
}

// fill collects the transport's records, so that one callback has them all.
func (c *Conn) fill(dst []byte) (n int, err error) {
	const record = 16 << 10
	for err == nil && len(dst)-n >= record {
		var k int
		k, err = c.transport.Read(dst[n:])
		n += k
	}
	return n, err
}

// transportSent sends what reading made the transport want to send.
func (c *Conn) transportSent() {
	if c.state != closed && len(c.transport.Output()) > int(c.later) {
		c.Touch()
	}
}

// unsentTransport hands the output to the transport and is what that has to
// send.
func (c *Conn) unsentTransport() ([]byte, error) {
	if c.state == established && len(c.out) > 0 {
		if err := c.transport.Write(c.out); err != nil {
			return nil, err //nolint:wrapcheck // the transport says what it is
		}
		c.out = c.out[:0]
	}
	c.later = 0
	if c.closing && c.delay == 0 && !c.ended && c.state == established && !c.noticed {
		c.noticed = true
		c.transport.CloseNotify() // in one piece with the last data
	}
	return c.transport.Output(), nil
}
