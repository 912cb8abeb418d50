package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/internal/app"
)

// dialFlags say which server to call, and how.
type dialFlags struct {
	server                    string
	tls                       bool
	ca, cert, key, serverName string
	insecure                  bool
}

func (f *dialFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.server, "server", app.DefaultXDSAddress, "`host:port` of the management server")
	fl.BoolVar(&f.tls, "tls", false, "use TLS with the system's authorities")
	fl.StringVar(&f.ca, "tls-ca", "", "PEM `file` with the authority of the server's certificate; turns TLS on")
	fl.StringVar(&f.cert, "tls-cert", "", "PEM `file` with a client certificate; turns TLS on")
	fl.StringVar(&f.key, "tls-key", "", "PEM `file` with its private key")
	fl.StringVar(&f.serverName, "tls-server-name", "", "`name` in the server's certificate (default: the host of --server)")
	fl.BoolVar(&f.insecure, "insecure", false, "allow plaintext to a server that is not on loopback")
}

// dial makes a connection, which is opened at the first call.
func (f *dialFlags) dial() (*grpc.ClientConn, error) {
	cfg, err := f.security()
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if cfg != nil {
		creds = credentials.NewTLS(cfg)
	}
	conn, err := grpc.NewClient("passthrough:///"+f.server, grpc.WithTransportCredentials(creds), grpc.WithUserAgent(userAgent()))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", f.server, err)
	}
	return conn, nil
}

// security is how TLS is spoken; nil for plaintext.
func (f *dialFlags) security() (*tls.Config, error) {
	host, _, err := net.SplitHostPort(f.server)
	switch {
	case err != nil:
		return nil, usageErrorf("--server %q is not of the form host:port", f.server)
	case (f.cert == "") != (f.key == ""):
		return nil, usageErrorf("--tls-cert and --tls-key belong together: give both")
	case f.tls || f.ca != "" || f.cert != "" || f.serverName != "":
		return f.tlsConfig()
	case !f.insecure && host != "localhost" && !net.ParseIP(host).IsLoopback():
		return nil, usageErrorf("%s is not on this machine: give --tls or --tls-ca, or --insecure if the network itself is safe", f.server)
	}
	return nil, nil //nolint:nilnil // plaintext
}

func (f *dialFlags) tlsConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.serverName}
	if f.ca != "" {
		data, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, usageErrorf("--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(data) {
			return nil, usageErrorf("--tls-ca: %s holds no certificate in PEM form", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, usageErrorf("--tls-cert %s and --tls-key %s: %w", f.cert, f.key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
