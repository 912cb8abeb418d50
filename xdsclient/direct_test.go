package xdsclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// serveOn runs a server on any listener, with what each stream's context says of
// its request.
func serveOn(t *testing.T, lis net.Listener, opts ...grpc.ServerOption) <-chan metadata.MD {
	t.Helper()
	srv, err := xdsserver.New()
	if err != nil {
		t.Fatal(err)
	}
	m := &management{t: t, srv: srv}
	m.set(cluster(t, "a", "1"))
	seen := make(chan metadata.MD, 10)
	gs := grpc.NewServer(append(append(srv.GRPCOptions(), opts...), grpc.ChainStreamInterceptor(
		func(s any, st grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			md, _ := metadata.FromIncomingContext(st.Context())
			seen <- md
			return handle(s, st)
		}))...)
	srv.Register(gs)
	done := make(chan error, 1)
	go func() { done <- gs.Serve(lis) }()
	t.Cleanup(func() {
		gs.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return seen
}

func listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// fetchOver reads a cluster over a transport.
func fetchOver(t *testing.T, tr xdsclient.Transport) error {
	t.Helper()
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("main", tr)}, Backoff: quick()})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	found, err := xdsclient.Fetch(ctx, s, xdsclient.Clusters(), "a")
	if err == nil && found["a"].GetAltStatName() != "1" {
		t.Errorf("fetched %v", found)
	}
	return err
}

func TestDirectOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds")
	seen := serveOn(t, listen(t, "unix", path))
	if err := fetchOver(t, direct(t, xdsclient.DirectConfig{Address: "unix://" + path})); err != nil {
		t.Fatal(err)
	}
	if md := <-seen; md.Get(":authority")[0] != "localhost" || md.Get("user-agent")[0] != "xebec-xdsclient" {
		t.Errorf("got %v", md)
	}
}

// token is a credential that looks at how safe its connection is, as those of
// grpc-go do.
type token struct{ level credentials.SecurityLevel }

func (c token) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	ri, ok := credentials.RequestInfoFromContext(ctx)
	if !ok || !strings.HasSuffix(ri.Method, "/StreamAggregatedResources") {
		return nil, errors.New("there is no RequestInfo")
	}
	if err := credentials.CheckSecurityLevel(ri.AuthInfo, c.level); err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer 1", "x-uri": uri[0]}, nil
}

func (c token) RequireTransportSecurity() bool { return c.level > credentials.NoSecurity }

// keyPair reads a server's certificate, and who has signed it.
func keyPair(t *testing.T, dir string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("there is no certificate")
	}
	return pair, pool
}

func TestDirectOverTLS(t *testing.T) {
	dir := t.TempDir()
	if err := testcert.WriteSet(dir, "server"); err != nil {
		t.Fatal(err)
	}
	pair, pool := keyPair(t, dir)
	lis := listen(t, "tcp", "127.0.0.1:0")
	a, seen := lis.Addr().String(), serveOn(t, lis, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	conf := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	err := fetchOver(t, direct(t, xdsclient.DirectConfig{
		Address: a, Authority: "localhost:443", TLS: conf, Credentials: token{credentials.PrivacyAndIntegrity},
		Metadata: metadata.Pairs("x-key", "value", "x-bytes-bin", "\x00\xff", "user-agent", "mine"),
	}))
	if err != nil {
		t.Fatal(err)
	}
	md := <-seen
	for key, want := range map[string]string{
		":authority": "localhost:443", "authorization": "Bearer 1", "x-key": "value", "x-bytes-bin": "\x00\xff", "user-agent": "mine",
		"x-uri": "https://localhost/envoy.service.discovery.v3.AggregatedDiscoveryService",
	} {
		if got := md.Get(key); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	// Over a connection of one's own, with TLS on top of it.
	err = fetchOver(t, direct(t, xdsclient.DirectConfig{Authority: "localhost", TLS: conf, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", a)
	}}))
	if err != nil {
		t.Error(err)
	}
	// A certificate of another name.
	if err := fetchOver(t, direct(t, xdsclient.DirectConfig{Address: a, Authority: "xds.example.com", TLS: conf})); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

// A server within TLS that knows no HTTP/2 is said to be one.
func TestDirectNeedsHTTP2WithinTLS(t *testing.T) {
	dir := t.TempDir()
	if err := testcert.WriteSet(dir, "server"); err != nil {
		t.Fatal(err)
	}
	pair, pool := keyPair(t, dir)
	lis := tls.NewListener(listen(t, "tcp", "127.0.0.1:0"), &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.Close()
		}
	}()
	defer func() { _ = lis.Close(); <-done }()
	tr := direct(t, xdsclient.DirectConfig{
		Address: lis.Addr().String(), Authority: "localhost", TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	})
	if err := fetchOver(t, tr); err == nil || !strings.Contains(err.Error(), "does not offer HTTP/2") {
		t.Errorf("got %v", err)
	}
}

func TestDirectConfigs(t *testing.T) {
	dial := func(context.Context) (net.Conn, error) { return nil, errors.New("no") }
	for want, c := range map[string]xdsclient.DirectConfig{
		"Address: name the server":                  {},
		"Authority: is needed":                      {Dial: dial},
		`Address: "dns:///a:1" is neither`:          {Address: "dns:///a:1"},
		`Address: "a" is neither`:                   {Address: "a"},
		`Address: "a:" is neither`:                  {Address: "a:"},
		`Address: "unix://a/b" is not of the form`:  {Address: "unix://a/b"},
		"TLS: xds.example.com:1 is not on this":     {Address: "xds.example.com:1"},
		"TLS: 192.0.2.1:1 is not on this machine":   {Address: "192.0.2.1:1"},
		"MaxMessageBytes: must not be negative":     {Address: "localhost:1", MaxMessageBytes: -1},
		"Credentials: they are only to be sent":     {Address: "localhost:1", Credentials: token{credentials.PrivacyAndIntegrity}},
		`Metadata: "grpc-timeout" is set by`:        {Address: "localhost:1", Metadata: metadata.Pairs("grpc-timeout", "1S")},
		`Metadata: "connection" is set by`:          {Address: "localhost:1", Metadata: metadata.Pairs("Connection", "close")},
		`Metadata: ":path" is no key`:               {Address: "localhost:1", Metadata: metadata.Pairs(":path", "/")},
		`Metadata: the value of "x" has characters`: {Address: "localhost:1", Metadata: metadata.Pairs("x", "\n")},
	} {
		if _, err := xdsclient.NewDirect(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, c := range []xdsclient.DirectConfig{
		{Address: "127.0.0.1:1"},
		{Address: "[::1]:1"},
		{Address: "192.0.2.1:1", Plaintext: true},
		{Address: "192.0.2.1:1", TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
		{Authority: "a", Dial: dial},
		{Address: "localhost:1", Credentials: token{credentials.NoSecurity}},
	} {
		if _, err := xdsclient.NewDirect(c); err != nil {
			t.Error(err)
		}
	}
}

// What credentials refuse, or add that cannot be sent, is an error of the stream.
func TestDirectCredentialsRefuse(t *testing.T) {
	m := serve(t)
	for want, c := range map[string]credentials.PerRPCCredentials{
		"asking the credentials": refusing{},
		"cannot be sent":         meddling{},
	} {
		tr := direct(t, xdsclient.DirectConfig{Address: m.addr, Credentials: c})
		if _, err := tr.Open(t.Context(), xdsclient.Opening{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
}

type refusing struct{ token }

func (refusing) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return nil, errors.New("no")
}

type meddling struct{ token }

func (meddling) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"te": "x"}, nil
}

// Streams of one source share a connection; one that is broken is replaced, and
// after Close there is none.
func TestDirectConnections(t *testing.T) {
	m := serve(t)
	var all []net.Conn
	tr := direct(t, xdsclient.DirectConfig{Authority: "a", Dial: func(ctx context.Context) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", m.addr)
		all = append(all, nc)
		return nc, err
	}})
	open := func(typeURL string) xdsclient.Stream {
		t.Helper()
		st, err := tr.Open(t.Context(), xdsclient.Opening{TypeURL: typeURL})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	a, b := open(xds.ClusterType), open(xds.EndpointType)
	if len(all) != 1 {
		t.Fatalf("there are %d connections", len(all))
	}
	_ = all[0].Close()
	for _, st := range []xdsclient.Stream{a, b} {
		if _, err := st.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	}
	c := open(xds.ClusterType)
	if len(all) != 2 {
		t.Errorf("there are %d connections", len(all))
	}
	if _, err := tr.Open(t.Context(), xdsclient.Opening{TypeURL: "type.googleapis.com/own.Type"}); err == nil {
		t.Error("there is no service for a type of one's own")
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	if _, err := tr.Open(t.Context(), xdsclient.Opening{}); err == nil {
		t.Error("a stream is opened after Close")
	}
}

// Who waits for a connection fails with it, unless only who made it gave up.
func TestDirectConnectionsInTheMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := make(chan error)
		count := 0
		tr := direct(t, xdsclient.DirectConfig{Authority: "a", Dial: func(ctx context.Context) (net.Conn, error) {
			count++
			select {
			case err := <-dials:
				return nil, err
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}})
		defer tr.Close()
		results := make(chan error, 3)
		open := func(ctx context.Context) {
			go func() {
				_, err := tr.Open(ctx, xdsclient.Opening{})
				results <- err
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		open(ctx)
		open(t.Context())
		open(t.Context())
		if count != 1 {
			t.Errorf("%d connections are made", count)
		}
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if synctest.Wait(); count != 2 {
			t.Errorf("%d connections are made", count)
		}
		dials <- errDown // for both
		for range 2 {
			if err := <-results; !errors.Is(err, errDown) {
				t.Errorf("got %v", err)
			}
		}
		// A server that says nothing is given 20 s.
		start := time.Now()
		open(t.Context())
		if err := <-results; err == nil || !strings.Contains(err.Error(), "within 20s") || time.Since(start) != 20*time.Second {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}
