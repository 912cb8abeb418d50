package xdsclient

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/wire/client"
)

// Transport reaches one server. [NewDirect], [Dial] and [Conn] make one over
// gRPC; the packages xdsclient/rest and xdsclient/file have the others. Only this module
// can implement it.
//
// A transport is used by one [Source] at a time.
type Transport interface {
	// Open opens a stream. It returns once requests can be sent, or an error
	// that says why not. Everything the stream holds is given back when ctx ends.
	Open(ctx context.Context, o Opening) (Stream, error)
	// Close gives back what the transport holds beyond its streams, such as a
	// connection it has dialled. It is called once, after all streams have ended.
	Close() error
}

// Opening says what a stream is for.
type Opening struct {
	// TypeURL is the one type of the stream; empty for an aggregated one.
	TypeURL string
	// Delta asks for the delta variant, otherwise state of the world.
	Delta bool
	// Node identifies the client to the server. Read-only.
	Node *corev3.Node
}

// Stream is one stream to a server, or what looks like one: polling and files
// are streams whose Recv takes its time. Send and Recv are called by one
// goroutine each, at the same time. A Recv or Send that waits ends when the
// context given to Open does.
type Stream interface {
	// Send sends a request. An error means that the stream is of no more use;
	// Recv will say why.
	Send(r *client.Request) error
	// Recv waits for the next response. Its error ends the stream. The response
	// and the bytes in it are the caller's until it calls Recv again.
	Recv() (*client.Response, error)
}
