// Package proxy is the data plane: it runs an Envoy bootstrap's listeners,
// routes and clusters in a program of one's own, with extensions registered by
// type URL.
//
// New checks a bootstrap and builds everything it describes; Run opens the
// listeners and serves until its context ends.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
	"github.com/xebec-proxy/xebec/internal/filters/standard"
)

// Options configure a proxy beyond its bootstrap. The zero value is usable.
type Options struct {
	// Logger gets everything there is to say; nil discards it.
	Logger *slog.Logger
	// Workers is the number of event loops; 0 is one per processor.
	Workers int
	// NoIOURing makes workers send for each connection by itself also where
	// io_uring could send for all of a turn by one system call.
	NoIOURing bool
	// Register adds extensions to those that are built in.
	Register func(r *filter.Registry) error
	// Getenv answers for environment variables that the bootstrap names; nil
	// means there are none.
	Getenv func(string) (string, bool)
	// ReadFile reads files that the bootstrap names; os.ReadFile if nil.
	ReadFile func(string) ([]byte, error)
	// Resolver resolves names; the system's if nil.
	Resolver cluster.Resolver
	// LogFlushInterval and LogFlushSize say when access-log lines reach their
	// files: 10 s and 64 KiB.
	LogFlushInterval time.Duration
	LogFlushSize     int
	// Stdout and Stderr are what access logs to /dev/stdout and /dev/stderr, and
	// the stream loggers, write to; the process's if nil.
	Stdout, Stderr io.Writer
	// DrainTime bounds the orderly end of connections in Run; 0 closes them at
	// once.
	DrainTime time.Duration
	// Version is reported by /server_info and as user agent.
	Version string
	// Levels are the log levels of Logger's components, which /logging shows and
	// changes; nil refuses /logging.
	Levels LogLevels
	// ReopenLog opens the file behind Logger anew, for /reopen_logs; nil if there
	// is none.
	ReopenLog func() error
	// AdminAddressPath is a file that gets the address of the admin endpoints
	// when they are bound (--admin-address-path); none if empty.
	AdminAddressPath string
	// CommandLine are the flags that /server_info shows; nil for none.
	CommandLine *adminv3.CommandLineOptions
	// Extensions are what the node says is built, for /server_info.
	Extensions []*corev3.Extension
	// Checked says that the bootstrap was checked for what is not built, and that
	// what is optional was taken out of it.
	Checked bool
	// ListenerDrainTime bounds the orderly end of connections of listeners that
	// were replaced or removed; 10 min if 0.
	ListenerDrainTime time.Duration
	// DrainImmediately ends each of these connections of HTTP with its next
	// response; otherwise a response does so with a probability that grows over
	// ListenerDrainTime (LM-07).
	DrainImmediately bool
	// Discovery brings the resources that the bootstrap says are to be had from
	// elsewhere; nil refuses such a bootstrap.
	Discovery Discovery
	// RejectUnknownFields refuses discovered resources with fields that are not
	// known; otherwise they count, and are warned of unless IgnoreUnknownFields is
	// set (BS-17).
	RejectUnknownFields, IgnoreUnknownFields bool
	// UnknownFields and DeprecatedUses were counted while the bootstrap was loaded.
	UnknownFields, DeprecatedUses int
}

// Proxy is a built proxy. It serves once. Its methods are safe for concurrent
// use.
type Proxy struct {
	o    Options
	cfg  *bootstrapv3.Bootstrap
	log  *slog.Logger
	reg  filter.Registry
	env  filter.Env
	rt   atomic.Pointer[layeredruntime.Snapshot]
	tls  tlsio.Options
	stat *stats.Registry

	server  serverStats
	res     *Resources
	secrets []*tlsv3.Secret
	files   *accesslog.Files
	flusher *stats.Flusher
	// flushOnAdmin is stats_flush_on_admin.
	flushOnAdmin bool
	admin        *adminServer
	overload     *overload.Manager // nil without
	downstream   *overload.Connections
	workers      []*running
	ids          worker.IDs

	started time.Time
	epoch   time.Time
	state   stateBox
	failed  atomic.Bool // /healthcheck/fail
	quit    chan struct{}
	quitOne sync.Once
	ready   chan struct{}
	mu      sync.Mutex
}

// New builds a proxy from a bootstrap, which must not be changed afterwards.
// Nothing is bound or contacted. The error names every fault that was found,
// each with the path of its field.
func New(b *bootstrapv3.Bootstrap, o Options) (*Proxy, error) {
	p := &Proxy{o: o, cfg: b, log: o.Logger, quit: make(chan struct{}), ready: make(chan struct{}), epoch: time.Now(), downstream: overload.NewConnections()}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.o.Workers <= 0 {
		p.o.Workers = runtime.GOMAXPROCS(0)
	}
	if p.o.ListenerDrainTime == 0 {
		p.o.ListenerDrainTime = 10 * time.Minute
	}
	if p.o.ReadFile == nil {
		p.o.ReadFile = os.ReadFile
	}
	if p.o.Getenv == nil {
		p.o.Getenv = func(string) (string, bool) { return "", false }
	}
	if p.o.Resolver == nil {
		p.o.Resolver = &cluster.SystemResolver{}
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	var errs []error
	for i, s := range p.cfg.GetStaticResources().GetSecrets() {
		p.secrets = append(p.secrets, s)
		if s.GetName() == "" {
			errs = append(errs, fmt.Errorf("static_resources.secrets[%d].name: a name is needed", i))
			continue
		}
		p.tls.Secrets[s.GetName()] = s
	}
	errs = append(errs, p.manage(), p.buildRuntime(), p.buildOverload(), p.buildClusters(), p.buildListeners(), p.buildAdmin(), p.buildFlusher())
	p.setRuntime(p.rt.Load())
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, p.discard(), p.files.Close(context.Background())) //nolint:forbidigo // nothing runs yet that it could wait for
	}
	return p, nil
}

// prepare makes what everything else is built with.
func (p *Proxy) prepare() error {
	if err := standard.Register(&p.reg); err != nil {
		return fmt.Errorf("built-in extensions: %w", err)
	}
	builtIn := p.reg.Names()
	if p.o.Register != nil {
		if err := p.o.Register(&p.reg); err != nil {
			return fmt.Errorf("registering extensions: %w", err)
		}
	}
	var err error
	if p.stat, err = stats.New(p.cfg.GetStatsConfig()); err != nil {
		return fmt.Errorf("stats_config: %w", err)
	}
	rt, err := layeredruntime.New(p.cfg.GetLayeredRuntime())
	if err != nil {
		return fmt.Errorf("layered_runtime: %w", err)
	}
	p.rt.Store(rt)
	own := added(builtIn, p.reg.Names())
	if !p.o.Checked {
		if err := p.check(own); err != nil {
			return err
		}
	}
	if p.res, err = newResources(p, own); err != nil {
		return err
	}
	p.tls = tlsio.Options{ReadFile: p.o.ReadFile, Getenv: p.o.Getenv, Logger: p.component("connection"), Secrets: map[string]*tlsv3.Secret{}}
	p.files = accesslog.NewFiles(accesslog.Options{
		FlushInterval: p.o.LogFlushInterval, FlushSize: p.o.LogFlushSize, Stdout: p.o.Stdout, Stderr: p.o.Stderr,
		Counts: newLogCounts(p.stat), Logger: p.component("file"),
	})
	p.env = filter.Env{
		CheckClusterSource: func(path string, c *corev3.ConfigSource) error { return p.checkSource(path, c, ClusterType) },
		Logger:             p.component("filter"), ReadFile: p.o.ReadFile, Getenv: p.o.Getenv, Stats: hcmScope(p.stat.Scope("")),
		RuntimeFraction: p.fraction, RuntimeInteger: p.integer,
	}
	p.server.init(p)
	return nil
}

// fraction reads a runtime key as a fraction.
func (p *Proxy) fraction(key string) (numerator, denominator uint32, ok bool) {
	rt := p.rt.Load()
	if rt.Get(key) == nil {
		return 0, 0, false
	}
	n, d := rt.Percentage(key, nil)
	return uint32(n), uint32(d), true //nolint:gosec // at most a million
}

func unpack(a *anypb.Any) (proto.Message, error) {
	if a == nil {
		return nil, errors.New("a typed_config is needed")
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.GetTypeUrl(), err)
	}
	return m, nil
}

// Ready is closed when the proxy accepts connections.
func (p *Proxy) Ready() <-chan struct{} { return p.ready }

// Quit makes Run stop in order, as /quitquitquit does.
func (p *Proxy) Quit() { p.quitOne.Do(func() { close(p.quit) }) }

// Reopen opens the access-log files anew.
func (p *Proxy) Reopen() { p.files.Reopen() }

// AdminAddress is the address of the admin endpoints, once Ready is closed;
// empty if there are none.
func (p *Proxy) AdminAddress() string {
	if p.admin.ln == nil {
		return ""
	}
	return p.admin.ln.Addr().String()
}

// Listeners are the addresses the proxy listens on, by listener name; with the
// real port where 0 was configured, once Ready is closed.
func (p *Proxy) Listeners() map[string][]string {
	out := map[string][]string{}
	for _, l := range p.res.activeListeners() {
		for _, s := range l.Sockets {
			out[l.Name] = append(out[l.Name], s.Address.String())
		}
	}
	return out
}
