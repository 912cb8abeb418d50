package client

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dial keeps the allowed number of connections in the making until all are
// there.
func (f *Fleet) dial() error {
	for f.next < f.plan.Streams && f.dialling < f.plan.Dials {
		c := &conn{id: f.next, loop: f, stuck: f.stuckness(f.next)}
		f.next++
		if err := f.connectOne(c); err != nil {
			return fmt.Errorf("stream %d: %w", c.id, err)
		}
	}
	return nil
}

// admitted says that a connection no longer counts as in the making. That is
// when the server has spoken, not when it is connected: the kernel connects
// more than the server has accepted, until its queue overflows and the rest
// waits for a second.
func (f *Fleet) admitted(c *conn) {
	if c.dialling {
		c.dialling = false
		f.dialling--
	}
}

// stuckness spreads the stuck clients over the fleet, of both sorts in turn.
func (f *Fleet) stuckness(id int) stuckness {
	if f.plan.Stuck == 0 {
		return notStuck
	}
	every := f.plan.Streams / f.plan.Stuck
	if id%every != 0 || id/every >= f.plan.Stuck {
		return notStuck
	}
	if id/every%2 == 0 {
		return stuckReading
	}
	return stuckWindow
}

func (f *Fleet) connectOne(c *conn) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c.fd = fd
	if err := f.prepare(c); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if err := unix.Connect(fd, &f.server); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		_ = unix.Close(fd)
		return fmt.Errorf("connect to %s: %w", f.plan.Address, err)
	}
	f.byFD[int32(fd)] = c
	c.connecting, c.writable, c.dialling = true, true, true
	f.dialling++
	c.start(f.resuming)
	return f.watch(unix.EPOLL_CTL_ADD, fd, c.interest()|unix.EPOLLOUT)
}

// prepare sets a socket's options and, past the first PerSource connections to
// a loopback server, its source address: a pair of addresses has only some
// 28 000 ports.
func (f *Fleet) prepare(c *conn) error {
	if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("TCP_NODELAY: %w", err)
	}
	if c.stuck == stuckReading {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, stuckBuffer); err != nil {
			return fmt.Errorf("SO_RCVBUF: %w", err)
		}
	}
	n := c.id / f.plan.PerSource
	if n == 0 || f.server.Addr[0] != 127 {
		return nil
	}
	if err := unix.SetsockoptInt(c.fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return fmt.Errorf("IP_BIND_ADDRESS_NO_PORT: %w", err)
	}
	source := unix.SockaddrInet4{Addr: [4]byte{127, 0, byte(n >> 8), byte(n) + 1}}
	if err := unix.Bind(c.fd, &source); err != nil {
		return fmt.Errorf("bind to source address %d: %w", n, err)
	}
	return nil
}
