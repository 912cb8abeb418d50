package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// grpc is the way to a gRPC service (BS-29).
func (d *Discovery) grpc(g *corev3.GrpcService) (xdsclient.Transport, error) {
	opts := []grpc.DialOption{grpc.WithChainStreamInterceptor(initialMetadata(g))}
	var t *xdsclient.GRPC
	switch k := g.GetTargetSpecifier().(type) {
	case *corev3.GrpcService_EnvoyGrpc_:
		if err := d.checkCluster(k.EnvoyGrpc.GetClusterName()); err != nil {
			return nil, fmt.Errorf("envoy_grpc.cluster_name: %w", err)
		}
		t = d.overCluster(k.EnvoyGrpc, opts)
	case *corev3.GrpcService_GoogleGrpc_:
		more, err := d.google(k.GoogleGrpc)
		if err != nil {
			return nil, fmt.Errorf("google_grpc.%w", err)
		}
		t = xdsclient.Dial(k.GoogleGrpc.GetTargetUri(), append(opts, more...)...)
	default:
		return nil, errors.New("target_specifier: envoy_grpc or google_grpc is needed")
	}
	return t, nil
}

// initialMetadata adds what a service is to be sent with each stream.
func initialMetadata(g *corev3.GrpcService) grpc.StreamClientInterceptor {
	var pairs []string
	for _, h := range g.GetInitialMetadata() {
		v := h.GetValue()
		if len(h.GetRawValue()) > 0 {
			v = string(h.GetRawValue())
		}
		pairs = append(pairs, h.GetKey(), v)
	}
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
		if len(pairs) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
		}
		return next(ctx, desc, cc, method, o...)
	}
}

// overCluster is gRPC over connections to hosts of a cluster of the bootstrap,
// with the cluster's transport socket.
func (d *Discovery) overCluster(e *corev3.GrpcService_EnvoyGrpc, opts []grpc.DialOption) *xdsclient.GRPC {
	name, authority := e.GetClusterName(), e.GetAuthority()
	if authority == "" {
		authority = name
	}
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return d.dial(ctx, name, "h2")
	}
	t := xdsclient.Dial("passthrough:///"+name, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS is the cluster's, below
		grpc.WithContextDialer(dial), grpc.WithAuthority(authority))...)
	if n := e.GetMaxReceiveMessageLength(); n != nil {
		t.MaxMessageBytes = int(n.GetValue())
	}
	return t
}
