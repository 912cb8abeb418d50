package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/credentials/local"

	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// google are the options of a channel to a server that is no cluster; what is
// not built is refused by name. The errors begin with the field.
func (d *Discovery) google(g *corev3.GrpcService_GoogleGrpc) ([]grpc.DialOption, error) {
	switch {
	case g.GetTargetUri() == "":
		return nil, errors.New("target_uri: name the server, as host:port")
	case g.GetCredentialsFactoryName() != "":
		return nil, errors.New("credentials_factory_name: known but not built: remove it")
	}
	creds, err := d.channel(g.GetChannelCredentials())
	if err != nil {
		return nil, fmt.Errorf("channel_credentials.%w", err)
	}
	secure := g.GetChannelCredentials().GetSslCredentials() != nil
	opts := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	for i, c := range g.GetCallCredentials() {
		call, err := perCall(c, secure)
		if err != nil {
			return nil, fmt.Errorf("call_credentials[%d].%w", i, err)
		}
		opts = append(opts, grpc.WithPerRPCCredentials(call))
	}
	if g.GetStatPrefix() != "" {
		opts = append(opts, grpc.WithChainStreamInterceptor(newStreamStats(d.cfg.Stats, g.GetStatPrefix()).intercept))
	}
	return opts, nil
}

// channel are the credentials of a channel; without any it is plain, as in Envoy.
func (d *Discovery) channel(c *corev3.GrpcService_GoogleGrpc_ChannelCredentials) (credentials.TransportCredentials, error) {
	switch k := c.GetCredentialSpecifier().(type) {
	case nil:
		return insecure.NewCredentials(), nil
	case *corev3.GrpcService_GoogleGrpc_ChannelCredentials_LocalCredentials:
		return local.NewCredentials(), nil // refuses what is not on this machine
	case *corev3.GrpcService_GoogleGrpc_ChannelCredentials_SslCredentials:
		conf, err := d.ssl(k.SslCredentials)
		if err != nil {
			return nil, fmt.Errorf("ssl_credentials.%w", err)
		}
		return credentials.NewTLS(conf), nil
	case *corev3.GrpcService_GoogleGrpc_ChannelCredentials_GoogleDefault:
		return nil, errors.New("google_default: known but not built: it needs Google's libraries; write ssl_credentials")
	default:
		return nil, fmt.Errorf("credential_specifier: %T is unknown here", c)
	}
}

// ssl reads certificates once: another file takes effect with the next start.
func (d *Discovery) ssl(c *corev3.GrpcService_GoogleGrpc_SslCredentials) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	files := tlsio.Options{ReadFile: d.cfg.ReadFile, Getenv: d.cfg.Getenv}
	if src := c.GetRootCerts(); src != nil {
		pem, err := files.Data("root_certs", src)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the field
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("root_certs: there is no certificate in PEM")
		}
	}
	key, chain := c.GetPrivateKey(), c.GetCertChain()
	switch {
	case key == nil && chain == nil:
		return conf, nil
	case key == nil:
		return nil, errors.New("private_key: cert_chain needs its key")
	case chain == nil:
		return nil, errors.New("cert_chain: private_key needs its certificate")
	}
	keyPEM, err := files.Data("private_key", key)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the field
	}
	chainPEM, err := files.Data("cert_chain", chain)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the field
	}
	pair, err := tls.X509KeyPair(chainPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("cert_chain: %w", err)
	}
	conf.Certificates = []tls.Certificate{pair}
	return conf, nil
}

// perCall are credentials that go with each stream, over TLS alone.
func perCall(c *corev3.GrpcService_GoogleGrpc_CallCredentials, secure bool) (credentials.PerRPCCredentials, error) {
	token, ok := c.GetCredentialSpecifier().(*corev3.GrpcService_GoogleGrpc_CallCredentials_AccessToken)
	switch {
	case c.GetCredentialSpecifier() == nil:
		return nil, errors.New("credential_specifier: is not set")
	case !ok:
		return nil, fmt.Errorf("%s: known but not built: write access_token, or initial_metadata", specified(c))
	case token.AccessToken == "":
		return nil, errors.New("access_token: is empty")
	case !secure:
		return nil, errors.New("access_token: is only sent over TLS: write channel_credentials.ssl_credentials")
	}
	return bearer(token.AccessToken), nil
}

// specified is the field of the kind of credentials.
func specified(c *corev3.GrpcService_GoogleGrpc_CallCredentials) string {
	r := c.ProtoReflect()
	return string(r.WhichOneof(r.Descriptor().Oneofs().ByName("credential_specifier")).Name())
}

// bearer is an access token.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return true }
