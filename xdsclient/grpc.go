package xdsclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
)

// DialFunc makes a connection. One that is an io.Closer is closed when the
// source is.
type DialFunc func(ctx context.Context) (grpc.ClientConnInterface, error)

// MaxMessageBytes bounds a message from a server, unless the connection says
// otherwise: grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(n)) does not,
// but [GRPC.MaxMessageBytes] does.
const MaxMessageBytes = 64 << 20

// GRPC is a [Transport] over gRPC. Its credentials are those of the connection.
type GRPC struct {
	// Connect is called before the first stream, and again only if it failed.
	Connect DialFunc
	// MaxMessageBytes bounds a message from the server. Default
	// [MaxMessageBytes].
	MaxMessageBytes int

	mu    sync.Mutex
	conn  grpc.ClientConnInterface
	owned bool
}

// Conn is a transport over a connection that stays the caller's, who closes it
// after the source.
func Conn(conn grpc.ClientConnInterface) *GRPC { return &GRPC{conn: conn} }

// Dial is a transport that makes a connection of its own when it is needed. The
// options must hold transport credentials. Ping and window sizes are set to
// suit discovery; options given win.
func Dial(target string, opts ...grpc.DialOption) *GRPC {
	return &GRPC{Connect: func(context.Context) (grpc.ClientConnInterface, error) {
		all := append([]grpc.DialOption{
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingTimeout}),
			grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(2 * streamWindow),
		}, opts...)
		conn, err := grpc.NewClient(target, all...)
		if err != nil {
			return nil, fmt.Errorf("connecting to %q: %w", target, err)
		}
		return conn, nil
	}}
}

const (
	pingAfter    = 5 * time.Minute // less is too often for a server with gRPC's defaults
	pingTimeout  = 20 * time.Second
	streamWindow = 1 << 20
	// settleTime is how long an attempt waits for a connection that has failed
	// before and is being made anew.
	settleTime = time.Second
)

// Open opens a stream.
func (g *GRPC) Open(ctx context.Context, o Opening) (Stream, error) {
	path, err := method(o)
	if err != nil {
		return nil, err
	}
	conn, err := g.connection(ctx)
	if err != nil {
		return nil, err
	}
	hasten(ctx, conn)
	limit := g.MaxMessageBytes
	if limit == 0 {
		limit = MaxMessageBytes
	}
	rpc, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path,
		grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(limit))
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	node, err := proto.Marshal(o.Node)
	if err != nil {
		return nil, fmt.Errorf("encoding the node: %w", err)
	}
	return &grpcStream{rpc: rpc, delta: o.Delta, node: node, names: namesSent{}}, nil
}

// Close closes the connection if the transport has made it.
func (g *GRPC) Close() error {
	g.mu.Lock()
	conn, owned := g.conn, g.owned
	g.conn, g.owned = nil, false
	g.mu.Unlock()
	if c, ok := conn.(io.Closer); ok && owned {
		return c.Close() //nolint:wrapcheck // its caller does
	}
	return nil
}

func (g *GRPC) connection(ctx context.Context) (grpc.ClientConnInterface, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn != nil {
		return g.conn, nil
	}
	if g.Connect == nil {
		return nil, errors.New("the transport has neither a connection nor a way to make one: use Conn or Dial")
	}
	conn, err := g.Connect(ctx)
	if err != nil {
		return nil, err
	}
	g.conn, g.owned = conn, true
	return conn, nil
}

// hasten makes a connection that has failed try again now: the source has its
// own back-off, and gRPC's, of up to two minutes, must not come on top.
func hasten(ctx context.Context, conn grpc.ClientConnInterface) {
	cc, ok := conn.(*grpc.ClientConn)
	if !ok || cc.GetState() != connectivity.TransientFailure {
		return
	}
	cc.ResetConnectBackoff()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	cc.WaitForStateChange(ctx, connectivity.TransientFailure)
}

// method is the path of a discovery method.
func method(o Opening) (string, error) {
	if o.TypeURL == "" {
		if o.Delta {
			return "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", nil
		}
		return "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources", nil
	}
	for _, m := range methods() {
		if m.typeURL != o.TypeURL {
			continue
		}
		if o.Delta {
			return "/envoy.service." + m.service + "/Delta" + m.noun, nil
		}
		return "/envoy.service." + m.service + "/Stream" + m.noun, nil
	}
	return "", fmt.Errorf("there is no discovery service for %s alone: use an aggregated stream", xds.Kind(o.TypeURL))
}

type methodRow struct{ typeURL, service, noun string }

// methods are the services of single types (transport specification, section 1).
func methods() []methodRow {
	return []methodRow{
		{xds.ListenerType, "listener.v3.ListenerDiscoveryService", "Listeners"},
		{xds.RouteType, "route.v3.RouteDiscoveryService", "Routes"},
		{xds.ScopedRouteType, "route.v3.ScopedRoutesDiscoveryService", "ScopedRoutes"},
		{xds.VirtualHostType, "route.v3.VirtualHostDiscoveryService", "VirtualHosts"},
		{xds.ClusterType, "cluster.v3.ClusterDiscoveryService", "Clusters"},
		{xds.EndpointType, "endpoint.v3.EndpointDiscoveryService", "Endpoints"},
		{xds.LocalityEndpointType, "endpoint.v3.LocalityEndpointDiscoveryService", "LocalityEndpoints"},
		{xds.SecretType, "secret.v3.SecretDiscoveryService", "Secrets"},
		{xds.RuntimeType, "runtime.v3.RuntimeDiscoveryService", "Runtime"},
		{xds.ExtensionConfigType, "extension.v3.ExtensionConfigDiscoveryService", "ExtensionConfigs"},
	}
}
