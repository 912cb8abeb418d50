package loop

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// portable feeds a loop from net.Conns: a goroutine reads each of them and one
// writes, and both meet the loop by Post. It serves systems without epoll and
// tests on in-memory pipes, where time may be virtual.
type portable struct {
	loop  *Loop
	woken chan struct{}
	timer *time.Timer
	socks map[*netSocket]struct{}
	lns   map[*portableListener]struct{}
	work  sync.WaitGroup
	ctx   context.Context //nolint:containedctx // ends dials when the loop does
	stop  context.CancelFunc
}

func newPortable(l *Loop) *portable {
	p := &portable{loop: l, woken: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), socks: map[*netSocket]struct{}{}, lns: map[*portableListener]struct{}{}}
	p.ctx, p.stop = context.WithCancel(context.Background()) //nolint:forbidigo // the loop itself ends it
	return p
}

var errPortable = errors.New("a portable loop has no descriptors")

func (p *portable) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

func (p *portable) wait(most time.Duration) {
	if most > 0 {
		if most == p.loop.idle && p.loop.wheel.count == 0 {
			most = time.Hour // nothing needs a look around
		}
		p.timer.Reset(most)
		select {
		case <-p.woken:
		case <-p.timer.C:
		}
		p.timer.Stop()
	}
	p.loop.woke()
}

func (p *portable) closeAll() {
	for ln := range p.lns {
		ln.close()
	}
	for s := range p.socks {
		s.conn.end(Local, nil, false)
	}
}

func (p *portable) free() {
	p.stop()
	p.timer.Stop()
	p.work.Wait()
}

// netSocket is a net.Conn of a portable loop.
type netSocket struct {
	poll   *portable
	conn   *Conn
	mu     sync.Mutex
	wakeW  *sync.Cond
	nc     net.Conn // nil while connecting
	out    []byte   // what the writer has not taken
	fin    bool
	closed bool
	reads  bool // reading is wanted
	wakeR  *sync.Cond
	full   bool // send did not take everything
}

// netBuffer is how much a netSocket takes before it says that it is full.
const netBuffer = 64 << 10

func (p *portable) adopt(c *Conn, nc net.Conn) *netSocket {
	s := &netSocket{poll: p, conn: c, nc: nc}
	s.wakeW, s.wakeR = sync.NewCond(&s.mu), sync.NewCond(&s.mu)
	c.sock = s
	p.socks[s] = struct{}{}
	return s
}

func (s *netSocket) start() {
	s.poll.work.Add(2)
	go s.read()
	go s.write()
}

func (s *netSocket) read() {
	defer s.poll.work.Done()
	buf := make([]byte, 32<<10)
	done := make(chan struct{}, 1)
	for s.mayRead() {
		n, err := s.nc.Read(buf)
		ok := s.poll.loop.Post(func() {
			s.arrived(buf[:n], err)
			done <- struct{}{}
		})
		if !ok {
			return
		}
		<-done
		if err != nil {
			return
		}
	}
}

func (s *netSocket) mayRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.reads && !s.closed {
		s.wakeR.Wait()
	}
	return !s.closed
}

func (s *netSocket) arrived(data []byte, err error) {
	c := s.conn
	if c.state == closed {
		return
	}
	if len(data) > 0 {
		c.received += uint64(len(data))
		c.deliver(data)
	}
	switch {
	case err == nil || c.state == closed:
	case errors.Is(err, io.EOF):
		c.socketEnded()
	default:
		c.end(RemoteReset, err, false)
	}
}

func (s *netSocket) write() {
	defer s.poll.work.Done()
	for {
		data, fin, ok := s.take()
		if len(data) > 0 {
			if _, err := s.nc.Write(data); err != nil {
				s.poll.loop.Post(func() { s.conn.end(RemoteReset, err, false) })
				ok = false
			} else {
				s.poll.loop.Post(s.taken)
			}
		}
		if fin {
			if h, is := s.nc.(interface{ CloseWrite() error }); is {
				_ = h.CloseWrite()
			}
		}
		if !ok {
			_ = s.nc.Close()
			return
		}
	}
}

// take waits for something to write. ok is false when that is the last.
func (s *netSocket) take() (data []byte, fin, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.out) == 0 && !s.fin && !s.closed {
		s.wakeW.Wait()
	}
	data, s.out = s.out, nil
	fin, s.fin = s.fin, false
	return data, fin, !s.closed
}

// taken: the writer has room again.
func (s *netSocket) taken() {
	if s.full && s.conn.state != closed {
		s.full = false
		s.conn.writable()
	}
}

func (s *netSocket) send(a, b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := netBuffer - len(s.out)
	n := 0
	for _, part := range [][]byte{a, b} {
		k := min(len(part), room-n)
		s.out = append(s.out, part[:max(k, 0)]...)
		n += max(k, 0)
	}
	if n < len(a)+len(b) {
		s.full = true
	}
	s.wakeW.Signal()
	return n, nil
}

func (s *netSocket) want(read, _ bool) {
	s.mu.Lock()
	s.reads = read
	s.mu.Unlock()
	s.wakeR.Signal()
}

func (s *netSocket) closeWrite() {
	s.mu.Lock()
	s.fin = true
	s.mu.Unlock()
	s.wakeW.Signal()
}

func (s *netSocket) close(abort bool) {
	delete(s.poll.socks, s)
	s.mu.Lock()
	s.closed = true
	nc := s.nc
	if abort {
		s.out = nil
		if t, ok := nc.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
	}
	s.mu.Unlock()
	s.wakeR.Signal()
	s.wakeW.Signal()
	if nc != nil {
		_ = nc.SetReadDeadline(time.Unix(1, 0)) // the reader leaves; the writer closes
		if abort {
			_ = nc.Close()
			return
		}
		_ = nc.SetWriteDeadline(time.Now().Add(s.bound()))
	}
}

// lastWrites is how long a closed connection may take to send what it was given
// before, unless it has a flush timeout. Where there are descriptors the system
// does that, in its own time.
const lastWrites = 10 * time.Second

func (s *netSocket) bound() time.Duration {
	if p := s.conn.patience; p > 0 {
		return p
	}
	return lastWrites
}

func (s *netSocket) adopt(c *Conn) { s.conn = c }

func (s *netSocket) localAddr() filter.Address {
	if s.nc == nil {
		return filter.Address{}
	}
	return AddressOf(s.nc.LocalAddr())
}

// AddressOf is a net.Addr as an Address.
func AddressOf(a net.Addr) filter.Address {
	if a == nil {
		return filter.Address{}
	}
	if ap, err := netip.ParseAddrPort(a.String()); err == nil {
		return filter.IPAddress(ap)
	}
	return filter.PipeAddress(a.String())
}

// Adopt makes a net.Conn a connection of a portable loop.
func (l *Loop) Adopt(nc net.Conn, h Handler) (*Conn, error) {
	p, ok := l.poll.(*portable)
	if !ok {
		return nil, errors.New("only a portable loop takes a net.Conn")
	}
	c := l.newConn(h)
	c.state, c.reading = established, true
	s := p.adopt(c, nc)
	s.reads = true
	s.start()
	return c, nil
}

func (p *portable) dial(c *Conn, to *filter.Address, o *DialOptions) error {
	s := p.adopt(c, nil)
	network, address := "tcp", to.String()
	if !to.IP.IsValid() {
		network, address = "unix", to.Pipe
	}
	dial := o.Dial
	if dial == nil {
		var d net.Dialer
		if o.Source.IsValid() && network == "tcp" {
			d.LocalAddr = net.TCPAddrFromAddrPort(o.Source)
		}
		dial = d.DialContext
	}
	p.work.Go(func() {
		nc, err := dial(p.ctx, network, address)
		if !p.loop.Post(func() { s.connected(nc, err) }) && nc != nil {
			_ = nc.Close()
		}
	})
	return nil
}

func (s *netSocket) connected(nc net.Conn, err error) {
	c := s.conn
	switch {
	case c.state == closed:
		if nc != nil {
			_ = nc.Close()
		}
	case err != nil:
		c.end(ConnectFailed, err, false)
	default:
		s.nc = nc
		s.start()
		c.connected()
	}
}

// portableListener accepts for a portable loop.
type portableListener struct {
	poll *portable
	ln   net.Listener

	mu     sync.Mutex
	wake   *sync.Cond
	paused bool
	closed bool
}

// pause makes the listener wait before it hands over what it has accepted: one
// connection at most.
func (n *portableListener) pause(pause bool) {
	n.mu.Lock()
	n.paused = pause
	n.mu.Unlock()
	n.wake.Signal()
}

// mayAccept waits while the listener is paused; false if it has been closed.
func (n *portableListener) mayAccept() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.paused && !n.closed {
		n.wake.Wait()
	}
	return !n.closed
}

// ListenOn makes a portable loop accept the connections of a net.Listener.
func (l *Loop) ListenOn(ln net.Listener, accept Accept) (*Listener, error) {
	p, ok := l.poll.(*portable)
	if !ok {
		return nil, errors.New("only a portable loop takes a net.Listener")
	}
	n := &portableListener{poll: p, ln: ln}
	n.wake = sync.NewCond(&n.mu)
	p.lns[n] = struct{}{}
	p.work.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			if !n.mayAccept() || !l.Post(func() { n.accepted(nc, accept) }) {
				_ = nc.Close()
			}
		}
	})
	return &Listener{loop: l, fd: -1, native: n, accept: accept}, nil
}

func (n *portableListener) accepted(nc net.Conn, accept Accept) {
	c, err := n.poll.loop.Adopt(nc, nil)
	if err == nil {
		accept(c, AddressOf(nc.RemoteAddr()))
	}
}

func (n *portableListener) close() {
	delete(n.poll.lns, n)
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.wake.Signal()
	_ = n.ln.Close()
}
