package oneport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// Config says how connections begin.
type Config struct {
	// Credentials are those of the grpc.Server.
	Credentials Credentials
	// TLS is nil for plaintext. Its NextProtos should be "h2" and "http/1.1".
	TLS *tls.Config
	// Timeout bounds the TLS handshake and the wait for the first bytes.
	// Default 30 s.
	Timeout time.Duration
	// Silence is how long a connection on HTTP/2 may say nothing before it is
	// taken for gRPC's. Default 5 s.
	Silence time.Duration
	// Failed, if set, is told of connections that have failed before they were
	// handed on, such as by their TLS handshake. It is called concurrently.
	Failed func(remote net.Addr, err error)
}

// ErrHandshake is wrapped by errors of TLS handshakes.
var ErrHandshake = errors.New("TLS handshake")

// Port hands the connections of a listener to two servers.
type Port struct {
	lis        net.Listener
	cfg        Config
	grpc, http *queue

	mu      sync.Mutex
	begun   map[net.Conn]struct{} // not handed on yet
	closing bool
	wg      sync.WaitGroup
}

// New makes a port of a listener. It starts nothing; follow it with Serve.
func New(lis net.Listener, cfg Config) *Port {
	if cfg.Credentials.begun == nil {
		cfg.Credentials = NewCredentials() // for nobody
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Silence == 0 {
		cfg.Silence = 5 * time.Second
	}
	if cfg.Failed == nil {
		cfg.Failed = func(net.Addr, error) {}
	}
	p := &Port{lis: lis, cfg: cfg, begun: map[net.Conn]struct{}{}}
	p.grpc, p.http = newQueue(p), newQueue(p)
	p.grpc.forGRPC = true
	return p
}

// GRPC is the listener for grpc.Server.Serve; the server needs the Credentials
// of the Config. Closing either listener closes the port.
func (p *Port) GRPC() net.Listener { return p.grpc }

// HTTP is the listener for http.Server.Serve; the server needs ConnContext, and
// UnencryptedHTTP2 in its Protocols for HTTP/2, with and without TLS.
func (p *Port) HTTP() net.Listener { return p.http }

// Serve accepts connections until the port is closed, and returns nil then; or
// until the listener fails. It returns after everything it has started.
func (p *Port) Serve() error {
	defer p.wg.Wait()
	defer p.Close()
	var pause time.Duration
	for {
		c, err := p.lis.Accept()
		if err == nil {
			pause = 0
			p.begin(c)
			continue
		}
		if p.isClosing() {
			return nil
		}
		if te, ok := errors.AsType[interface {
			error
			Temporary() bool
		}](err); !ok || !te.Temporary() {
			return fmt.Errorf("accepting connections: %w", err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		time.Sleep(pause)
	}
}

// Close stops accepting and drops connections that are not handed on yet.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return nil
	}
	p.closing = true
	for c := range p.begun {
		_ = c.Close()
	}
	close(p.grpc.closed)
	close(p.http.closed)
	return p.lis.Close()
}

func (p *Port) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closing
}

// begin serves a connection until it is handed on.
func (p *Port) begin(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		_ = c.Close()
		return
	}
	p.begun[c] = struct{}{}
	p.wg.Go(func() {
		to, ready, err := p.prepare(c)
		p.mu.Lock()
		delete(p.begun, c)
		closing := p.closing
		p.mu.Unlock()
		switch {
		case closing:
			_ = c.Close()
		case err != nil:
			_ = c.Close()
			p.cfg.Failed(c.RemoteAddr(), err)
		default:
			to.put(ready)
		}
	})
}

// prepare carries out the handshake and finds out who the connection is for.
func (p *Port) prepare(raw net.Conn) (*queue, *conn, error) {
	if err := raw.SetDeadline(time.Now().Add(p.cfg.Timeout)); err != nil {
		return nil, nil, err
	}
	c := &conn{Conn: raw, raw: raw, info: plaintext()}
	if p.cfg.TLS != nil {
		t := tls.Server(raw, p.cfg.TLS)
		if err := t.Handshake(); err != nil { //nolint:noctx // the deadline bounds it, Close ends it
			return nil, nil, fmt.Errorf("%w: %w", ErrHandshake, err)
		}
		c.Conn = t
		c.info = credentials.TLSInfo{
			State: t.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	to, err := p.classify(c)
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	return to, c, err
}

// plaintext is what gRPC's own insecure credentials say of a connection.
func plaintext() credentials.AuthInfo {
	_, info, err := insecure.NewCredentials().ServerHandshake(nil)
	if err != nil {
		return nil
	}
	return info
}

// Credentials are for the grpc.Server of a port, by grpc.Creds, and for the
// port's Config: they know what the port has found out in its handshake. gRPC
// is handed the connections as they were accepted, so that it can set options of
// their sockets, and gets what the port has made of them from here.
type Credentials struct {
	credentials.TransportCredentials
	begun *sync.Map // net.Conn as accepted → *conn
}

// NewCredentials makes credentials for one grpc.Server and one Port.
func NewCredentials() Credentials { return Credentials{insecure.NewCredentials(), &sync.Map{}} }

// ServerHandshake implements credentials.TransportCredentials.
func (c Credentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	own, ok := c.begun.LoadAndDelete(raw)
	if !ok {
		return nil, nil, fmt.Errorf("oneport: a connection of type %T does not come from the Port of these credentials", raw)
	}
	return own.(*conn), own.(*conn).info, nil
}

// Clone implements credentials.TransportCredentials.
func (c Credentials) Clone() credentials.TransportCredentials {
	return Credentials{c.TransportCredentials.Clone(), c.begun}
}

// ConnContext is for http.Server.ConnContext: requests find their connection's
// google.golang.org/grpc/peer in their context, with the state of TLS.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	own, ok := c.(*conn)
	if !ok {
		return ctx
	}
	return peer.NewContext(ctx, &peer.Peer{Addr: c.RemoteAddr(), LocalAddr: c.LocalAddr(), AuthInfo: own.info})
}

// queue is a listener that is given its connections.
type queue struct {
	port    *Port
	forGRPC bool
	conns   chan net.Conn
	closed  chan struct{}
}

func newQueue(p *Port) *queue {
	return &queue{port: p, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (q *queue) put(c *conn) {
	var give net.Conn = c
	begun := q.port.cfg.Credentials.begun
	if q.forGRPC {
		give = c.raw
		begun.Store(c.raw, c)
	}
	select {
	case q.conns <- give:
	case <-q.closed:
		begun.Delete(c.raw)
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (q *queue) Close() error { return q.port.Close() }

// Addr implements net.Listener.
func (q *queue) Addr() net.Addr { return q.port.lis.Addr() }
