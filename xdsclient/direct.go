package xdsclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/grpcconn"
)

// DirectConfig says how a [Direct] transport reaches its server. What is wrong
// with it is an error of [NewDirect] that begins with the field.
type DirectConfig struct {
	// Address is "host:port" or "unix:///path". With Dial it is not connected to,
	// but still names the server in Authority's stead, and may be empty.
	Address string
	// Dial makes connections instead. It must return when its context ends, which
	// is after 20 s at the latest.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS, if not nil, is spoken on every connection. "h2" is offered, and the
	// server has to choose it. Without a ServerName that of the server is the host
	// of Authority.
	TLS *tls.Config
	// Plaintext allows to do without TLS to an address that is not on loopback.
	// Whether what Dial returns is safe is not looked at.
	Plaintext bool
	// Authority is the ":authority" of requests. Default: Address, or "localhost"
	// for a Unix socket.
	Authority string
	// Metadata is sent with each stream. Values of keys that end in "-bin" may
	// hold any bytes. Keys of gRPC and HTTP/2 itself are an error, but for
	// "user-agent".
	Metadata metadata.MD
	// Credentials add metadata to each stream. They are asked when it is opened,
	// and need TLS if they say so.
	Credentials credentials.PerRPCCredentials
	// MaxMessageBytes bounds a message from the server. Default
	// [MaxMessageBytes].
	MaxMessageBytes int
}

// Direct is a [Transport] over gRPC that does not use gRPC's own connections,
// but speaks to one server over one at a time, without a goroutine between the
// socket and the source. So a change costs a small part of the CPU that it costs
// over [Dial]; what there is beyond that (resolvers, balancing, proxies of the
// environment, interceptors, compression, credentials of gRPC's) Dial has.
//
// All streams of a source share the connection. One that has ended, or that the
// server wants to be left (GOAWAY), is replaced when the next stream is opened;
// when to try again is up to the source. A server that is silent for 5 minutes
// is pinged, and given up if it does not answer within 20 s.
//
// Errors of its streams are gRPC statuses (status.FromError): those of the
// server, UNAVAILABLE where the connection is at fault, RESOURCE_EXHAUSTED for a
// message that is too large, INTERNAL for a breach of the protocol.
//
// A Direct is safe for concurrent use. Source: gRPC over HTTP/2
// (grpc/doc/PROTOCOL-HTTP2.md).
type Direct struct {
	c       DirectConfig
	network string
	address string
	head    requestHead

	mu      sync.Mutex
	conn    *grpcconn.Conn
	old     []*grpcconn.Conn // left, but perhaps not by all streams
	dialing *dialing
	closed  bool
}

// dialing is a connection in the making.
type dialing struct {
	done chan struct{}
	err  error
	// abandoned: not the server was at fault, but who has made it was no longer
	// interested.
	abandoned bool
}

// connectTimeout is how long a server may take until it has said what an HTTP/2
// connection begins with.
const connectTimeout = 20 * time.Second

// NewDirect checks a configuration and makes a transport of it. Nothing is
// contacted before the first stream.
func NewDirect(c DirectConfig) (*Direct, error) {
	d := &Direct{c: c}
	if err := d.place(); err != nil {
		return nil, err
	}
	if d.c.MaxMessageBytes < 0 {
		return nil, errors.New("MaxMessageBytes: must not be negative")
	}
	if d.c.MaxMessageBytes == 0 {
		d.c.MaxMessageBytes = MaxMessageBytes
	}
	if d.c.Credentials != nil && c.TLS == nil && d.c.Credentials.RequireTransportSecurity() {
		return nil, errors.New("Credentials: they are only to be sent over TLS, and TLS is not set") //nolint:staticcheck // the field
	}
	if c.TLS != nil {
		d.c.TLS = secureConfig(c.TLS, d.c.Authority)
	}
	var err error
	d.head, err = newRequestHead(d.c.Authority, c.TLS != nil, c.Metadata)
	if err != nil {
		return nil, fmt.Errorf("Metadata: %w", err) //nolint:staticcheck // the field
	}
	return d, nil
}

// place finds out where the server is and what it is called.
func (d *Direct) place() error {
	c := &d.c
	if c.Address == "" {
		if c.Dial == nil {
			return errors.New("Address: name the server, as host:port or unix:///path") //nolint:staticcheck // the field
		}
		if c.Authority == "" {
			return errors.New("Authority: is needed where there is no Address")
		}
		return nil
	}
	if strings.HasPrefix(c.Address, "unix:") {
		u, err := url.Parse(c.Address)
		if err != nil || u.Host != "" || u.Path == "" {
			return fmt.Errorf("Address: %q is not of the form unix:///path", c.Address) //nolint:staticcheck // the field
		}
		d.network, d.address = "unix", u.Path
		c.Authority = orElse(c.Authority, "localhost")
		return nil
	}
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil || host == "" || port == "" || strings.Contains(c.Address, "/") {
		return fmt.Errorf("Address: %q is neither host:port nor unix:///path", c.Address) //nolint:staticcheck // the field
	}
	if c.TLS == nil && c.Dial == nil && !c.Plaintext && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("TLS: %s is not on this machine; set TLS, or Plaintext if the network itself is safe", c.Address)
	}
	d.network, d.address = "tcp", c.Address
	c.Authority = orElse(c.Authority, c.Address)
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// secureConfig is the configuration of TLS to a server.
func secureConfig(c *tls.Config, authority string) *tls.Config {
	c = c.Clone()
	if c.ServerName == "" {
		c.ServerName = authority
		if host, _, err := net.SplitHostPort(authority); err == nil {
			c.ServerName = host
		}
	}
	if !slices.Contains(c.NextProtos, grpcconn.Protocol) {
		c.NextProtos = append([]string{grpcconn.Protocol}, c.NextProtos...)
	}
	return c
}

// Open opens a stream.
func (d *Direct) Open(ctx context.Context, o Opening) (Stream, error) {
	path, err := method(o)
	if err != nil {
		return nil, err
	}
	node, err := proto.Marshal(o.Node)
	if err != nil {
		return nil, fmt.Errorf("encoding the node: %w", err)
	}
	rpc, err := d.open(ctx, path)
	if err != nil {
		return nil, err
	}
	return &directStream{rpc: rpc, delta: o.Delta, node: node, names: namesSent{}}, nil
}

// open opens a stream on the connection, or on another if it has just ended.
func (d *Direct) open(ctx context.Context, path string) (*grpcconn.Stream, error) {
	for again := true; ; again = false {
		conn, err := d.connection(ctx)
		if err != nil {
			return nil, err
		}
		head, err := d.head.of(ctx, path, conn.Security(), d.c.Credentials)
		if err != nil {
			return nil, err
		}
		rpc, err := conn.Open(ctx, head)
		if err == nil || !again || conn.Usable() {
			return rpc, err //nolint:wrapcheck // its caller does
		}
	}
}

// connection is the one that there is, or a new one. Who comes while one is
// being made waits for it, and fails with it.
func (d *Direct) connection(ctx context.Context) (*grpcconn.Conn, error) {
	for {
		d.mu.Lock()
		if d.closed {
			d.mu.Unlock()
			return nil, errors.New("the transport has been closed")
		}
		if d.conn != nil && d.conn.Usable() {
			defer d.mu.Unlock()
			return d.conn, nil
		}
		at := d.dialing
		if at == nil {
			at = &dialing{done: make(chan struct{})}
			d.dialing = at
			d.mu.Unlock()
			return d.renew(ctx, at)
		}
		d.mu.Unlock()
		select {
		case <-at.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if at.err != nil && !at.abandoned {
			return nil, at.err
		}
	}
}

// renew makes a connection for all who wait for it.
func (d *Direct) renew(ctx context.Context, at *dialing) (*grpcconn.Conn, error) {
	conn, err := d.connect(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	defer close(at.done)
	d.dialing = nil
	at.err, at.abandoned = err, err != nil && ctx.Err() != nil
	if err != nil {
		return nil, err
	}
	if d.conn != nil {
		d.old = append(slices.DeleteFunc(d.old, (*grpcconn.Conn).Ended), d.conn)
	}
	d.conn = conn
	return conn, nil
}

func (d *Direct) connect(ctx context.Context) (*grpcconn.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no connection within %s", connectTimeout))
	defer cancel()
	nc, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if d.c.TLS != nil {
		if nc, err = d.secure(ctx, nc); err != nil {
			return nil, fmt.Errorf("TLS with %s: %w", d.c.Authority, err)
		}
	}
	conn, err := grpcconn.Connect(ctx, nc, grpcconn.Options{
		MaxMessage: d.c.MaxMessageBytes, PingAfter: pingAfter, PingTimeout: pingTimeout, Window: streamWindow,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", d.c.Authority, err)
	}
	return conn, nil
}

func (d *Direct) secure(ctx context.Context, nc net.Conn) (net.Conn, error) {
	nc, err := grpcconn.Secure(ctx, nc, d.c.TLS)
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	if err := grpcconn.Agreed(nc); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return nc, nil
}

func (d *Direct) dial(ctx context.Context) (net.Conn, error) {
	if d.c.Dial != nil {
		return d.c.Dial(ctx)
	}
	return new(net.Dialer).DialContext(ctx, d.network, d.address) //nolint:wrapcheck // it names the address
}

// Close closes the connection, and waits for what it has left.
func (d *Direct) Close() error {
	d.mu.Lock()
	all := d.old
	if d.conn != nil {
		all = append(all, d.conn)
	}
	d.conn, d.old, d.closed = nil, nil, true
	d.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
	return nil
}
