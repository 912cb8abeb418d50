package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/xds"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/bootstrap"
)

const (
	clientNode    = "demo-client"
	clientCluster = "demo"
	target        = "xds:///greeter"
)

// requestTimeout is how long a request may take, finding its server included.
const requestTimeout = 20 * time.Second

// client is a gRPC client of the service.
type client struct {
	conn   *grpc.ClientConn
	target string
	// by is how it finds the servers.
	by string
	// now makes requests fail that cannot be sent at once.
	now bool
}

// newPlainClient makes a client that knows nothing of xDS and calls the proxy.
func newPlainClient(address string) (*client, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	return &client{conn: conn, target: address, by: "through the proxy"}, nil
}

// newClient makes a client with gRPC's own xDS. A program of its own would
// name a bootstrap file in GRPC_XDS_BOOTSTRAP instead and need no code at all;
// here the file's content is handed over, since gRPC reads the environment only
// when the process starts.
func newClient(server string) (*client, error) {
	file, err := bootstrap.Options{Server: server, NodeID: clientNode, NodeCluster: clientCluster}.GRPC()
	if err != nil {
		return nil, err
	}
	resolver, err := xds.NewXDSResolverWithConfigForTesting(file)
	if err != nil {
		return nil, fmt.Errorf("gRPC's xDS: %w", err)
	}
	conn, err := grpc.NewClient(target, grpc.WithResolvers(resolver), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", target, err)
	}
	return &client{conn: conn, target: target, by: "by gRPC's own xDS"}, nil
}

// greet sends a request and returns the name of the server that answered.
func (c *client) greet(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		var reply wrapperspb.StringValue
		err := c.conn.Invoke(ctx, greetMethod, wrapperspb.String("hello"), &reply, grpc.WaitForReady(!c.now))
		switch {
		case err == nil:
			return reply.GetValue(), nil
		case !choseTooEarly(err):
			return "", fmt.Errorf("a request to %s: %w", c.target, err)
		}
	}
}

// choseTooEarly recognises a race in gRPC for Go: it takes over the routes with
// a new cluster a moment before it is able to use that, and a request in
// between fails before it is sent.
func choseTooEarly(err error) bool {
	s := status.Convert(err)
	return s.Code() == codes.Unavailable && strings.HasPrefix(s.Message(), "unknown cluster selected for RPC")
}

// tally counts answers by server.
type tally map[string]int

func (t tally) String() string { return fmt.Sprintf("%s %d, %s %d", nameA, t[nameA], nameB, t[nameB]) }

// greetMany sends n requests, one after the other.
func (c *client) greetMany(ctx context.Context, n int) (tally, error) {
	t := tally{}
	for range n {
		name, err := c.greet(ctx)
		if err != nil {
			return t, err
		}
		t[name]++
	}
	return t, nil
}
