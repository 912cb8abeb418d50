package grpcconn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// Options say how a connection is used.
type Options struct {
	// MaxMessage bounds a message of the server, in bytes; required.
	MaxMessage int
	// PingAfter is how long the server may be silent, while there are streams,
	// before it is pinged, and PingTimeout how long after that before it is given
	// up. Without PingAfter nothing is pinged.
	PingAfter, PingTimeout time.Duration
	// Window is how many bytes the server may send on a stream before they are
	// read, but for the message that is on its way; on the connection twice as
	// many. Required.
	Window uint32
}

// outputHigh is how much of streams' messages waits in the output.
const outputHigh = 256 << 10

// Conn is a connection with streams. It is safe for concurrent use. Streams end
// with it, by an error that is a status.
type Conn struct {
	o        Options
	sock     socket
	security credentials.AuthInfo
	wg       sync.WaitGroup // goroutines of the connection

	// mu guards what follows. Nothing waits while it is held, but for others'
	// computing.
	mu      sync.Mutex
	h2      http2.Conn
	streams []*Stream
	ready   bool  // the server's settings have come
	gone    error // the server's GOAWAY
	unsent  error // why nothing can be sent any more
	err     error // why the connection is over

	reading  bool // somebody reads, outside of the lock
	poked    bool // to see whether he should go on
	lastRead time.Time

	out      []byte // what the codec has written
	spare    sync.Pool
	full     bool // the codec waits for room in out
	flushing bool // a goroutine writes what the socket did not take at once
	senders  int  // that wait

	// left counts how often nobody has been left to read; armed says that the
	// timer of the stand-in runs, from armedAt.
	left, armedAt uint64
	armed         bool
	standInTimer  *time.Timer
	pingTimer     *time.Timer
	pingedAt      time.Time
}

// Connect makes a Conn of a connection to a server, which is the Conn's from now
// on. It returns when the server's settings have come, an error if that is not
// before the context ends.
func Connect(ctx context.Context, nc net.Conn, o Options) (*Conn, error) {
	c := newConn(newSocket(nc), securityOf(nc), o)
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(longAgo()) }) // fails if it is closed
	c.mu.Lock()
	c.prepare()
	c.h2.Start()
	c.push()
	for !c.ready && c.err == nil {
		c.lead()
	}
	if !stop() {
		c.fail(http2.Cancel, status.FromContextError(context.Cause(ctx)).Err())
	}
	err := c.err
	if err == nil {
		c.begin()
	}
	c.mu.Unlock()
	if err != nil {
		c.wg.Wait()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return c, nil
}

func newConn(sock socket, security credentials.AuthInfo, o Options) *Conn {
	c := &Conn{o: o, sock: sock, security: security, lastRead: time.Now()}
	c.h2.Init(http2.Client, &http2.Options{
		StreamWindow: o.Window, ConnWindow: 2 * o.Window, StreamErrors: true, OutputHigh: outputHigh,
	}, handler{c}, &c.out)
	return c
}

// begin sets the timers.
func (c *Conn) begin() {
	c.arm()
	if c.o.PingAfter > 0 {
		c.pingTimer = time.AfterFunc(c.o.PingAfter, c.onPing)
	}
}

// Usable reports whether a stream can be opened: not after the end of the
// connection, or the server's GOAWAY.
func (c *Conn) Usable() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && c.unsent == nil && !c.h2.GoneAway()
}

// Open opens a stream of a method with the fields of a request that are given
// beyond those of gRPC itself. It ends with the context.
func (c *Conn) Open(ctx context.Context, head *header.Map) (*Stream, error) {
	s := &Stream{c: c}
	s.in.limit = c.o.MaxMessage
	s.news.L, s.space.L = &c.mu, &c.mu
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmp.Or(c.err, c.unsent); err != nil {
		return nil, err
	}
	c.prepare()
	h, err := c.h2.OpenStream(head, false, &s.head, &s.trailers, s)
	switch {
	case errors.Is(err, http2.ErrNoStreams):
		return nil, status.Errorf(codes.Unavailable, "the server takes no more than %d streams on a connection", c.h2.PeerMaxStreams())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	s.h = h
	s.stop = context.AfterFunc(ctx, func() { s.cancel(status.FromContextError(ctx.Err()).Err()) })
	c.streams = append(c.streams, s)
	c.settle()
	return s, nil
}

// Close ends the connection with all its streams, and waits for its goroutines.
func (c *Conn) Close() {
	c.mu.Lock()
	if c.err == nil {
		c.prepare()
		c.h2.GoAway(http2.NoError, 0, "")
		c.push()
		c.fail(http2.Cancel, status.Error(codes.Canceled, "the connection has been closed"))
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// fail ends the connection, and what depends on it.
func (c *Conn) fail(code http2.ErrCode, err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.h2.Close(code, "")
	for _, t := range []*time.Timer{c.standInTimer, c.pingTimer} {
		if t != nil {
			t.Stop()
		}
	}
	c.sock.close(&c.wg)
}

// broken is the end of the connection by an error of the socket.
func (c *Conn) broken(err error) {
	switch {
	case c.gone != nil:
		err = c.gone
	case errors.Is(err, io.EOF):
		err = status.Error(codes.Unavailable, "the server closed the connection")
	case c.unsent != nil:
		err = c.unsent
	default:
		err = brokenBy(err)
	}
	c.fail(http2.Cancel, err)
}

func brokenBy(err error) error {
	return status.Errorf(codes.Unavailable, "the connection broke: %v", err)
}

// settle does what the codec's turn has made due: what is to be sent is, who
// waits for room is woken, and a connection that the server gave up is closed
// with its last stream.
func (c *Conn) settle() {
	c.push()
	if c.senders > 0 {
		for _, s := range c.streams {
			if s.h.Buffered() == 0 {
				s.space.Broadcast()
			}
		}
	}
	if c.gone != nil && c.h2.Active() == 0 {
		c.fail(http2.NoError, c.gone)
	}
}

// forget takes a stream from the list.
func (c *Conn) forget(s *Stream) {
	c.streams = slices.DeleteFunc(c.streams, func(other *Stream) bool { return other == s })
}

// Ended reports whether the connection is over.
func (c *Conn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// Security is what gRPC's credentials are told of the connection.
func (c *Conn) Security() credentials.AuthInfo { return c.security }
