package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/xebec-proxy/xebec/xds"
)

func dial(t *testing.T, address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func get(t *testing.T, m *Management, path string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.AdminAddress()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// TestMetrics has a client accept one response and reject another, and finds
// that in what a scrape returns. What else the counters count is in TestStats of
// xdsserver.
// Proves XS-94.
func TestMetrics(t *testing.T) {
	s := settings(t)
	m := run(t, s)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, m.XDSAddress(), insecure.NewCredentials())).
		DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send := func(r *discoveryv3.DeltaDiscoveryRequest) {
		r.TypeUrl = xds.ClusterType
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
	}
	send(&discoveryv3.DeltaDiscoveryRequest{})
	first, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: first.GetNonce()})
	if err := os.WriteFile(filepath.Join(s.Dir, "resources.yaml"), []byte(oneCluster+"alt_stat_name: other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: first.GetNonce()})
	send(&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: second.GetNonce(), ErrorDetail: status.New(codes.Internal, "no").Proto()})
	var page string
	await(t, "the rejection to be counted", func() bool {
		_, page = get(t, m, "/metrics")
		return strings.Contains(page, `xebec_nacks_total{type="Cluster",variant="delta"} 1`)
	})
	for _, line := range []string{
		`xebec_ready 1`,
		`xebec_streams{aggregated="true",variant="delta"} 1`,
		`xebec_subscriptions{type="Cluster",variant="delta"} 1`,
		`xebec_requests_total{type="Cluster",variant="delta"} 4`,
		`xebec_responses_total{type="Cluster",variant="delta"} 2`,
		`xebec_acks_total{type="Cluster",variant="delta"} 1`,
		`xebec_answer_seconds_count{type="Cluster",variant="delta"} 2`,
		`xebec_push_seconds_count{type="Cluster",variant="delta"} 1`,
		`xebec_gate_timeouts_total{type="Cluster",variant="delta"} 0`,
		`xebec_encoding_cache_misses_total{type="Cluster",variant="delta"} 0`,
		`xebec_encoding_cache_hits_total{type="Cluster",variant="delta"} 0`,
		`xebec_stale_nonces_total{type="Cluster",variant="delta"} 1`,
		`xebec_snapshot_resources{group="default",type="Cluster"} 1`,
		`xebec_source_reloads_total{result="applied"} 2`,
		`xebec_source_findings{severity="error"} 0`,
		`xebec_build_info`, `go_goroutines`,
	} {
		if !strings.Contains(page, "\n"+line) {
			t.Errorf("the metrics lack %q", line)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// TestReadiness asks before the load, after it and while the server stops.
func TestReadiness(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := settings(t)
	s.DrainTime = 3 * time.Second
	s.AddressFile = filepath.Join(t.TempDir(), "addresses")
	m, err := New(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, m.XDSAddress(), insecure.NewCredentials())
	health := healthv1.NewHealthClient(conn)
	if got, err := m.health.Check(ctx, &healthv1.HealthCheckRequest{}); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("before Run: %v %v", got, err)
	}
	if data, err := os.ReadFile(s.AddressFile); err != nil || !strings.Contains(string(data), "XDS_ADDRESS="+m.XDSAddress()+"\n") {
		t.Errorf("address file %q %v", data, err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	await(t, "readiness", func() bool { code, _ := get(t, m, "/readyz"); return code == http.StatusOK })
	await(t, "health", func() bool {
		got, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{})
		return err == nil && got.GetStatus() == healthv1.HealthCheckResponse_SERVING
	})
	for _, name := range []string{"", "envoy.service.discovery.v3.AggregatedDiscoveryService"} {
		if got, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name}); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v %v", name, got, err)
		}
	}

	// A call that goes on keeps the server from ending before its deadline.
	watch, err := health.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got, err := watch.Recv(); err != nil || got.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while stopping: %v %v", got, err)
	}
	if code, body := get(t, m, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "stopping") {
		t.Errorf("readyz while stopping: %d %s", code, body)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestDrainEndsAtItsDeadline has a client that never leaves.
func TestDrainEndsAtItsDeadline(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m, err := New(ctx, settings(t))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	watch, err := healthv1.NewHealthClient(dial(t, m.XDSAddress(), insecure.NewCredentials())).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the server waits for a client that never leaves")
	}
}

// TestGateCoversEveryMethod calls every method of every service of a server
// that needs client certificates, without one: health, reflection, status and
// load reports too. First the handshake refuses; then, with a handshake that
// lets everybody in, the gate does.
// Partly proves XD-11, XS-92.
func TestGateCoversEveryMethod(t *testing.T) {
	dir := pki(t)
	s := settings(t)
	s.TLSCert, s.TLSKey, s.TLSClientCA = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"), filepath.Join(dir, "ca.pem")
	s.Channelz = true
	m := run(t, s)
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(s.TLSClientCA)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	without := &tls.Config{RootCAs: roots}
	callAll(t, m, without, codes.Unavailable)

	open := m.certs.current.Load().Clone()
	open.ClientAuth = tls.NoClientCert
	m.certs.current.Store(open)
	callAll(t, m, without, codes.PermissionDenied)

	with := without.Clone()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.pem"), filepath.Join(dir, "client-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	with.Certificates = []tls.Certificate{pair}
	open = open.Clone()
	open.ClientAuth = tls.RequireAndVerifyClientCert
	m.certs.current.Store(open)
	conn := dial(t, m.XDSAddress(), credentials.NewTLS(with))
	if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
}

func callAll(t *testing.T, m *Management, cfg *tls.Config, want codes.Code) {
	t.Helper()
	conn := dial(t, m.XDSAddress(), credentials.NewTLS(cfg))
	n := 0
	for service, info := range m.grpc.GetServiceInfo() {
		for _, method := range info.Methods {
			n++
			if err := call(t, conn, "/"+service+"/"+method.Name, method); status.Code(err) != want {
				t.Errorf("%s/%s: %v, want %v", service, method.Name, err, want)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d methods were called", n)
	}
}

func call(t *testing.T, conn *grpc.ClientConn, path string, m grpc.MethodInfo) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if !m.IsClientStream && !m.IsServerStream {
		return conn.Invoke(ctx, path, &emptypb.Empty{}, &emptypb.Empty{})
	}
	st, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path)
	if err != nil {
		return err
	}
	if err := st.SendMsg(&emptypb.Empty{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return st.RecvMsg(&emptypb.Empty{})
}
