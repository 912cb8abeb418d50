package main

import (
	"context"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/stats"

	"github.com/xebec-proxy/xebec/bench/client/talk"
)

// counter counts requests, and bytes on the connections.
type counter struct{ requests, sent, received atomic.Int64 }

func (c *counter) traffic() talk.Traffic {
	return talk.Traffic{Requests: int(c.requests.Load()), Sent: int(c.sent.Load()), Received: int(c.received.Load())}
}

// TagRPC is part of stats.Handler.
func (c *counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC counts the messages of clients.
func (c *counter) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InPayload); ok {
		c.requests.Add(1)
	}
}

// TagConn is part of stats.Handler.
func (c *counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn is part of stats.Handler.
func (c *counter) HandleConn(context.Context, stats.ConnStats) {}

// listener counts the bytes of the connections it accepts.
type listener struct {
	net.Listener
	counter *counter
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn{c, l.counter}, nil
}

type conn struct {
	net.Conn
	counter *counter
}

func (c conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counter.sent.Add(int64(n))
	return n, err
}

func (c conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counter.received.Add(int64(n))
	return n, err
}
