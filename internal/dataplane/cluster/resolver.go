package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// SystemResolver resolves by the system's configuration with Go's resolver
// and, other than *net.Resolver, knows the TTL of its answers, so that
// respect_dns_ttl can be used. Safe for concurrent use; the zero value is
// ready.
type SystemResolver struct {
	// Dial connects to a name server, as net.Resolver.Dial; nil dials the
	// address given.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// LookupNetIP implements [Resolver].
func (r *SystemResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	addrs, _, err := r.LookupNetIPTTL(ctx, network, host)
	return addrs, err
}

// LookupNetIPTTL implements [TTLResolver]. The TTL is the smallest of the
// records of the answer, 0 for names that no name server was asked for, such as
// those of the hosts file.
func (r *SystemResolver) LookupNetIPTTL(ctx context.Context, network, host string) ([]netip.Addr, time.Duration, error) {
	// The standard library gives no TTL: read it off the messages that pass.
	seen := &ttlRecorder{}
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := r.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if packets, ok := conn.(net.PacketConn); ok {
			return &packetTap{Conn: conn, PacketConn: packets, ttl: seen}, nil
		}
		return &streamTap{Conn: conn, ttl: seen}, nil
	}}
	addrs, err := resolver.LookupNetIP(ctx, network, host)
	if err != nil {
		return nil, 0, fmt.Errorf("resolving %s: %w", host, err)
	}
	return addrs, seen.smallest(), nil
}

func (r *SystemResolver) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if r.Dial != nil {
		return r.Dial(ctx, network, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// ttlRecorder keeps the smallest TTL of the answers it is shown.
type ttlRecorder struct {
	mu    sync.Mutex
	least uint32
	any   bool
}

func (t *ttlRecorder) smallest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(t.least) * time.Second
}

// message reads one DNS message; broken ones are the resolver's business.
func (t *ttlRecorder) message(b []byte) {
	var p dnsmessage.Parser
	if _, err := p.Start(b); err != nil || p.SkipAllQuestions() != nil {
		return
	}
	for {
		h, err := p.AnswerHeader()
		if err != nil {
			return
		}
		if h.Type == dnsmessage.TypeA || h.Type == dnsmessage.TypeAAAA || h.Type == dnsmessage.TypeCNAME {
			t.record(h.TTL)
		}
		if err := p.SkipAnswer(); err != nil && !errors.Is(err, dnsmessage.ErrSectionDone) {
			return
		}
	}
}

func (t *ttlRecorder) record(ttl uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.any || ttl < t.least {
		t.least, t.any = ttl, true
	}
}

// packetTap shows the messages of a UDP connection to a recorder. It must stay
// a net.PacketConn: that is how the resolver knows that no length comes first.
type packetTap struct {
	net.Conn
	net.PacketConn
	ttl *ttlRecorder
}

func (c *packetTap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.ttl.message(b[:n])
	return n, err
}

func (c *packetTap) Close() error                       { return c.Conn.Close() }
func (c *packetTap) LocalAddr() net.Addr                { return c.Conn.LocalAddr() }
func (c *packetTap) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(t) }
func (c *packetTap) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(t) }
func (c *packetTap) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(t) }

// streamTap shows the messages of a TCP connection, each after its length, to
// a recorder.
type streamTap struct {
	net.Conn
	ttl *ttlRecorder
	buf []byte
}

func (c *streamTap) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.buf = append(c.buf, b[:n]...)
	for len(c.buf) >= 2 {
		end := 2 + int(binary.BigEndian.Uint16(c.buf))
		if len(c.buf) < end {
			break
		}
		c.ttl.message(c.buf[2:end])
		c.buf = c.buf[end:]
	}
	return n, err
}
