package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/giveway"
	"github.com/xebec-proxy/xebec/internal/dataplane/support"
	"github.com/xebec-proxy/xebec/validate"
)

// Type URLs of resources. A Discovery is asked for all but ListenerType.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	// LocalityEndpointType is an endpoint, one of a collection (LEDS).
	LocalityEndpointType = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"
	RouteType            = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	SecretType           = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	RuntimeType          = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
	// ExtensionType is the configuration of a filter.
	ExtensionType = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	// ScopedRouteType is a scope, which leads to a RouteType.
	ScopedRouteType = "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration"
	// VirtualHostType is asked for when requests need it.
	VirtualHostType = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

// Discovery brings resources from elsewhere into a proxy, as a management
// server's client does. Its methods are called one at a time, in the order in
// which things happened, and must not wait for answers, but for Clusters and
// Listeners, which run beside the others. One that also has the method
// Describe(clientstatus.Options) []*statusv3.ClientConfig tells by it what it
// holds, on the port of the admin endpoints (see package xdsclient/clientstatus).
type Discovery interface {
	// Start is called first, when the proxy begins to run. What comes is handed
	// to r until ctx ends.
	Start(ctx context.Context, r *Resources) error
	// Want says that something of the configuration now refers to a resource of
	// this type, name and source, and Unwant that nothing does any more. A type
	// is EndpointType, RouteType, SecretType, RuntimeType or ExtensionType,
	// LocalityEndpointType with the name of a glob collection, or
	// ScopedRouteType with the name "*" for all that the source has. source is as configured, with its
	// initial_fetch_timeout, which the proxy keeps itself.
	//
	// What is found on demand is wanted when a request needs it: a ClusterType by
	// its name, and a VirtualHostType as "<route configuration>/<host>", which
	// Resolved or Missing answers. What is missing is not wanted any more then, nor
	// what was not answered and nobody waits for when there is too much of that.
	// Before that, "<route configuration>/"
	// says that a route configuration has virtual hosts of the source.
	Want(typeURL, name string, source *corev3.ConfigSource)
	Unwant(typeURL, name string, source *corev3.ConfigSource)
	// Clusters returns when the first answer of cluster discovery was applied, or
	// was waited for long enough; Listeners the same for listeners (BS-24). The
	// proxy accepts connections when what they brought is warm.
	Clusters(ctx context.Context)
	Listeners(ctx context.Context)
}

// ErrStopped is returned for changes of a proxy that does not run any more.
var ErrStopped = errors.New("the proxy has stopped")

// Resources are what a proxy is configured with, beyond its bootstrap's static
// part: clusters, endpoints, listeners, routes, secrets and configurations of filters that may be added,
// replaced and removed while it runs. Each call applies one resource: it is
// checked and built aside, and takes the place of the former when everything it
// needs has come; an error says what is wrong, with the path of the field, and
// leaves the former one in force. What has the same content as before changes
// nothing. No request fails because of a change: what is under way ends on what
// it began with. Messages must not be changed afterwards. Versions are only
// shown. Safe for concurrent use.
type Resources struct {
	p       *Proxy
	catalog *support.Catalog
	tell    teller
	asks    *asks
	work    *giveway.Work

	mu      sync.Mutex // guards everything below, and what is configured
	seq     uint64
	ctx     context.Context //nolint:containedctx // Run's, nil before
	tasks   sync.WaitGroup
	stopped bool
	changed chan struct{} // closed when something became warm

	clusters  map[string]*clusterSlot
	active    int64 // clusters in force
	warming   int64 // clusters that are not yet
	live      bool  // the gauges tell
	endpoints map[string][]*edsState
	// localities are collections of endpoints.
	localities map[string][]*localityState
	routes     map[string][]*routeState
	scopes     []*scopeState
	hosts      map[string][]*hostSet // by route configuration
	demanded   []*askedSet           // clusters on demand
	secrets    map[string][]*secretState
	// secretFiles holds one: the files of secrets are others.
	secretFiles chan struct{}
	// runtime are layers of the runtime.
	runtime []*runtimeState
	rtds    rtdsStats
	// extensions are configurations of filters.
	extensions map[string][]*extensionState
	listeners  map[string]*listenerSlot
	// leavers are listeners whose addresses others may take over.
	leavers   []string
	listening bool // what listeners need is asked for
	serving   bool // listeners that are warm begin
	versions  map[string]string
	leaving   leaving
	// drainingListeners end in order.
	drainingListeners map[*listenerEntry]struct{}
	// drainingChains are filter chains that do so alone.
	drainingChains int64
}

func newResources(p *Proxy, own []string) (*Resources, error) {
	catalog, err := support.New(support.Options{Extensions: own})
	if err != nil {
		return nil, fmt.Errorf("tables of what is built: %w", err)
	}
	return &Resources{
		p: p, catalog: catalog, work: giveway.New(), changed: make(chan struct{}),
		clusters: map[string]*clusterSlot{}, endpoints: map[string][]*edsState{}, localities: map[string][]*localityState{},
		asks: newAsks(), hosts: map[string][]*hostSet{},
		routes: map[string][]*routeState{}, secrets: map[string][]*secretState{}, secretFiles: make(chan struct{}, 1), extensions: map[string][]*extensionState{},
		versions: map[string]string{}, drainingListeners: map[*listenerEntry]struct{}{}, listeners: map[string]*listenerSlot{},
	}, nil
}

// Resources are the proxy's resources, to be changed.
func (p *Proxy) Resources() *Resources { return p.res }

// failure is the last resource that was refused.
type failure struct {
	config  proto.Message
	version string
	at      time.Time
	err     error
}

// origin is where a resource in force came from.
type origin struct {
	version string
	at      time.Time
	hash    [sha256.Size]byte // of the resource's deterministic encoding, but for assignments
}

func newOrigin(m proto.Message, version string) (origin, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return origin{}, fmt.Errorf("%w", err)
	}
	return origin{version: version, at: time.Now(), hash: sha256.Sum256(b)}, nil
}

func (o *origin) same(with *origin) bool { return o.hash == with.hash }

// lock takes the configuration. What is told to the Discovery meanwhile goes out
// with unlock.
func (r *Resources) lock() {
	r.mu.Lock()
	r.work.Begin()
}

func (r *Resources) unlock() {
	r.mu.Unlock()
	r.tell.flush()
	r.work.Between()
}

// check refuses what is not valid or not built. It gives a copy without optional
// filters that are not built if there are such.
func (r *Resources) check(m proto.Message) (proto.Message, error) {
	m = proto.Clone(m)
	return m, r.checkOwn(m)
}

// checkOwn is check for a message that is nobody else's, or of a type without
// extensions: such ones it does not change.
func (r *Resources) checkOwn(m proto.Message) error {
	report, err := r.inspect(m)
	if err != nil {
		return err
	}
	return r.conclude(&report)
}

// inspect is what checkOwn finds, which conclude counts and tells. An error says that
// constraints are violated.
func (r *Resources) inspect(m proto.Message) (support.Report, error) {
	r.work.Between()
	if la, ok := m.(*endpointv3.ClusterLoadAssignment); ok && support.Plain(la) {
		return support.Report{}, nil
	}
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return support.Report{}, fmt.Errorf("Proto constraint validation failed (%w)", err) //nolint:staticcheck // Envoy's text
		}
	}
	r.work.Between()
	return r.catalog.Check(m, nil, r.p.rt.Load().Bool), nil
}

func (r *Resources) conclude(report *support.Report) error {
	r.p.stat.Main().Add(r.p.server.Deprecated, uint64(max(report.Deprecated, 0)))
	errs := r.unknown(report.Unknown)
	for _, f := range report.Findings {
		if f.Severity == validate.Error {
			errs = append(errs, fmt.Errorf("%s: %s", f.Path, f.Message))
			continue
		}
		r.p.log.Warn(f.Message, "component", "config", "field", f.Path) //nolint:sloglint // the message is Envoy's
	}
	r.work.Between()
	return errors.Join(errs...)
}

// unknown counts fields that are not known, and warns of them or refuses them.
func (r *Resources) unknown(found []support.UnknownFields) []error {
	var errs []error
	for _, u := range found {
		switch {
		case r.p.o.RejectUnknownFields:
			errs = append(errs, fmt.Errorf("%s: Protobuf message (%s) has unknown fields", u.Path, u.What))
			continue
		case !r.p.o.IgnoreUnknownFields:
			r.p.log.Warn("Unknown field: "+u.What, "component", "misc", "field", u.Path) //nolint:sloglint // Envoy's text
		}
		r.p.stat.Main().Inc(r.p.server.DynamicUnknown)
	}
	return errs
}

// checkAs is check for a message of a known type.
func checkAs[M proto.Message](r *Resources, m M) (M, error) {
	c, err := r.check(m)
	if checked, ok := c.(M); ok {
		return checked, err
	}
	var none M
	return none, err
}

// begin starts what the static configuration needs, but for its listeners.
func (r *Resources) begin(ctx context.Context) error {
	if d := r.p.o.Discovery; d != nil {
		if err := d.Start(ctx, r); err != nil {
			return fmt.Errorf("discovery: %w", err)
		}
	}
	r.lock()
	defer r.unlock()
	r.ctx = ctx
	r.tell.start(r.p.o.Discovery)
	r.startRuntime()
	r.tasks.Go(func() { r.serveAsks(ctx) })
	r.tasks.Go(func() { r.watchSecrets(ctx) })
	for _, s := range r.clusterSlots() {
		for _, e := range []*clusterEntry{s.active, s.warming} {
			if e != nil {
				r.startCluster(e) //nolint:contextcheck // it has ctx by r
			}
		}
	}
	return nil
}

// beginListeners asks for what listeners need, when the clusters have begun
// (BS-24, XC-26).
func (r *Resources) beginListeners() {
	r.lock()
	defer r.unlock()
	r.listening = true
	r.tell.release()
	for _, list := range r.hosts {
		for _, s := range list {
			r.startHosts(s)
		}
	}
	for _, s := range r.listenerSlots() {
		for _, l := range []*listenerEntry{s.active, s.warming} {
			if l == nil {
				continue
			}
			for _, c := range l.deps {
				r.startChain(c)
			}
		}
	}
}

// end waits for everything that begin and changes have started; their context
// has ended.
func (r *Resources) end() {
	r.lock()
	r.stopped = true
	r.tell.stop()
	r.leaving.halt()
	for _, s := range r.clusters {
		for _, e := range []*clusterEntry{s.active, s.warming} {
			if e != nil {
				e.halt()
			}
		}
	}
	for _, list := range r.endpoints {
		for _, s := range list {
			s.halt()
		}
	}
	for _, list := range r.localities {
		for _, s := range list {
			s.halt()
		}
	}
	for _, list := range r.hosts {
		for _, s := range list {
			s.halt()
		}
	}
	r.unlock()
	r.tasks.Wait()
	if w, ok := r.p.o.Discovery.(waiter); ok {
		w.Wait()
	}
}

// note wakes those who wait for something to become warm. r.mu is held.
func (r *Resources) note() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await waits until ok holds, which is asked with r.mu held; false if the proxy
// is to end before.
func (r *Resources) await(ctx context.Context, ok func() bool) bool {
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		case <-r.p.quit:
			return false
		}
	}
}

// fetchTimeout is how long something waits for its resource (BS-25); 0 is for
// ever.
func fetchTimeout(s *corev3.ConfigSource) time.Duration {
	if d := s.GetInitialFetchTimeout(); d != nil {
		return d.AsDuration()
	}
	return 15 * time.Second
}

// after calls f with the configuration locked when a time has passed, unless the
// proxy has stopped by then.
func (r *Resources) after(d time.Duration, f func()) *time.Timer {
	return time.AfterFunc(d, func() {
		r.lock()
		defer r.unlock()
		if !r.stopped {
			f()
		}
	})
}

// sameSource reports whether two sources are the same one, however long they are
// waited for; nil is any.
func sameSource(a, b *corev3.ConfigSource) bool {
	if a == b || a == nil || b == nil {
		return true
	}
	place := func(s *corev3.ConfigSource) *corev3.ConfigSource {
		return &corev3.ConfigSource{ConfigSourceSpecifier: s.GetConfigSourceSpecifier(), Authorities: s.GetAuthorities()}
	}
	return proto.Equal(place(a), place(b))
}
