package engine

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

const backlog = 4096

func dial(to netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := connect(fd, to); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("connecting to %s: %w", to, err)
	}
	return fd, nil
}

func connect(fd int, to netip.AddrPort) error {
	if err := unix.Connect(fd, address(to)); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return unix.SetNonblock(fd, true)
}

func address(a netip.AddrPort) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
}

// listener accepts the upstream's connections.
type listener struct {
	loop   *Loop
	fd     int
	accept func(fd int)
}

func (l *Loop) listen(at netip.AddrPort, accept func(fd int)) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	l.add(fd, &listener{loop: l, fd: fd, accept: accept})
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("SO_REUSEADDR: %w", err)
	}
	if err := unix.Bind(fd, address(at)); err != nil {
		return fmt.Errorf("binding the upstream's %s: %w", at, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return fmt.Errorf("listening on the upstream's %s: %w", at, err)
	}
	return nil
}

func (l *listener) ready(uint32) {
	for {
		fd, _, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return // none left, or one that went away again
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		l.accept(fd)
	}
}
