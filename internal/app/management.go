package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	hdsv2 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/admin"
	_ "github.com/xebec-proxy/xebec/internal/alltypes" // resources may hold any of Envoy's messages
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/xdsserver"
	"github.com/xebec-proxy/xebec/xdsserver/healthdiscovery"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
	"github.com/xebec-proxy/xebec/xdsserver/oneport"
)

// Management is a management server with its source and admin pages.
type Management struct {
	settings Settings
	server   *xdsserver.Server
	source   *file.Source
	sink     *sink
	exporter *exporter     // nil if nothing is exported
	certs    *certificates // nil without TLS
	events   *admin.Events
	loads    *loadreport.Server
	checks   *healthdiscovery.Server
	grpc     *grpc.Server
	rest     *http.Server
	creds    oneport.Credentials
	port     *oneport.Port // of the xDS listener
	health   *health.Server
	admin    *http.Server
	draining atomic.Bool

	xdsListener, adminListener net.Listener
}

// New builds a server and listens, so that addresses are known and taken; it
// serves nothing yet. Follow it with Run.
func New(ctx context.Context, s Settings) (*Management, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	m := &Management{settings: s, events: admin.NewEvents()}
	if err := m.build(); err != nil { //nolint:contextcheck // calls have contexts of their own
		return nil, err
	}
	if err := m.listen(ctx); err != nil {
		m.closeListeners()
		return nil, err
	}
	return m, nil
}

func (m *Management) build() error {
	s := &m.settings
	var err error
	m.source, err = file.New(s.Dir, file.WithLogger(s.Log), file.WithLenient(s.Lenient), file.WithStrict(s.Strict))
	if err != nil {
		return err
	}
	if s.TLSCert != "" {
		if m.certs, err = newCertificates(s.TLSCert, s.TLSKey, s.TLSClientCA, s.Log, m.events); err != nil {
			return err
		}
	}
	opts := []xdsserver.Option{
		xdsserver.WithLogger(s.Log), xdsserver.WithLimits(s.Limits), xdsserver.WithKeepalive(s.Keepalive),
		xdsserver.WithRequireNode(s.NodeRequired), xdsserver.WithRESTHold(s.RESTHold), xdsserver.WithRESTEmptyMeansAll(s.RESTEmptyMeansAll),
		xdsserver.WithOrderAcrossStreams(s.OrderAcrossStreams),
	}
	if s.Identifier != "" {
		opts = append(opts, xdsserver.WithIdentifier(s.Identifier))
	}
	if s.TLSClientCA != "" {
		opts = append(opts, xdsserver.WithAuth(requireCertificate))
	}
	if m.server, err = xdsserver.New(opts...); err != nil {
		return err
	}
	m.loads, err = loadreport.New(loadreport.WithAllow(m.server.Authorize), loadreport.WithLogger(s.Log),
		loadreport.WithConfig(loadreport.Config{AllClusters: true, Interval: s.LoadInterval}))
	if err != nil {
		return err
	}
	// There is nothing in the directory to say what to probe: clients are told so.
	m.checks, err = healthdiscovery.New(healthdiscovery.WithAllow(m.server.Authorize), healthdiscovery.WithLogger(s.Log))
	if err != nil {
		return err
	}
	m.health = health.NewServer()
	m.health.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	if s.ExportDir != "" {
		if m.exporter, err = newExporter(s.ExportDir, m.server, s.Log, m.events); err != nil {
			return err
		}
	}
	m.sink = &sink{server: m.server, events: m.events, log: s.Log, loaded: m.nowReady, exporter: m.exporter}
	m.buildGRPC()
	m.buildREST()
	m.buildAdmin()
	return nil
}

func (m *Management) buildGRPC() {
	m.creds = oneport.NewCredentials()
	m.grpc = grpc.NewServer(append(m.server.GRPCOptions(), grpc.Creds(m.creds))...)
	m.server.Register(m.grpc)
	m.loads.Register(m.grpc)
	m.checks.Register(m.grpc)
	healthv1.RegisterHealthServer(m.grpc, m.health)
	if m.settings.Channelz {
		channelz.RegisterChannelzServiceToServer(m.grpc)
	}
	reflection.Register(m.grpc)
	for name := range m.grpc.GetServiceInfo() {
		m.health.SetServingStatus(name, healthv1.HealthCheckResponse_NOT_SERVING)
	}
}

// buildREST serves clients that poll, on the port of gRPC.
func (m *Management) buildREST() {
	m.rest = &http.Server{
		Handler: m.server.RESTHandler(xdsserver.RESTCall{
			Path: "/v3/discovery:health_check", Method: healthv3.HealthDiscoveryService_FetchHealthCheck_FullMethodName,
			New: func() proto.Message { return &healthv3.HealthCheckRequestOrEndpointHealthResponse{} },
			Call: func(ctx context.Context, req proto.Message) (proto.Message, error) {
				return m.checks.FetchHealthCheck(ctx, req.(*healthv3.HealthCheckRequestOrEndpointHealthResponse))
			},
		}, xdsserver.RESTCall{
			Path: "/v2/discovery:health_check", Method: hdsv2.HealthDiscoveryService_FetchHealthCheck_FullMethodName,
			New: func() proto.Message { return &hdsv2.HealthCheckRequestOrEndpointHealthResponse{} },
			Call: func(ctx context.Context, req proto.Message) (proto.Message, error) {
				return m.checks.FetchHealthCheckV2(ctx, req.(*hdsv2.HealthCheckRequestOrEndpointHealthResponse))
			},
		}),
		ConnContext:       oneport.ConnContext,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute, // clients may poll rarely
		MaxHeaderBytes:    64 << 10,
		Protocols:         &http.Protocols{},
		ErrorLog:          slog.NewLogLogger(m.settings.Log.Handler(), slog.LevelDebug),
	}
	m.rest.Protocols.SetHTTP1(true)
	m.rest.Protocols.SetUnencryptedHTTP2(true) // the port does TLS
}

// buildPort tells the connections of the xDS listener apart.
func (m *Management) buildPort() {
	cfg := oneport.Config{Credentials: m.creds, Failed: m.connectionFailed}
	if m.certs != nil {
		cfg.TLS = m.certs.config()
	}
	m.port = oneport.New(m.xdsListener, cfg)
}

// connectionFailed says which clients fail the handshake, and why: otherwise
// only the clients know.
func (m *Management) connectionFailed(remote net.Addr, err error) {
	if errors.Is(err, oneport.ErrHandshake) {
		m.settings.Log.Info("a client failed the TLS handshake", "peer", remote.String(), "error", err)
		return
	}
	m.settings.Log.Debug("a connection ended before it began", "peer", remote.String(), "error", err)
}

// nowReady is called after the first complete load.
func (m *Management) nowReady() {
	if m.draining.Load() {
		return
	}
	for name := range m.grpc.GetServiceInfo() {
		m.health.SetServingStatus(name, healthv1.HealthCheckResponse_SERVING)
	}
	m.health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING) // of all of them
	m.events.Add("ready", "the directory has been loaded; clients get an answer from now on")
}

// requireCertificate is the auth gate of --tls-client-ca. The handshake already
// refuses clients without a certificate; this keeps the promise even if the
// transport is ever changed.
func requireCertificate(ctx context.Context, _ xdsserver.Call) error {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			return nil
		}
	}
	return errNoCertificate
}

func (m *Management) buildAdmin() {
	if m.settings.AdminAddress == "" {
		return
	}
	m.admin = &http.Server{
		Handler: admin.New(admin.Sources{
			Server: m.server, Source: m.source, Dir: m.settings.Dir, Events: m.events, Reloads: m.sink, Loads: m.loads,
			Ready: func() bool { return m.server.Loaded() && !m.draining.Load() }, Version: m.settings.Version,
		}),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
}

func (m *Management) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if m.xdsListener, err = lc.Listen(ctx, "tcp", m.settings.XDSAddress); err != nil {
		return fmt.Errorf("the xDS address cannot be used: %w; choose another with --xds-address", err)
	}
	if m.admin != nil {
		if m.adminListener, err = lc.Listen(ctx, "tcp", m.settings.AdminAddress); err != nil {
			return fmt.Errorf("the admin address cannot be used: %w; choose another with --admin-address, or none with \"\"", err)
		}
	}
	m.buildPort()
	return m.writeAddresses()
}

func (m *Management) closeListeners() {
	for _, l := range []net.Listener{m.xdsListener, m.adminListener} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// XDSAddress is where the server listens for xDS clients.
func (m *Management) XDSAddress() string { return m.xdsListener.Addr().String() }

// AdminAddress is where the admin pages are, empty if there are none.
func (m *Management) AdminAddress() string {
	if m.adminListener == nil {
		return ""
	}
	return m.adminListener.Addr().String()
}

// writeAddresses writes the address file, whole or not at all.
func (m *Management) writeAddresses() error {
	name := m.settings.AddressFile
	if name == "" {
		return nil
	}
	text := fmt.Sprintf("XDS_ADDRESS=%s\nADMIN_ADDRESS=%s\n", m.XDSAddress(), m.AdminAddress())
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
	err := os.WriteFile(temp, []byte(text), 0o644)
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return fmt.Errorf("the addresses cannot be written to --address-file: %w", err)
	}
	return nil
}

// Run serves until the context ends, then drains and returns nil; or until
// something breaks, and returns that. It may be called once.
func (m *Management) Run(ctx context.Context) error {
	m.settings.Log.Info("serving xDS", "address", m.XDSAddress(), "security", describeTLS(&m.settings),
		"dir", m.settings.Dir, "version", m.settings.Version)
	if m.admin != nil {
		m.settings.Log.Info("serving the admin pages", "url", "http://"+m.AdminAddress()+"/")
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.source.Run(ctx, m.sink) })
	if m.exporter != nil {
		g.Go(func() error { return m.exporter.run(ctx) })
	}
	g.Go(func() error {
		if err := m.grpc.Serve(m.port.GRPC()); err != nil && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("serving xDS: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		if err := m.rest.Serve(m.port.HTTP()); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("serving xDS over REST: %w", err)
		}
		return nil
	})
	g.Go(m.port.Serve)
	if m.certs != nil {
		g.Go(func() error { return m.certs.run(ctx) })
	}
	if m.admin != nil {
		g.Go(func() error {
			if err := m.admin.Serve(m.adminListener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serving the admin pages: %w", err)
			}
			return nil
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		m.shutdown(context.WithoutCancel(ctx))
		return nil
	})
	return g.Wait()
}

// shutdown stops accepting, lets clients leave until the deadline, and closes
// what is left. The admin pages stay until the end, to be asked about it.
func (m *Management) shutdown(ctx context.Context) {
	m.draining.Store(true)
	m.health.Shutdown()
	m.events.Add("draining", "the server is stopping")
	m.settings.Log.Info("stopping: no new clients, the present ones get time to leave", "drain_time", m.settings.DrainTime.String())
	ctx, cancel := context.WithTimeout(ctx, m.settings.DrainTime)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.grpc.GracefulStop()
	}()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		if m.rest.Shutdown(ctx) != nil {
			_ = m.rest.Close()
		}
	}()
	m.loads.Close()
	m.checks.Close()
	if err := m.server.Shutdown(ctx); err != nil {
		m.settings.Log.Warn("not every client has left in time", "error", err)
	}
	select {
	case <-stopped:
	case <-ctx.Done():
		m.grpc.Stop()
		<-stopped
	}
	<-polled
	if m.admin != nil {
		_ = m.admin.Close()
	}
	m.settings.Log.Info("stopped")
}
