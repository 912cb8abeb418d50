package loop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/filter"
)

// epoll is the poller of Linux. It waits with a raw system call, so that the
// loop keeps its processor: giving it up and getting it back costs more than
// a small request does. The price is that a waiting loop stops the collector;
// hence the bounded wait, after which it dozes, without the processor. The runtime
// interrupts a thread that it wants to stop by a signal; the next call of a
// function then gives way to it. A Gosched there would withdraw the runtime's
// request before it is seen, and the collector would ask without end.
type epoll struct {
	loop   *Loop
	fd     int
	event  int // eventfd that wake writes to
	events [256]syscall.EpollEvent
	socks  []*fdSocket // by descriptor
	accept map[int]*Listener
	ring   *sendRing           // nil: sends are made one by one
	doze   *doze               // nil: the loop always keeps its processor
	from   unix.RawSockaddrAny // of the latest connection that was accepted
	early  []early             // received in this turn and not handed over
	used   int                 // of the loop's buffer, by those
	quiet  bool                // the last wait brought nothing from sockets
	gen    int32
}

func newPoller(l *Loop, o *Options) (poller, error) {
	if o.Portable {
		return newPortable(l), nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	ev, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	p := &epoll{loop: l, fd: fd, event: ev, accept: map[int]*Listener{}}
	l.scratch = make([]byte, scratchSize)
	e := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(ev)}
	if err := syscall.EpollCtl(fd, syscall.EPOLL_CTL_ADD, ev, &e); err != nil {
		p.free()
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	p.openRing(o)
	if p.doze, err = newDoze(p); err != nil {
		p.stayAwake(err)
	}
	return p, nil
}

// openRing makes the loop send by io_uring, if it may.
func (p *epoll) openRing(o *Options) {
	if o.NoRing {
		p.loop.alone = errRefused
		return
	}
	r, err := newSendRing()
	if err != nil {
		p.loop.alone = err
		return
	}
	p.ring, p.loop.together = r, r
}

// errRefused is why a loop that was told to does without a ring.
var errRefused = errors.New("it was told not to use io_uring")

func (p *epoll) wake() {
	one := [8]byte{1} // it never blocks, so that the runtime need not know of it
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.event), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

func (p *epoll) free() {
	_ = unix.Close(p.fd)
	_ = unix.Close(p.event)
	if p.ring != nil {
		p.ring.close()
	}
	if p.doze != nil {
		p.doze.close()
	}
}

func (p *epoll) wait(most time.Duration) {
	n := p.await(most)
	p.loop.woke()
	p.quiet = p.quiet || n > 0
	p.dispatch(p.events[:n])
}

// await waits with the processor first, and without it if nothing comes.
func (p *epoll) await(most time.Duration) (n int) {
	if p.doze == nil || most <= watchful {
		n, interrupted := p.peek(min(most, keptIdle))
		if n == 0 && !interrupted {
			runtime.Gosched()
		}
		return n
	}
	if !p.quiet {
		n, interrupted := p.peek(watchful)
		if n > 0 || interrupted {
			return n
		}
		most -= watchful
	}
	p.quiet = true
	n, err := p.doze.wait(most)
	if err != nil {
		p.doze.close()
		p.stayAwake(err)
	}
	return n
}

// stayAwake makes the loop keep its processor whatever comes.
func (p *epoll) stayAwake(why error) {
	p.doze = nil
	p.loop.logger.Warn("the loop takes a processor to itself while it is idle", "error", why)
}

// peek waits for events with the processor kept.
func (p *epoll) peek(most time.Duration) (n int, interrupted bool) {
	r, _, e := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr((most+time.Millisecond-1)/time.Millisecond), 0, 0)
	if e != 0 {
		return 0, true
	}
	return int(r), false
}

func (p *epoll) handle(ev *syscall.EpollEvent) {
	fd := int(ev.Fd)
	if fd == p.event {
		var buf [8]byte
		_, _ = unix.Read(fd, buf[:])
		return
	}
	p.quiet = false
	if ev.Pad == listenerGen {
		if l := p.accept[fd]; l != nil {
			l.acceptSome()
		}
		return
	}
	if fd >= len(p.socks) || p.socks[fd] == nil || p.socks[fd].gen != ev.Pad {
		return // closed within this batch
	}
	p.socks[fd].handle(ev.Events)
}

func (p *epoll) closeAll() {
	for _, l := range p.accept {
		l.shut()
	}
	for _, s := range p.socks {
		if s != nil {
			s.conn.end(Local, nil, false)
		}
	}
}

// listenerGen marks the events of listening sockets.
const listenerGen = -1

// fdSocket is a socket of epoll. It is a part of the connection that it was made
// for, whose race another connection may have won.
type fdSocket struct {
	conn *Conn
	file int32 // its descriptor; see fd
	gen  int32
	mask uint32
	// dialed: this side has connected.
	dialed bool
}

func (s *fdSocket) fd() int { return int(s.file) }

func (s *fdSocket) poll() *epoll {
	return s.conn.loop.poll.(*epoll) //nolint:forcetypeassert // only that makes it
}

func (p *epoll) add(c *Conn, fd int, mask uint32) error {
	p.gen = (p.gen + 1) & 0x7fffffff
	s := &c.own
	*s = fdSocket{conn: c, file: int32(fd), gen: p.gen, mask: mask}
	c.sock = s
	for fd >= len(p.socks) {
		p.socks = append(p.socks, make([]*fdSocket, max(64, len(p.socks)))...)
	}
	p.socks[fd] = s
	ev := syscall.EpollEvent{Events: mask, Fd: int32(fd), Pad: s.gen}
	if err := syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

func (s *fdSocket) want(read, write bool) {
	var mask uint32
	if read {
		mask |= syscall.EPOLLIN
	}
	if write {
		mask |= syscall.EPOLLOUT
	}
	if mask == s.mask {
		return
	}
	s.mask = mask
	ev := syscall.EpollEvent{Events: mask, Fd: s.file, Pad: s.gen}
	_ = syscall.EpollCtl(s.poll().fd, syscall.EPOLL_CTL_MOD, s.fd(), &ev)
}

func (s *fdSocket) handle(events uint32) {
	c := s.conn
	if c.state == connecting {
		s.finishConnect()
		return
	}
	if events&(syscall.EPOLLOUT|syscall.EPOLLERR) != 0 && c.blocked {
		c.writable()
	}
	if events&syscall.EPOLLHUP != 0 && (c.ended || c.eof) {
		c.end(RemoteEnd, nil, false) // both directions are closed
		return
	}
	if c.state == closed || events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) == 0 {
		return
	}
	if c.reading || events&(syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
		s.receive()
	}
}

func (s *fdSocket) finishConnect() {
	c := s.conn
	code, err := unix.GetsockoptInt(s.fd(), unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	if err != nil {
		c.end(ConnectFailed, os.NewSyscallError("connect", err), false)
		return
	}
	c.connected()
}

func (s *fdSocket) send(a, b []byte) (int, error) {
	var n uintptr
	var e syscall.Errno
	if len(b) == 0 {
		if len(a) == 0 {
			return 0, nil
		}
		n, _, e = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(s.fd()), uintptr(unsafe.Pointer(&a[0])), uintptr(len(a)), syscall.MSG_NOSIGNAL, 0, 0)
	} else {
		var iov [2]syscall.Iovec
		k := 0
		if len(a) > 0 {
			iov[0].Base = &a[0]
			iov[0].SetLen(len(a))
			k++
		}
		iov[k].Base = &b[0]
		iov[k].SetLen(len(b))
		msg := syscall.Msghdr{Iov: &iov[0], Iovlen: uint64(k + 1)}
		n, _, e = syscall.RawSyscall(syscall.SYS_SENDMSG, uintptr(s.fd()), uintptr(unsafe.Pointer(&msg)), syscall.MSG_NOSIGNAL)
	}
	return sendResult(int(n), e)
}

// sendResult is what a send took. That it took nothing is no error.
func sendResult(n int, e syscall.Errno) (int, error) {
	switch e {
	case 0:
		return n, nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("send", e)
}

func (s *fdSocket) closeWrite() { _ = unix.Shutdown(s.fd(), unix.SHUT_WR) }

func (s *fdSocket) close(abort bool) {
	if abort {
		_ = unix.SetsockoptLinger(s.fd(), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	s.poll().socks[s.fd()] = nil
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(s.fd()), 0, 0)
}

func (s *fdSocket) adopt(c *Conn) { s.conn = c }

func (s *fdSocket) localAddr() filter.Address {
	sa, err := unix.Getsockname(s.fd())
	if err != nil {
		return filter.Address{}
	}
	return addressOf(sa)
}

func addressOf(sa unix.Sockaddr) filter.Address {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)))
	case *unix.SockaddrInet6:
		return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)))
	case *unix.SockaddrUnix:
		return filter.PipeAddress(a.Name)
	}
	return filter.Address{}
}

func sockaddr(a *filter.Address) (unix.Sockaddr, int) {
	switch ip := a.IP.Addr(); {
	case !a.IP.IsValid():
		return &unix.SockaddrUnix{Name: a.Pipe}, unix.AF_UNIX
	case ip.Is4():
		return &unix.SockaddrInet4{Addr: ip.As4(), Port: int(a.IP.Port())}, unix.AF_INET
	default:
		sa := &unix.SockaddrInet6{Addr: ip.As16(), Port: int(a.IP.Port())}
		if z := ip.Zone(); z != "" {
			if i, err := net.InterfaceByName(z); err == nil {
				sa.ZoneId = uint32(i.Index)
			}
		}
		return sa, unix.AF_INET6
	}
}

// bind gives a socket the address that it connects from. The system chooses a port
// when it connects: so there can be as many connections as to all peers together.
func bind(fd, family int, from netip.AddrPort) error {
	if !from.IsValid() || family == unix.AF_UNIX {
		return nil
	}
	if from.Port() == 0 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}
	a := filter.IPAddress(from)
	sa, _ := sockaddr(&a)
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("%w to %v: %w", ErrBind, from, err)
	}
	return nil
}

// dial starts to connect.
func (p *epoll) dial(c *Conn, to *filter.Address, o *DialOptions) error {
	sa, family := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if family != unix.AF_UNIX {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if o.Control != nil {
		if err := o.Control(fd); err != nil {
			_ = unix.Close(fd)
			return err
		}
	}
	if err := bind(fd, family, o.Source); err != nil {
		_ = unix.Close(fd)
		return err
	}
	err = unix.Connect(fd, sa)
	if err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return fmt.Errorf("connect: %w", err)
	}
	c.writing = true
	if err := p.add(c, fd, syscall.EPOLLOUT); err != nil {
		_ = unix.Close(fd)
		return err
	}
	c.own.dialed = true
	return nil
}
