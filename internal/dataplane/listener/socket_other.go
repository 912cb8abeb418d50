//go:build !linux

package listener

import (
	"fmt"
	"net"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// Bind leaves binding to Start where sockets have no descriptors.
func (l *Listener) Bind(workers int) error {
	for _, s := range l.Sockets {
		if s.Bind && s.port == nil {
			s.use(&Port{Address: s.asked, turns: make([]turn, workers)})
		}
	}
	return nil
}

// Listen is left to Start, too.
func (l *Listener) Listen() error { return nil }

// SetKeepalive is left to the system where sockets have no descriptors.
func SetKeepalive(int, *corev3.TcpKeepalive) error { return nil }

func (p *Port) closeOf(int) {}

// start makes a worker hand what the port accepts to a listener; the first
// worker has all connections.
func (p *Port) start(w *Worker, l *Listener, s *Socket) error {
	if w.ID > 0 {
		return nil
	}
	t := &p.turns[0]
	t.l, t.s, t.hushed = l, s, false
	if t.ln != nil {
		t.hear(w)
		s.Address, s.local, s.fixed = p.Address, p.local, p.fixed
		return nil
	}
	network, address := "tcp", p.Address.String()
	if !p.Address.IP.IsValid() {
		network, address = "unix", p.Address.Pipe
	}
	nl, err := net.Listen(network, address) //nolint:noctx // ends with the loop
	if err != nil {
		return fmt.Errorf("cannot bind '%s': %w", address, err)
	}
	p.Address = loop.AddressOf(nl.Addr())
	p.local, p.fixed = p.Address, !wildcard(&p.Address)
	s.Address, s.local, s.fixed = p.Address, p.local, p.fixed
	t.ln, err = w.Loop.ListenOn(nl, func(c *loop.Conn, from filter.Address) { t.accept(w, c, from) })
	if err != nil {
		return err //nolint:wrapcheck // the caller says where
	}
	w.ports[p] = struct{}{}
	t.hear(w)
	return nil
}
