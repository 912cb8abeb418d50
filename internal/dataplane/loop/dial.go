package loop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// DialOptions say how to connect.
type DialOptions struct {
	// Timeout covers connecting and the transport's handshake (TS-22); 0 is none.
	Timeout time.Duration
	// Source is what the connection comes from (bind(2)); its port may be 0. The zero
	// value leaves it to the system. It is not used towards UNIX sockets.
	Source netip.AddrPort
	// Control may set options of the socket before it connects.
	Control func(fd int) error
	// Transport is the transport socket; nil is raw bytes.
	Transport Transport
	// Dial replaces the dialer of a portable loop.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// ErrBind is wrapped by the error of a connection whose Source cannot be used.
var ErrBind = errors.New("bind")

// dialer is the part of a poller that connects.
type dialer interface {
	dial(c *Conn, to *filter.Address, o *DialOptions) error
}

// Dial starts a connection. h.OnOpen comes when it can be used, h.OnClose with
// ConnectFailed or TransportFailed when it cannot; neither comes before Dial
// has returned.
func (l *Loop) Dial(to filter.Address, o *DialOptions, h Handler) *Conn {
	c := l.newConn(h)
	c.transport = o.Transport
	d, _ := l.poll.(dialer)
	if err := d.dial(c, &to, o); err != nil {
		c.sock = noSocket{}
		l.AtEnd(func() { c.end(ConnectFailed, err, false) })
		return c
	}
	if o.Timeout > 0 {
		c.setTimer(o.Timeout)
	}
	return c
}

// noSocket stands in where there is none.
type noSocket struct{}

func (noSocket) send([]byte, []byte) (int, error) { return 0, nil }
func (noSocket) want(bool, bool)                  {}
func (noSocket) closeWrite()                      {}
func (noSocket) close(bool)                       {}
func (noSocket) localAddr() filter.Address        { return filter.Address{} }
func (noSocket) adopt(*Conn)                      {}
