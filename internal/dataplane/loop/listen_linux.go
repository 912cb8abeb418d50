package loop

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listener accepts connections for a loop.
type Listener struct {
	loop   *Loop
	fd     int
	native *portableListener
	accept func(*Conn)
	off    bool
	paused bool
}

// Listen makes the loop accept the connections of a listening socket, which it
// takes over. accept is called for each on the loop; it must set a handler.
func (l *Loop) Listen(fd int, accept func(*Conn)) (*Listener, error) {
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

func (ln *Listener) acceptAll() {
	p := ln.loop.poll.(*epoll) //nolint:forcetypeassert // Listen made sure
	for range acceptBurst {
		if ln.off || ln.paused {
			return
		}
		fd, sa, err := unix.Accept4(ln.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ECONNABORTED) && !errors.Is(err, unix.EINTR) {
				ln.loop.logger.Warn("accept failed", "error", err)
			}
			return
		}
		c := ln.loop.newConn(nil)
		c.state, c.reading = established, true
		c.remote = addressOf(sa)
		if err := p.add(c, fd, syscall.EPOLLIN); err != nil {
			ln.loop.logger.Warn("a connection was dropped", "error", err)
			ln.loop.open--
			_ = unix.Close(fd)
			continue
		}
		ln.accept(c)
	}
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

// Close stops accepting and closes the socket.
func (ln *Listener) Close() {
	if ln.off {
		return
	}
	ln.off = true
	if ln.native != nil {
		ln.native.close()
		return
	}
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
