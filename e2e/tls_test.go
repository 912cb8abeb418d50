//go:build interop

package e2e

import (
	"testing"
	"time"
)

// TestClientsAreServedOverTLS has Envoy and gRPC for Go connect with client
// certificates, by the bootstraps that xebec writes. Without a certificate the
// server tells nothing.
// Partly proves XS-92.
func TestClientsAreServedOverTLS(t *testing.T) {
	v := variant{wire: "delta", aggregated: true}
	serverCA, serverCert, serverKey := newCertificate(t, "server").files(t)
	clientCA, clientCert, clientKey := newCertificate(t, "client").files(t)
	s := setScene(t, v, "--tls-cert", serverCert, "--tls-key", serverKey, "--tls-client-ca", clientCA)
	s.call = []string{"--tls-ca", serverCA, "--tls-cert", clientCert, "--tls-key", clientKey}
	s.write(t, "envoy.yaml", s.world(0)...)
	s.begin(t)

	s.write(t, "grpc.yaml", apiListener(service, s.source))
	s.write(t, "envoy.yaml", routes("red"), cluster("red", s.source, connectTimeout),
		endpoints("red", startGRPCBackend(t, "a"), startGRPCBackend(t, "b")))
	startCaller(t, "gRPC for Go", goCaller(t, "xds:///"+service), s.bootstrap(t, "grpc")).balances(t, "a", "b")

	_, stderr, code := run(t, time.Minute, xebecBinary, "status", "--server", s.xds, "--tls-ca", serverCA)
	if code != 1 {
		t.Errorf("without a client certificate, xebec status ends with %d, want 1: %s", code, stderr)
	}
	_, stranger, strangerKey := newCertificate(t, "stranger").files(t)
	_, stderr, code = run(t, time.Minute, xebecBinary, "status", "--server", s.xds, "--tls-ca", serverCA,
		"--tls-cert", stranger, "--tls-key", strangerKey)
	if code != 1 {
		t.Errorf("with a certificate of nobody, xebec status ends with %d, want 1: %s", code, stderr)
	}
}
