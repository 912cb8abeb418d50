package grpcconn

import (
	"errors"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// standInAfter is how long nobody reads, at least, before the connection does it
// itself; at most twice as long. Peers wait longer than that for an answer to a
// PING, and a timer that is set once a second costs little.
const standInAfter = time.Second

// lead reads once, and gives the streams what came. The lock is given up
// meanwhile; the caller knows that nobody else reads.
func (c *Conn) lead() {
	c.reading = true
	c.mu.Unlock()
	b, err := c.sock.receive()
	c.mu.Lock()
	c.reading = false
	c.feed(b)
	c.sock.release()
	if c.poked {
		c.poked = false
		c.sock.calm()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
		if c.unsent != nil {
			c.sock.hurry()
		}
	}
	if err != nil {
		c.broken(err)
	}
}

// feed works off what came.
func (c *Conn) feed(b []byte) {
	if len(b) == 0 || c.err != nil {
		return
	}
	c.lastRead = time.Now()
	c.prepare()
	err := c.h2.Feed(b)
	c.settle()
	if e, ok := errors.AsType[*http2.ConnError](err); ok {
		c.fail(e.Code, status.Errorf(codes.Internal, "the server broke the rules of HTTP/2: %s (%s)", e.Reason, e.Code))
	}
}

// leave is called by who has been in Recv: of the others one reads from now on.
// If there is none, somebody stands in after a while.
func (c *Conn) leave() {
	if c.reading || c.err != nil {
		return
	}
	if s := c.follower(); s != nil {
		s.news.Broadcast()
		return
	}
	c.left++
	if !c.armed {
		c.arm()
	}
}

// follower is a stream that waits for somebody else to read.
func (c *Conn) follower() *Stream {
	for _, s := range c.streams {
		if s.waiting {
			return s
		}
	}
	return nil
}

func (c *Conn) arm() {
	c.armed, c.armedAt = true, c.left
	if c.standInTimer == nil {
		c.standInTimer = time.AfterFunc(standInAfter, c.onStandIn)
		return
	}
	c.standInTimer.Reset(standInAfter)
}

// onStandIn looks whether somebody has been in Recv since the timer was set. It
// is not set for each message: that would cost more than the message does.
func (c *Conn) onStandIn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	switch {
	case c.err != nil || c.reading:
	case c.left != c.armedAt:
		c.arm()
	default:
		c.wg.Add(1)
		c.standIn()
	}
}

// standIn reads until somebody else can.
func (c *Conn) standIn() {
	defer c.wg.Done()
	for c.err == nil && !c.reading && c.follower() == nil {
		c.lead()
	}
	c.leave()
}

// attend has somebody read who waits for the server to take more.
func (c *Conn) attend() {
	if c.reading || c.err != nil || c.follower() != nil {
		return
	}
	c.wg.Add(1)
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.standIn()
	}()
}
