package loop

import (
	"os"
	"syscall"
	"unsafe"
)

// Events of a turn that bring bytes are handled in two steps: everything is received
// first, one piece behind the other in the loop's buffer, and handed over then, what
// hosts have sent before what clients have. So the system's code and the proxy's for
// responses and for requests each run many times in a row: together they do not fit
// into a core's cache. Then come the other events, and the connections on which one
// receive brings many messages: the later it is made, the more of them.

// early is what was received of a socket and not handed over yet.
type early struct {
	sock *fdSocket
	gen  int32
	err  syscall.Errno
	data []byte // none at the end
}

// leastAhead is how much of the buffer has to be left for another receive. Less would
// cut what comes in large pieces into small ones.
const leastAhead = 64 << 10

// dispatch handles the events of a turn.
func (p *epoll) dispatch(events []syscall.EpollEvent) {
	for i := range events {
		if s := p.readable(&events[i]); s != nil {
			p.receiveAhead(s)
			events[i].Events = 0
		}
	}
	p.handOver()
	for i := range events {
		if events[i].Events != 0 {
			p.handle(&events[i])
		}
	}
}

// readable is the socket of an event that brings bytes, but not many messages, and
// nothing else.
func (p *epoll) readable(ev *syscall.EpollEvent) *fdSocket {
	if ev.Events != syscall.EPOLLIN || int(ev.Fd) >= len(p.socks) {
		return nil
	}
	s := p.socks[ev.Fd]
	if s == nil || s.gen != ev.Pad || s.conn.late || s.conn.state == connecting || !s.conn.reading {
		return nil
	}
	return s
}

// receiveAhead receives what is handed over later. Where the buffer is full that is
// done now.
func (p *epoll) receiveAhead(s *fdSocket) {
	if scratchSize-p.used < leastAhead {
		p.handOver()
		if s.conn.state == closed || !s.conn.reading {
			return // it comes again
		}
	}
	b := p.loop.scratch[p.used:min(scratchSize, p.used+s.conn.mostReceived())]
	n, e := s.recv(b)
	p.early = append(p.early, early{sock: s, gen: s.gen, err: e, data: b[:n:n]})
	p.used += n
}

// handOver gives connections what was received for them.
func (p *epoll) handOver() {
	if len(p.early) == 0 {
		return
	}
	p.quiet = false
	p.loop.gather(len(p.early))
	for _, dialed := range [...]bool{true, false} {
		for i := range p.early {
			if e := &p.early[i]; e.sock.dialed == dialed && p.socks[e.sock.fd()] == e.sock && e.sock.gen == e.gen {
				e.sock.handOver(e.data, e.err)
			}
		}
	}
	p.loop.gathered()
	clear(p.early)
	p.early, p.used = p.early[:0], 0
}

// handOver gives the connection what a receive has brought. Another's callback may
// have paused it since: then bytes are withheld, as are those behind them, and the end
// comes again.
func (s *fdSocket) handOver(data []byte, e syscall.Errno) {
	c := s.conn
	if (c.paused > 0 || len(c.loop.withheld) > 0 && c.loop.withheld[c] != nil) && c.state == established && c.transport == nil && e == 0 {
		c.received += uint64(len(data))
		c.withhold(data)
		return
	}
	s.took(data, e)
}

// receive receives once, with what was withheld before it.
func (s *fdSocket) receive() {
	c := s.conn
	c.deliverWithheld()
	if c.state == closed {
		return
	}
	b := c.loop.scratch[:c.mostReceived()]
	n, e := s.recv(b)
	s.took(b[:n], e)
}

// recv receives what there is, as far as b has room.
func (s *fdSocket) recv(b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, uintptr(s.fd()), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// took is told what a receive has brought.
func (s *fdSocket) took(data []byte, e syscall.Errno) {
	c := s.conn
	switch {
	case e == syscall.EAGAIN || e == syscall.EINTR:
	case e != 0:
		c.end(RemoteReset, os.NewSyscallError("recv", e), false)
	case len(data) == 0:
		c.socketEnded()
	default:
		c.received += uint64(len(data))
		c.deliver(data)
	}
}
