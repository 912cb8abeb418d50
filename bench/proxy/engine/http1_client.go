package engine

import (
	"errors"
	"fmt"
)

// http1Client is a connection to the proxy with one request under way at most.
type http1Client struct {
	load  *Load
	fd    int
	in    []byte // the beginning of a head
	body  int    // bytes of the response's body still to come
	left  []byte // what is still to be sent of the request
	begun int64  // when the request was due
	busy  bool   // a request is under way
}

func (c *http1Client) send(due int64) {
	c.begun, c.busy = due, true
	n := write(c.fd, c.load.request1)
	if c.left = c.load.request1[n:]; len(c.left) > 0 {
		c.load.loop.wantWrite(c.fd, true)
	}
}

func (c *http1Client) ready(events uint32) {
	if events&writable != 0 && len(c.left) > 0 {
		c.left = c.left[write(c.fd, c.left):]
		if len(c.left) == 0 {
			c.load.loop.wantWrite(c.fd, false)
		}
	}
	if events&^writable == 0 {
		return
	}
	b, closed := c.load.loop.read(c.fd)
	if closed {
		c.reopen()
		return
	}
	c.load.bytes += int64(len(b))
	if c.body > 0 {
		c.received(len(b))
		return
	}
	if len(c.in) > 0 {
		c.in = append(c.in, b...)
		b = c.in
	}
	c.head(b)
}

func (c *http1Client) head(b []byte) {
	n := headLength(b)
	if n < 0 {
		c.in = append(c.in[:0], b...)
		return
	}
	c.body = contentLength(b[:n])
	if c.body < 0 {
		c.load.loop.fail(fmt.Errorf("a response without Content-Length: %q", b[:n]))
		return
	}
	if !is200(b[:n]) || c.body != c.load.options.ResponseBody {
		c.load.wrong++
	}
	c.in = c.in[:0]
	c.received(len(b) - n)
}

func (c *http1Client) received(n int) {
	c.body -= n
	switch {
	case c.body == 0:
		c.done()
	case c.body < 0:
		c.load.loop.fail(errors.New("a response is longer than its Content-Length"))
	}
}

func (c *http1Client) done() {
	now := c.load.loop.now()
	c.load.record(now - c.begun)
	c.busy = false
	if due, ok := c.load.next(now); ok {
		c.send(due)
		return
	}
	c.load.idle1 = append(c.load.idle1, c)
}

// reopen replaces a connection that the proxy closed. If it did so under a
// request, that is an error, but not the end: the request is sent again.
func (c *http1Client) reopen() {
	if c.load.reopened++; c.load.reopened > maxReopened {
		c.load.loop.fail(errors.New("the proxy closes connections all the time"))
		return
	}
	c.load.loop.close(c.fd)
	fd, err := dial(c.load.options.Target)
	if err != nil {
		c.load.loop.fail(err)
		return
	}
	c.fd, c.in, c.body = fd, c.in[:0], 0
	c.load.loop.add(fd, c)
	if c.busy {
		c.load.wrong++
		c.send(c.begun)
	}
}
