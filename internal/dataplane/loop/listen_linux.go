package loop

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/filter"
)

// Listener accepts connections for a loop.
type Listener struct {
	loop   *Loop
	fd     int
	native *portableListener
	accept Accept
	off    bool
	paused bool
}

// Listen makes the loop accept the connections of a listening socket, which it
// takes over. accept is called for each on the loop.
func (l *Loop) Listen(fd int, accept Accept) (*Listener, error) {
	p, ok := l.poll.(*epoll)
	if !ok {
		return nil, errPortable
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("listening socket: %w", err)
	}
	// Accepted sockets inherit it; on a UNIX socket it means nothing.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	ln := &Listener{loop: l, fd: fd, accept: accept}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd), Pad: listenerGen}
	if err := syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return nil, fmt.Errorf("epoll_ctl: %w", err)
	}
	p.accept[fd] = ln
	return ln, nil
}

// acceptBurst bounds how many connections one event brings, so that those that
// are open are served meanwhile.
const acceptBurst = 64

// acceptSome takes some of the connections that wait, and reports whether there may be more.
func (ln *Listener) acceptSome() (more bool) {
	p := ln.loop.poll.(*epoll) //nolint:forcetypeassert // Listen made sure
	for range acceptBurst {
		if ln.off || ln.paused {
			return false
		}
		fd, e := p.acceptOne(ln.fd)
		if e != 0 {
			if e != unix.EAGAIN && e != unix.ECONNABORTED && e != unix.EINTR {
				ln.loop.logger.Warn("accept failed", "error", e)
			}
			return e == unix.ECONNABORTED || e == unix.EINTR
		}
		from := p.peer(fd)
		c := ln.loop.newConn(nil)
		c.state, c.reading = established, true
		if err := p.add(c, fd, syscall.EPOLLIN); err != nil {
			ln.loop.logger.Warn("a connection was dropped", "error", err)
			ln.loop.open--
			_ = unix.Close(fd)
			continue
		}
		ln.accept(c, from)
	}
	return true
}

// acceptOne accepts a connection. Who it is from is in p.from.
func (p *epoll) acceptOne(listening int) (fd int, e syscall.Errno) {
	size := uint32(unsafe.Sizeof(p.from))
	r, _, e := syscall.RawSyscall6(syscall.SYS_ACCEPT4, uintptr(listening), uintptr(unsafe.Pointer(&p.from)), uintptr(unsafe.Pointer(&size)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(r), e
}

// peer is the address that the latest connection came from.
func (p *epoll) peer(fd int) filter.Address {
	switch p.from.Addr.Family {
	case unix.AF_INET:
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(&p.from))
		return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4(a.Addr), hostOrder(a.Port)))
	case unix.AF_INET6:
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(&p.from))
		return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom16(a.Addr), hostOrder(a.Port)))
	}
	sa, err := unix.Getpeername(fd)
	if err != nil {
		return filter.Address{}
	}
	return addressOf(sa)
}

// hostOrder is a port of the system's, which is in the network's order.
func hostOrder(port uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], port)
	return binary.BigEndian.Uint16(b[:])
}

// Pause makes the loop leave connections with the system, or take them again.
func (ln *Listener) Pause(pause bool) {
	if ln.off || pause == ln.paused {
		return
	}
	ln.paused = pause
	if ln.native != nil {
		ln.native.pause(pause)
		return
	}
	p := ln.loop.poll.(*epoll) //nolint:forcetypeassert // Listen made sure
	ev := syscall.EpollEvent{Fd: int32(ln.fd), Pad: listenerGen}
	if !pause {
		ev.Events = syscall.EPOLLIN
	}
	_ = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_MOD, ln.fd, &ev)
}

// mostLast bounds how many bursts of connections are taken when a listener is closed:
// more than the system lets wait.
const mostLast = 1024

// Close stops accepting and closes the socket. Before that it accepts those who are
// connected already, unless it is paused: the system would reset them, with what they
// have asked for. (Where the loop is portable they are.)
func (ln *Listener) Close() {
	if ln.off {
		return
	}
	if ln.native != nil {
		ln.off = true
		ln.native.close()
		return
	}
	for range mostLast {
		if !ln.acceptSome() {
			break
		}
	}
	ln.shut()
}

// shut closes the socket.
func (ln *Listener) shut() {
	if ln.off { // by what a connection has led to
		return
	}
	ln.off = true
	p := ln.loop.poll.(*epoll) //nolint:forcetypeassert // Listen made sure
	delete(p.accept, ln.fd)
	_ = unix.Close(ln.fd)
}

// Descriptor is the connection's socket, or -1 where there is none.
func (c *Conn) Descriptor() int {
	if s, ok := c.sock.(*fdSocket); ok {
		return s.fd()
	}
	return -1
}
