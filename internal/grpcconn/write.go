package grpcconn

import "time"

// keepOutput is how much memory for output a connection at rest holds.
const keepOutput = 4 << 10

// prepare gives the codec room to write to. It comes before whatever may send.
func (c *Conn) prepare() {
	if c.out != nil {
		return
	}
	if p, ok := c.spare.Get().(*[]byte); ok {
		c.out = *p
	}
}

// push writes what there is to write, as far as that needs no waiting, and
// leaves the rest to a goroutine.
func (c *Conn) push() {
	for !c.flushing && c.err == nil && c.unsent == nil && (len(c.out) > 0 || c.sock.pending()) {
		n, err := c.sock.tryWrite(c.out)
		if err != nil {
			c.cannotSend(err)
			return
		}
		if n < len(c.out) || c.sock.pending() {
			c.out = c.out[n:]
			c.flushing = true
			c.wg.Add(1)
			go c.flush()
			return
		}
		c.out = c.out[:0]
		c.goOn()
	}
	if len(c.out) == 0 && cap(c.out) > keepOutput {
		c.recycle(c.out)
		c.out = nil
	}
}

// lastWords is how long a server that takes nothing more is listened to.
const lastWords = time.Second

// cannotSend ends the connection as soon as is read what the server said before
// it hung up: that tells why it did.
func (c *Conn) cannotSend(err error) {
	c.unsent = brokenBy(err)
	c.sock.hurry()
	if c.ready {
		c.attend()
	}
}

// goOn lets the codec go on where it waits for room.
func (c *Conn) goOn() {
	if c.full {
		c.full = false
		c.h2.Continue()
	}
}

// recycle keeps memory for the next output, where the garbage collector can
// take it.
func (c *Conn) recycle(b []byte) {
	if cap(b) > 0 {
		b = b[:0]
		c.spare.Put(&b)
	}
}

// flush writes until there is nothing more to write.
func (c *Conn) flush() {
	defer c.wg.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.unsent == nil && (len(c.out) > 0 || c.sock.pending()) {
		b := c.out
		c.out = nil
		c.mu.Unlock()
		err := c.sock.write(b)
		c.mu.Lock()
		c.recycle(b)
		if err != nil {
			c.cannotSend(err)
			break
		}
		c.prepare()
		c.goOn()
		c.flushing = false
		c.settle()
		if c.flushing {
			return // to another goroutine
		}
	}
	c.flushing = false
}
