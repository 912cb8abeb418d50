package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/xebec-proxy/xebec/internal/grpcconn"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// grpc is the way to a gRPC service (BS-29). A cluster of the bootstrap is spoken
// to by the library's own transport; google_grpc is what it says, a channel of
// gRPC's with its own names, resolvers, credentials and interceptors.
func (d *Discovery) grpc(g *corev3.GrpcService) (xdsclient.Transport, error) {
	md := initialMetadata(g)
	switch k := g.GetTargetSpecifier().(type) {
	case *corev3.GrpcService_EnvoyGrpc_:
		if err := d.checkCluster(k.EnvoyGrpc.GetClusterName()); err != nil {
			return nil, fmt.Errorf("envoy_grpc.cluster_name: %w", err)
		}
		return d.overCluster(k.EnvoyGrpc, md)
	case *corev3.GrpcService_GoogleGrpc_:
		opts, err := d.google(k.GoogleGrpc)
		if err != nil {
			return nil, fmt.Errorf("google_grpc.%w", err)
		}
		return xdsclient.Dial(k.GoogleGrpc.GetTargetUri(), append([]grpc.DialOption{grpc.WithChainStreamInterceptor(sending(md))}, opts...)...), nil
	default:
		return nil, errors.New("target_specifier: envoy_grpc or google_grpc is needed")
	}
}

// initialMetadata is what a service is to be sent with each stream.
func initialMetadata(g *corev3.GrpcService) metadata.MD {
	md := metadata.MD{}
	for _, h := range g.GetInitialMetadata() {
		v := h.GetValue()
		if len(h.GetRawValue()) > 0 {
			v = string(h.GetRawValue())
		}
		md.Append(h.GetKey(), v)
	}
	return md
}

// sending adds metadata to each stream of a channel.
func sending(md metadata.MD) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
		if len(md) > 0 {
			ctx = metadata.NewOutgoingContext(ctx, md)
		}
		return next(ctx, desc, cc, method, o...)
	}
}

// overCluster is gRPC over connections to hosts of a cluster of the bootstrap,
// with the cluster's transport socket.
func (d *Discovery) overCluster(e *corev3.GrpcService_EnvoyGrpc, md metadata.MD) (xdsclient.Transport, error) {
	name, authority := e.GetClusterName(), e.GetAuthority()
	if authority == "" {
		authority = name
	}
	t, err := xdsclient.NewDirect(xdsclient.DirectConfig{
		Dial:      func(ctx context.Context) (net.Conn, error) { return d.dial(ctx, name, grpcconn.Protocol) },
		Authority: authority, Metadata: md, MaxMessageBytes: int(e.GetMaxReceiveMessageLength().GetValue()),
	})
	if err != nil { // there is nothing else that it could refuse
		return nil, fmt.Errorf("initial_metadata: %w", err)
	}
	return t, nil
}
