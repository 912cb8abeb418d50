package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
	"github.com/xebec-proxy/xebec/internal/grpcconn"
)

var errNoHost = errors.New("no healthy host")

// dialer opens connections to the healthy hosts of clusters in turn, for what is
// not a request and runs on goroutines. Safe for concurrent use.
type dialer struct {
	main *stats.Main
	next atomic.Uint64
}

// host is whose turn it is; nil if there is none.
func (d *dialer) host(c *clusterEntry) *cluster.Host {
	hosts := c.Hosts().Hosts()
	for range hosts {
		h := hosts[(d.next.Add(1)-1)%uint64(len(hosts))]
		if h.Health() == cluster.Healthy {
			return h
		}
	}
	return nil
}

// dial opens a connection, through the cluster's transport socket, and counts it
// among the cluster's.
func (d *dialer) dial(ctx context.Context, c *clusterEntry, alpn string) (net.Conn, error) {
	h := d.host(c)
	if h == nil {
		return nil, fmt.Errorf("cluster '%s': %w", c.Name(), errNoHost)
	}
	c.Dialled()
	a := h.Address()
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout())
	defer cancel()
	began := time.Now()
	raw, err := c.connect(ctx, &a)
	if err == nil {
		raw, err = c.secure(ctx, h, raw, alpn)
	}
	if err != nil {
		d.main.Inc(c.Stats.UpstreamCxConnectFail)
		return nil, fmt.Errorf("cluster '%s', host %s: %w", c.Name(), a.String(), err)
	}
	d.main.Inc(c.Stats.UpstreamCxTotal)
	d.main.GaugeAdd(c.Stats.UpstreamCxActive, 1)
	d.main.Record(c.Stats.UpstreamCxConnectMs, uint64(time.Since(began)/time.Millisecond)) //nolint:gosec // not negative
	return &dialled{Conn: raw, main: d.main, c: c, since: time.Now()}, nil
}

// connect opens a connection to an address, from where and with the options that the
// cluster's connections have.
func (e *clusterEntry) connect(ctx context.Context, a *filter.Address) (net.Conn, error) {
	network, address := "tcp", a.String()
	if !a.IP.IsValid() {
		network, address = "unix", a.Pipe
	}
	var from net.Dialer
	if s := e.opt.Source; s.IsValid() && network == "tcp" {
		from.LocalAddr = net.TCPAddrFromAddrPort(s)
	}
	if set := e.opt.Control; set != nil && network == "tcp" {
		from.Control = func(_, _ string, c syscall.RawConn) error {
			var err error
			return errors.Join(c.Control(func(fd uintptr) { err = set(int(fd)) }), err) //nolint:gosec // a descriptor
		}
	}
	return from.DialContext(ctx, network, address) //nolint:wrapcheck // its caller does
}

// secure begins TLS where the cluster has it, after a PROXY header where it has that.
func (e *clusterEntry) secure(ctx context.Context, h *cluster.Host, raw net.Conn, alpn string) (net.Conn, error) {
	i := h.Attributes().TransportSocket
	if err := e.announce(ctx, h, raw, i); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	t := e.socketTLS(i)
	if t == nil {
		return raw, nil
	}
	c := t.Load()
	if c == nil {
		return nil, errors.Join(tlsio.ErrSecretMissing, raw.Close())
	}
	conf := c.Config(tlsio.ClientSessionOptions{Host: h.Hostname(), ALPNFallback: []string{alpn}})
	if alpn == grpcconn.Protocol {
		return grpcconn.Secure(ctx, raw, conf) //nolint:wrapcheck // its caller does
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return conn, nil
}

// dialled counts what goes over a connection, and its end.
type dialled struct {
	net.Conn
	main  *stats.Main
	c     *clusterEntry
	since time.Time
	ended atomic.Bool // the host has ended it
	once  sync.Once
}

var _ grpcconn.Watched = (*dialled)(nil)

// Carrier implements grpcconn.Watched.
func (d *dialled) Carrier() net.Conn { return d.Conn }

// Note implements grpcconn.Watched.
func (d *dialled) Note(read, written int, err error) {
	d.main.Add(d.c.Stats.UpstreamCxRxBytesTotal, uint64(read))    //nolint:gosec // not negative
	d.main.Add(d.c.Stats.UpstreamCxTxBytesTotal, uint64(written)) //nolint:gosec // not negative
	d.look(err)
}

// Read implements net.Conn.
func (d *dialled) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	d.main.Add(d.c.Stats.UpstreamCxRxBytesTotal, uint64(max(n, 0)))
	d.look(err)
	return n, err //nolint:wrapcheck // as a net.Conn
}

// Write implements net.Conn.
func (d *dialled) Write(b []byte) (int, error) {
	n, err := d.Conn.Write(b)
	d.main.Add(d.c.Stats.UpstreamCxTxBytesTotal, uint64(max(n, 0)))
	d.look(err)
	return n, err //nolint:wrapcheck // as a net.Conn
}

// look notices the end of the connection.
func (d *dialled) look(err error) {
	var timeout net.Error
	switch {
	case err == nil || errors.Is(err, net.ErrClosed):
	case errors.As(err, &timeout) && timeout.Timeout():
	default:
		d.ended.Store(true)
	}
}

// Close implements net.Conn.
func (d *dialled) Close() error {
	err := d.Conn.Close()
	d.once.Do(func() {
		d.main.GaugeAdd(d.c.Stats.UpstreamCxActive, -1)
		d.main.Inc(d.c.Stats.UpstreamCxDestroy)
		by := d.c.Stats.UpstreamCxDestroyLocal
		if d.ended.Load() {
			by = d.c.Stats.UpstreamCxDestroyRemote
		}
		d.main.Inc(by)
		d.main.Record(d.c.Stats.UpstreamCxLengthMs, uint64(time.Since(d.since)/time.Millisecond)) //nolint:gosec // not negative
	})
	return err //nolint:wrapcheck // as a net.Conn
}
