package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// grpc is the way to a gRPC service (BS-29).
func (d *Discovery) grpc(g *corev3.GrpcService) (xdsclient.Transport, error) {
	var pairs []string
	for _, h := range g.GetInitialMetadata() {
		v := h.GetValue()
		if len(h.GetRawValue()) > 0 {
			v = string(h.GetRawValue())
		}
		pairs = append(pairs, h.GetKey(), v)
	}
	opts := []grpc.DialOption{grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
		if len(pairs) > 0 {
			ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
		}
		return next(ctx, desc, cc, method, o...)
	})}
	var t *xdsclient.GRPC
	switch k := g.GetTargetSpecifier().(type) {
	case *corev3.GrpcService_EnvoyGrpc_:
		if err := d.checkCluster(k.EnvoyGrpc.GetClusterName()); err != nil {
			return nil, fmt.Errorf("envoy_grpc.cluster_name: %w", err)
		}
		t = d.overCluster(k.EnvoyGrpc, opts)
	case *corev3.GrpcService_GoogleGrpc_:
		creds, err := googleCredentials(k.GoogleGrpc)
		if err != nil {
			return nil, fmt.Errorf("google_grpc.%w", err)
		}
		t = xdsclient.Dial(k.GoogleGrpc.GetTargetUri(), append(opts, grpc.WithTransportCredentials(creds))...)
	default:
		return nil, errors.New("target_specifier: envoy_grpc or google_grpc is needed")
	}
	return t, nil
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

// googleCredentials are those of a channel; what is not built is refused by
// name.
func googleCredentials(g *corev3.GrpcService_GoogleGrpc) (credentials.TransportCredentials, error) {
	if len(g.GetCallCredentials()) > 0 {
		return nil, errors.New("call_credentials: known but not built: remove it")
	}
	if g.GetCredentialsFactoryName() != "" {
		return nil, errors.New("credentials_factory_name: known but not built: remove it")
	}
	switch c := g.GetChannelCredentials().GetCredentialSpecifier().(type) {
	case nil:
		return insecure.NewCredentials(), nil
	case *corev3.GrpcService_GoogleGrpc_ChannelCredentials_LocalCredentials:
		return insecure.NewCredentials(), nil
	case *corev3.GrpcService_GoogleGrpc_ChannelCredentials_SslCredentials:
		return nil, errors.New("channel_credentials.ssl_credentials: known but not built: write envoy_grpc with a cluster that has a TLS transport_socket")
	default:
		return nil, fmt.Errorf("channel_credentials: %T is known but not built: write envoy_grpc", c)
	}
}
