package listener

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// Bind binds those of the listener's sockets that have no port, for a number of
// workers (LM-02, LM-08). After an error none of them is bound.
func (l *Listener) Bind(workers int) error {
	var bound []*Socket
	for _, s := range l.Sockets {
		if !s.Bind || s.port != nil {
			continue
		}
		p := &Port{turns: make([]turn, workers)}
		if err := p.open(s, workers); err != nil {
			p.Close()
			for _, b := range bound {
				b.port.Close()
				b.port = nil
			}
			return fmt.Errorf("cannot bind '%s': %w", s.asked.String(), err)
		}
		s.use(p)
		bound = append(bound, s)
	}
	return nil
}

// Listen makes the listener's ports take connections, which wait for Start.
func (l *Listener) Listen() error {
	for _, s := range l.Sockets {
		if s.port == nil || s.port.listening {
			continue
		}
		if err := s.port.listen(s); err != nil {
			return fmt.Errorf("cannot bind '%s': %w", s.asked.String(), err)
		}
		s.port.listening = true
	}
	return nil
}

func (p *Port) listen(s *Socket) error {
	backlog := s.options.backlog
	if backlog == 0 {
		backlog = 1 << 16 // the system's somaxconn is the limit
	}
	for _, fd := range p.fds {
		if err := unix.Listen(fd, backlog); err != nil {
			return fmt.Errorf("%w", bindError(err))
		}
		if err := applyOptions(fd, s.options.list, corev3.SocketOption_STATE_LISTENING); err != nil {
			return err
		}
	}
	return nil
}

// start makes a worker hand what the port accepts to a listener.
func (p *Port) start(w *Worker, l *Listener, s *Socket) error {
	t := &p.turns[w.ID]
	t.l, t.s, t.hushed = l, s, false
	if t.ln != nil {
		t.hear(w)
		return nil
	}
	if p.fds[w.ID] < 0 {
		return nil
	}
	ln, err := w.Loop.Listen(p.fds[w.ID], func(c *loop.Conn, from filter.Address) { t.accept(w, c, from) })
	if err != nil {
		return err //nolint:wrapcheck // the caller says where
	}
	t.ln, p.fds[w.ID] = ln, -1
	t.hear(w)
	w.ports[p] = struct{}{}
	return nil
}

// closeOf closes a worker's socket, if that has not taken it.
func (p *Port) closeOf(worker int) {
	if worker < len(p.fds) && p.fds[worker] >= 0 {
		_ = unix.Close(p.fds[worker])
		p.fds[worker] = -1
	}
}

func (p *Port) open(s *Socket, workers int) error {
	p.Address = s.asked
	for i := range workers {
		if i > 0 && !s.Reuse {
			fd, err := unix.FcntlInt(uintptr(p.fds[0]), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("dup: %w", err)
			}
			p.fds = append(p.fds, fd)
			continue
		}
		fd, err := s.bind(&p.Address)
		if err != nil {
			return err
		}
		p.fds = append(p.fds, fd)
		if i == 0 {
			p.learn(fd)
		}
	}
	return nil
}

// learn notes the address that port 0 became.
func (p *Port) learn(fd int) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		p.Address = filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)))
	case *unix.SockaddrInet6:
		p.Address = filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)))
	}
	p.local, p.fixed = p.Address, !wildcard(&p.Address) || !p.Address.IP.IsValid()
}

// bind makes a socket at an address, which is as configured but for port 0.
func (s *Socket) bind(at *filter.Address) (fd int, err error) {
	var sa unix.Sockaddr
	family := unix.AF_INET6
	switch ip := at.IP.Addr(); {
	case !at.IP.IsValid():
		family, sa = unix.AF_UNIX, &unix.SockaddrUnix{Name: s.Address.Pipe}
		if s.Address.Pipe != "" && s.Address.Pipe[0] != '@' {
			removeStale(s.Address.Pipe)
		}
	case ip.Is4():
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.IP.Port()), Addr: ip.As4()}
	default:
		sa = &unix.SockaddrInet6{Port: int(at.IP.Port()), Addr: ip.As16()}
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err = s.prepare(fd, family, sa); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// removeStale removes the socket that an earlier process has left behind. As in
// Envoy, nobody asks whether it still listens.
func removeStale(path string) {
	if st, err := os.Stat(path); err == nil && st.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path)
	}
}

func (s *Socket) prepare(fd, family int, sa unix.Sockaddr) error {
	if family != unix.AF_UNIX {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
		if s.Reuse {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
				return fmt.Errorf("SO_REUSEPORT: %w", err)
			}
		}
	}
	if family == unix.AF_INET6 {
		only := 1
		if s.Compat {
			only = 0
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	if err := s.setOptions(fd, family); err != nil {
		return err
	}
	if err := applyOptions(fd, s.options.list, corev3.SocketOption_STATE_PREBIND); err != nil {
		return err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("%w", bindError(err))
	}
	if s.Mode != 0 && family == unix.AF_UNIX && s.Address.Pipe[0] != '@' {
		if err := os.Chmod(s.Address.Pipe, os.FileMode(s.Mode)); err != nil {
			return fmt.Errorf("mode: %w", err)
		}
	}
	return applyOptions(fd, s.options.list, corev3.SocketOption_STATE_BOUND)
}

func bindError(err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return errors.New("Address already in use") //nolint:staticcheck // Envoy's text
	}
	return err
}

func (s *Socket) setOptions(fd, family int) error {
	o := &s.options
	set := func(name string, level, opt, v int) error {
		if err := unix.SetsockoptInt(fd, level, opt, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	level, transparent, freebind := unix.IPPROTO_IP, unix.IP_TRANSPARENT, unix.IP_FREEBIND
	if family == unix.AF_INET6 {
		level, transparent, freebind = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, unix.IPV6_FREEBIND
	}
	if o.transparent {
		if err := set("transparent", level, transparent, 1); err != nil {
			return err
		}
	}
	if o.freebind {
		if err := set("freebind", level, freebind, 1); err != nil {
			return err
		}
	}
	if o.fastOpen > 0 {
		if err := set("tcp_fast_open_queue_length", unix.IPPROTO_TCP, unix.TCP_FASTOPEN, o.fastOpen); err != nil {
			return err
		}
	}
	return SetKeepalive(fd, o.keepalive)
}

// SetKeepalive turns keepalive probes on, if there is a message for it.
func SetKeepalive(fd int, k *corev3.TcpKeepalive) error {
	if k == nil {
		return nil
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1); err != nil {
		return fmt.Errorf("tcp_keepalive: %w", err)
	}
	for _, o := range [...]struct{ opt, v int }{
		{unix.TCP_KEEPCNT, int(k.GetKeepaliveProbes().GetValue())},
		{unix.TCP_KEEPIDLE, int(k.GetKeepaliveTime().GetValue())},
		{unix.TCP_KEEPINTVL, int(k.GetKeepaliveInterval().GetValue())},
	} {
		if o.v > 0 {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, o.opt, o.v); err != nil {
				return fmt.Errorf("tcp_keepalive: %w", err)
			}
		}
	}
	return nil
}

func applyOptions(fd int, list []*corev3.SocketOption, at corev3.SocketOption_SocketState) error {
	for _, o := range list {
		if o.GetState() != at {
			continue
		}
		var err error
		switch v := o.GetValue().(type) {
		case *corev3.SocketOption_IntValue:
			err = unix.SetsockoptInt(fd, int(o.GetLevel()), int(o.GetName()), int(v.IntValue))
		case *corev3.SocketOption_BufValue:
			err = unix.SetsockoptString(fd, int(o.GetLevel()), int(o.GetName()), string(v.BufValue))
		}
		if err != nil {
			return fmt.Errorf("setting socket option %d/%d failed: %w", o.GetLevel(), o.GetName(), err)
		}
	}
	return nil
}
