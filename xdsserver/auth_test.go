package xdsserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// atLeast is how many methods a server with every service has: a smaller table
// proves nothing.
const atLeast = 35

// Proves XS-92, with the limits that TestLimitsOnStreams has, and partly proves
// XD-11: a gate that lets nobody through stands in front of every method of
// every service.
func TestGateCoversEveryMethod(t *testing.T) {
	deny := xdsserver.WithAuth(func(context.Context, xdsserver.Call) error { return errors.New("not you") })
	full(t, []xdsserver.Option{deny}, nil, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		all := methods(h.gs)
		if len(all) < atLeast {
			t.Fatalf("only %d methods", len(all))
		}
		for path, stream := range all {
			if err := probe(h.ctx, h.conn(), path, stream); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// The gate is asked a second time with the node, by every service that learns
// one; a gRPC status is passed on as it is.
func TestGateSeesTheNode(t *testing.T) {
	gate := func(_ context.Context, c xdsserver.Call) error {
		if c.Node != nil && c.Node.ID == "bad" {
			return status.Error(codes.Unauthenticated, "bad node at "+c.Method)
		}
		return nil
	}
	full(t, []xdsserver.Option{xdsserver.WithAuth(gate)}, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		for _, id := range []string{"good", "bad"} {
			ask := &discoveryv3.DiscoveryRequest{Node: node(id), TypeUrl: xds.ClusterType}
			want := map[string]codes.Code{"good": codes.OK, "bad": codes.Unauthenticated}[id]
			for _, path := range []string{adsSotw, cdsSotw, lrsv3.LoadReportingService_StreamLoadStats_FullMethodName} {
				st, err := h.conn().NewStream(h.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
				if err != nil {
					t.Fatal(err)
				}
				if path == adsSotw || path == cdsSotw {
					err = errors.Join(st.SendMsg(ask), st.RecvMsg(&discoveryv3.DiscoveryResponse{}))
				} else {
					err = errors.Join(st.SendMsg(&lrsv3.LoadStatsRequest{Node: node(id)}), st.RecvMsg(&lrsv3.LoadStatsResponse{}))
				}
				if got := status.Code(err); got != want {
					t.Errorf("%s as %s: %v (%v), want %v", path, id, got, err, want)
				}
			}
			err := h.conn().Invoke(h.ctx, cdsFetch, ask, &discoveryv3.DiscoveryResponse{})
			if got := status.Code(err); got != want {
				t.Errorf("a fetch as %s: %v, want %v", id, err, want)
			}
		}
		if n := h.srv.Held(); n.Nodes != 0 {
			t.Errorf("refused streams are remembered: %+v", n)
		}
	})
}

// pki is a certificate authority with a server's and a client's certificate.
type pki struct {
	roots          *x509.CertPool
	server, client tls.Certificate
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	caKey, caCert := issue(t, nil, nil, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	p := &pki{roots: x509.NewCertPool()}
	p.roots.AddCert(caCert)
	pair := func(usage x509.ExtKeyUsage) tls.Certificate {
		key, cert := issue(t, caKey, caCert, &x509.Certificate{DNSNames: []string{"server.test"}, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
		return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
	}
	p.server, p.client = pair(x509.ExtKeyUsageServerAuth), pair(x509.ExtKeyUsageClientAuth)
	return p
}

func issue(t *testing.T, parentKey *ecdsa.PrivateKey, parent, c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, parentKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}

func (p *pki) dial(h *harness, certs ...tls.Certificate) *grpc.ClientConn {
	h.t.Helper()
	return h.dial(grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: p.roots, ServerName: "server.test", Certificates: certs, MinVersion: tls.VersionTLS12,
	})))
}

// With client certificates required, no method of any service can be called
// without one, and the gate sees the certificate of the others.
func TestMutualTLSCoversEveryMethod(t *testing.T) {
	p := newPKI(t)
	seen := make(chan string, 100)
	gate := xdsserver.WithAuth(func(ctx context.Context, c xdsserver.Call) error {
		who, _ := peer.FromContext(ctx)
		info, ok := who.AuthInfo.(credentials.TLSInfo)
		if !ok || len(info.State.VerifiedChains) == 0 {
			return errors.New("no certificate")
		}
		if c.Node == nil {
			seen <- c.Method
		}
		return nil
	})
	creds := grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{p.server}, ClientCAs: p.roots, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
	}))
	full(t, []xdsserver.Option{gate}, []grpc.ServerOption{creds}, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		with, without := p.dial(h, p.client), p.dial(h)
		defer with.Close()
		defer without.Close()
		all := methods(h.gs)
		if len(all) < atLeast {
			t.Fatalf("only %d methods", len(all))
		}
		for path, stream := range all {
			if err := probe(h.ctx, without, path, stream); status.Code(err) != codes.Unavailable {
				t.Errorf("%s without a certificate: %v", path, err)
			}
		}
		if n := len(seen); n != 0 {
			t.Fatalf("%d calls without a certificate reached the gate", n)
		}
		for path, stream := range all {
			if err := probe(h.ctx, with, path, stream); status.Code(err) == codes.Unavailable || status.Code(err) == codes.PermissionDenied {
				t.Errorf("%s with a certificate: %v", path, err)
			}
			if got := <-seen; got != path {
				t.Errorf("the gate was asked about %s, not %s", got, path)
			}
		}
	})
}
