package loadreport

import (
	"log/slog"
	"sync"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

// Server is a load reporting server (XL-01 to XL-06). Build it with [New] and
// add it to a gRPC server with [Server.Register]. It starts nothing by itself:
// each stream has one goroutine beside gRPC's own, which ends with the stream.
// All methods are safe for concurrent use.
type Server struct {
	lrsv3.UnimplementedLoadReportingServiceServer

	limits    Limits
	retention time.Duration
	log       *slog.Logger
	gate      *reporting.Gate
	nodes     *reporting.Roster[node]
	subs      reporting.Subscribers[Report]

	mu        sync.Mutex // guards what follows
	published published
}

// published is a configuration and the news that it has been replaced.
type published struct {
	config   Config
	replaced chan struct{}
}

// New builds a server. It returns an error for a negative interval, retention
// or limit, and for an empty cluster name.
func New(opts ...Option) (*Server, error) {
	o := options{config: Config{AllClusters: true}, logger: slog.New(slog.DiscardHandler)}
	for _, set := range opts {
		set(&o)
	}
	config, err := o.config.checked()
	if err != nil {
		return nil, err
	}
	limits, err := o.limits.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := reporting.OrDefault("retention", &o.retention, DefaultRetention); err != nil {
		return nil, err
	}
	terms := reporting.Terms{
		Server: "load reporting server", Stream: "load report", Kept: "loads", Purpose: "report load",
	}
	capacity := reporting.Capacity{Streams: limits.Streams, Nodes: limits.Nodes, Retention: o.retention}
	return &Server{
		limits: limits, retention: o.retention, log: o.logger,
		gate:      reporting.NewGate(terms, o.allow, o.logger),
		nodes:     reporting.NewRoster(terms, capacity, newNode),
		published: published{config, make(chan struct{})},
	}, nil
}

// Register adds the service to a gRPC server, that of v3 and that of v2.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	lrsv3.RegisterLoadReportingServiceServer(r, s)
	r.RegisterService(inV2(), s)
}

// Config is what clients are asked for now.
func (s *Server) Config() Config {
	c := s.current().config
	c.Clusters = append([]string(nil), c.Clusters...)
	return c
}

// SetConfig changes what clients are asked for, and sends it on every open
// stream (XL-01). It does not wait for the streams; a slow one gets the newest
// configuration only. An invalid configuration changes nothing.
func (s *Server) SetConfig(c Config) error {
	c, err := c.checked()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.published.replaced)
	s.published = published{c, make(chan struct{})}
	return nil
}

func (s *Server) current() published {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published
}

// Close ends all streams with UNAVAILABLE and refuses new ones, so that
// grpc.Server.GracefulStop need not wait for clients. It does not wait for the
// streams. Loads can still be read.
func (s *Server) Close() { s.gate.Close() }

// join opens a session, or refuses it if the server is full.
func (s *Server) join(info *xds.Node) (*session, error) {
	se := &session{info: info}
	m, err := s.nodes.Join(reporting.KeyOf(info), func(n *node) { n.join(se) })
	if err != nil {
		return nil, err
	}
	se.member = m
	return se, nil
}

func (s *Server) leave(se *session) {
	se.member.State.leave(se)
	s.nodes.Leave(se.member)
}
