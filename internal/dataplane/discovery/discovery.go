// Package discovery brings the resources of management servers into the proxy,
// by the config sources of its bootstrap and of the resources themselves.
package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/routedecode"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/configsource"
)

// Target is what resources are brought into. An error rejects the resource.
// Versions are only shown. The methods must not wait for a Discovery.
type Target interface {
	SetCluster(c *clusterv3.Cluster, version string) error
	RemoveCluster(name string)
	SetListener(l *listenerv3.Listener, version string) error
	RemoveListener(name string)
	// Leaving says which listeners are about to be removed, so that others that come by
	// the same response may have their addresses; nil that none are any more.
	Leaving(listeners []string)
	// SetEncodedEndpoints is given an assignment with its encoding, which is lent, or nil
	// if there is none.
	SetEncodedEndpoints(source *corev3.ConfigSource, la *endpointv3.ClusterLoadAssignment, encoded []byte, version string) error
	// CheckLocalityEndpoint says what is wrong with an endpoint of a collection.
	CheckLocalityEndpoint(e *endpointv3.LbEndpoint) error
	// SetLocalityEndpoints changes endpoints of a collection at one stroke.
	SetLocalityEndpoints(source *corev3.ConfigSource, collection string, changes []LocalityEndpoint, version string) error
	SetRoutes(source *corev3.ConfigSource, rc *routev3.RouteConfiguration, version string) error
	SetSecret(source *corev3.ConfigSource, s *tlsv3.Secret, version string) error
	SetRuntime(source *corev3.ConfigSource, rt *runtimev3.Runtime, version string) error
	SetExtension(source *corev3.ConfigSource, c *corev3.TypedExtensionConfig, version string) error
	// SetScopedRoutes changes scopes of a source, all of them or none.
	SetScopedRoutes(source *corev3.ConfigSource, set []*routev3.ScopedRouteConfiguration, removed []string, version string) error
	// SetVirtualHosts changes virtual hosts of a route configuration at one stroke.
	SetVirtualHosts(source *corev3.ConfigSource, table string, changes []VirtualHost) error
	// Answered says that a source of virtual hosts for a route configuration has
	// sent a response, which was good if err is nil; version is that of the last
	// good one.
	Answered(source *corev3.ConfigSource, table, version string, err error)
	// Resolved says that what was asked for on demand was found, and is set.
	Resolved(source *corev3.ConfigSource, typeURL, name string)
	// Accepted says that a response of clusters or listeners was taken.
	Accepted(typeURL, version string)
	// Refused says that a resource was refused before it could be set, for what it is
	// or is called. What was there before stays.
	Refused(source *corev3.ConfigSource, typeURL, name string)
	// Missing says that a source does not have a resource.
	Missing(source *corev3.ConfigSource, typeURL, name string)
	// Failed says that a source could not be reached.
	Failed(source *corev3.ConfigSource, typeURL, name string)
}

// Dial opens a connection to a cluster's host, with the cluster's transport
// socket, and TLS with alpn unless the cluster has protocols of its own; ok is
// false if there is no such cluster.
type Dial func(ctx context.Context, cluster, alpn string) (conn net.Conn, ok bool, err error)

// Config is what a Discovery is made with.
type Config struct {
	Bootstrap *bootstrapv3.Bootstrap
	// Cluster tells whether the bootstrap's static part has a cluster.
	Cluster func(name string) bool
	Dial    Dial
	Stats   *stats.Registry
	// ReadFile and Getenv read what credentials name.
	ReadFile func(string) ([]byte, error)
	Getenv   func(string) (string, bool)
	Logger   *slog.Logger
	Version  string // of the program, for the node
}

// Discovery takes resources from the servers of config sources. Its methods are
// safe for concurrent use.
type Discovery struct {
	cfg     Config
	cds     whole
	lds     whole
	sources *configsource.Sources
	own     *metrics // of these
	// demanded are those of clusters on demand, but for ADS: their streams and
	// statistics are their own.
	demanded *configsource.Sources
	// nodeContext are the context parameters that node_context_params makes.
	nodeContext map[string]string
	// collections are the files of list collections.
	collections map[string]bool
	target      Target // from Start on
	parting     parting
	// clusterStream is where clusters come from, if that is a stream.
	clusterStream atomic.Pointer[xdsclient.Source]

	mu     sync.Mutex
	wanted map[want][]*user
	// decoders are those of wanted routes, each used by its source only.
	decoders map[want]*routedecode.Decoder
	hosts    map[*xdsclient.Source]*hosts
	queue    []func()
	wake     chan struct{}
	done     chan struct{}
}

// New checks the config sources of a bootstrap. Nothing is contacted before
// Start. The error names each field that is wrong.
func New(cfg Config) (*Discovery, error) {
	dyn := cfg.Bootstrap.GetDynamicResources()
	d := &Discovery{
		cfg: cfg, collections: map[string]bool{},
		wanted: map[want][]*user{}, decoders: map[want]*routedecode.Decoder{}, hosts: map[*xdsclient.Source]*hosts{}, wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	ctx := context.Background() //nolint:forbidigo // the end of Start's context closes them
	d.own = newMetrics(cfg.Stats, "cluster_manager.cds", d.parting.begin, d.unreachable)
	d.sources = d.newSources(ctx, d.own)
	d.demanded = d.newSources(ctx, newMetrics(cfg.Stats, "cluster_manager.odcds", func() {}, d.unreachable))
	var errs []error
	if dyn.GetAdsConfig() != nil {
		ads := &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
		_, err := d.source(ads, xds.ClusterType, "")
		errs = append(errs, at("dynamic_resources", err))
	}
	var err error
	d.nodeContext, err = d.nodeParams()
	errs = append(errs, err)
	d.cds, err = d.whole("cds", dyn.GetCdsConfig(), dyn.GetCdsResourcesLocator(), xds.ClusterType)
	errs = append(errs, err)
	d.lds, err = d.whole("lds", dyn.GetLdsConfig(), dyn.GetLdsResourcesLocator(), xds.ListenerType)
	errs = append(errs, err, d.checkAuthorities())
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", path, err)
}

// Close ends a Discovery that was not started.
func (d *Discovery) Close() error { return errors.Join(d.sources.Close(), d.demanded.Close()) }

// Start begins to bring resources into a target, until ctx ends; then Wait
// returns when everything has ended.
func (d *Discovery) Start(ctx context.Context, t Target) {
	d.target, d.parting.remove = t, t.RemoveCluster
	go d.run(ctx)
}

// Wait waits for the end, after that of Start's context.
func (d *Discovery) Wait() { <-d.done }

// run works off what was asked for. Sources call back into the target, and the
// target asks for more: neither may happen within the other.
func (d *Discovery) run(ctx context.Context) {
	defer close(d.done)
	for {
		d.mu.Lock()
		work := d.queue
		d.queue = nil
		d.mu.Unlock()
		for _, f := range work {
			f()
		}
		if len(work) > 0 {
			continue
		}
		select {
		case <-d.wake:
		case <-ctx.Done():
			d.parting.stop()
			if err := d.Close(); err != nil {
				d.cfg.Logger.Warn("closing config sources", "error", err)
			}
			return
		}
	}
}

func (d *Discovery) post(f func()) {
	d.mu.Lock()
	d.queue = append(d.queue, f)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Clusters subscribes to cluster discovery and returns after its first answer,
// or after its initial_fetch_timeout (BS-24, BS-25).
func (d *Discovery) Clusters(ctx context.Context) {
	if d.cds.source != nil {
		d.own.begin(xds.ClusterType)
		collection(ctx, d, d.cds, d.clusters(), members[*clusterv3.Cluster]{scope: "cluster_manager.cds", set: d.target.SetCluster, remove: d.parting.gone})
	}
}

// Listeners is Clusters for listener discovery.
func (d *Discovery) Listeners(ctx context.Context) {
	if d.lds.source != nil {
		d.own.begin(xds.ListenerType)
		collection(ctx, d, d.lds, d.listeners(), members[*listenerv3.Listener]{scope: "listener_manager.lds", set: d.target.SetListener, remove: d.target.RemoveListener, leaves: d.target.Leaving})
	}
}

// collection watches all resources of a type, and waits for the first answer: of a
// list, until something is known of each that is in it.
func collection[T named](ctx context.Context, d *Discovery, of whole, t xdsclient.Type[T], use members[T]) {
	answered := make(chan struct{})
	var once sync.Once
	first := func() { once.Do(func() { close(answered) }) }
	m := &use
	validate := t.Validate
	t.Validate = func(name, version string, v T) error {
		err := validate(name, version, v)
		m.judge(name, v.GetName(), err)
		return err
	}
	if m.leaves != nil {
		t.Leaving = m.leave
	}
	w := xdsclient.Funcs[T]{
		Change: func(u xdsclient.Update[T]) { m.change(d, of, &u) },
		Error: func(name string, err error) {
			switch missing := errors.Is(err, xdsclient.ErrMissing); {
			case missing && (name != of.name || of.list):
				m.lose(name)
			case errors.Is(err, xdsclient.ErrExpired): // no response brings that
				m.lose(name)
				m.settle()
			case lost(err):
				d.cfg.Logger.Error("resources cannot be had", "type", t.Kind, "resource", name, "error", err)
			}
			if of.list && name == of.name {
				first()
			}
		},
		Response: func(r xdsclient.Response) {
			m.settle()
			if r.Err == nil {
				d.target.Accepted(r.TypeURL, r.Version)
			}
			if t.URL == xds.ClusterType {
				d.parting.clustersCame()
			}
			if !of.list {
				first()
			}
		},
	}
	if of.list {
		w.Settled = first
	}
	s, err := d.source(of.source, t.URL, "")
	if err != nil { // not after New, which has checked it
		d.cfg.Logger.Error("a config source cannot be used", "type", t.Kind, "error", err)
		return
	}
	d.post(func() {
		if t.URL == xds.ClusterType && streamed(of.source) {
			d.clusterStream.Store(s.Source)
		}
		xdsclient.Watch(s.Source, t, of.name, w)
	})
	limit := s.InitialFetchTimeout
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-answered:
	case <-ctx.Done():
	case <-late:
		d.cfg.Stats.Main().Inc(d.cfg.Stats.Scope(use.scope).Counter("init_fetch_timeout"))
		d.cfg.Logger.Warn("discovery has brought nothing in time; the proxy goes on without", "type", t.Kind, "initial_fetch_timeout", limit)
	}
}
