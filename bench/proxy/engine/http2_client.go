package engine

// ring is how many streams of a connection are remembered; it exceeds how many
// there can be at once.
const ring = 4096

// http2Client is a connection to the proxy.
type http2Client struct {
	*http2Conn
	load    *Load
	request blocks
	nextID  uint32
	free    int // streams that may still be opened
	streams [ring]http2Request
}

type http2Request struct {
	begun int64 // when it was due
	got   int   // bytes of the body
	ok    bool
}

func (l *Load) openHTTP2(fd int) *http2Client {
	c := &http2Client{
		http2Conn: newHTTP2Conn(l.loop, fd, l.request2), load: l, request: l.requestHead2, nextID: 1, free: l.options.Streams,
	}
	c.http2Conn.frame = c.handleFrame
	c.unblocked = func(id uint32) { c.data(id, true) }
	c.closed = func() { l.loop.fail(errGoAway) }
	c.out = append(c.out, preface...)
	c.settings()
	l.loop.add(fd, c)
	return c
}

func (c *http2Client) stream(id uint32) *http2Request { return &c.streams[id>>1%ring] }

func (c *http2Client) send(due int64) {
	id := c.nextID
	c.nextID += 2
	c.free--
	*c.stream(id) = http2Request{begun: due}
	block := c.request.next
	if !c.sent {
		block, c.sent = c.request.first, true
	}
	if len(c.body) == 0 {
		c.headers(id, block, flagEnd)
		return
	}
	c.headers(id, block, 0)
	if c.room(id) {
		c.data(id, true)
	}
}

func (c *http2Client) handleFrame(kind, flags byte, id uint32, p []byte) {
	switch kind {
	case frameData:
		c.load.bytes += int64(len(p))
		c.stream(id).got += len(p)
	case frameHeaders:
		c.load.bytes += int64(len(p))
		if s := c.stream(id); s.got == 0 && blockStatus200(p) {
			s.ok = true
		}
	case frameReset:
		c.stream(id).ok = false
		flags = flagEnd
	case frameGoAway:
		c.load.loop.fail(goAway(p))
		return
	default:
		return
	}
	if flags&flagEnd != 0 {
		c.done(c.stream(id))
	}
}

func (c *http2Client) done(s *http2Request) {
	if !s.ok || s.got != len(c.load.response2) {
		c.load.wrong++
	}
	now := c.load.loop.now()
	c.load.record(now - s.begun)
	c.free++
	if due, ok := c.load.next(now); ok {
		c.send(due)
	}
}
