package filter

import (
	"fmt"
	"log/slog"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// Stats counts on one worker. Ids come from a Scope; the id 0 counts nothing.
type Stats interface {
	Inc(counter uint32)
	Add(counter uint32, n uint64)
	GaugeAdd(gauge uint32, n int64)
	// Record adds a value to a histogram, in its unit.
	Record(histogram uint32, value uint64)
}

// Scope makes statistics under a prefix. It is safe for concurrent use.
type Scope interface {
	// Counter is the id of a counter; the same name gives the same id.
	Counter(name string) uint32
	// Gauge is the id of a gauge.
	Gauge(name string) uint32
	// Histogram is the id of a histogram of milliseconds.
	Histogram(name string) uint32
}

// Env is what a filter's configuration may use while it is built.
type Env struct {
	// Stats is where the filter's statistics belong: "http.<prefix>." for HTTP
	// filters, the root for network and listener filters.
	Stats Scope
	// Logger is the proxy's logger.
	Logger *slog.Logger
	// ReadFile reads a file that the configuration names.
	ReadFile func(name string) ([]byte, error)
	// Getenv reads an environment variable that the configuration names.
	Getenv func(name string) (string, bool)
	// RuntimeFraction is a runtime key's fraction, if the runtime has the key.
	RuntimeFraction func(key string) (numerator, denominator uint32, ok bool)
	// RuntimeInteger is a runtime key's whole number, if the runtime has the key.
	RuntimeInteger func(key string) (n uint64, ok bool)
	// CheckClusterSource refuses a config source of which clusters cannot be asked
	// for by name; nil accepts every one. The path is its field's.
	CheckClusterSource func(path string, c *corev3.ConfigSource) error
}

// HTTPFactory makes the filter of one stream. It is called on workers,
// concurrently.
type HTTPFactory func(cb Callbacks) HTTPFilter

// HTTPType is a kind of HTTP filter.
type HTTPType struct {
	// Config is an empty message of the filter's configuration; its full name
	// is the type that selects the filter (HF-49).
	Config proto.Message
	// New checks a configuration and makes the factory.
	New func(cfg proto.Message, env *Env) (HTTPFactory, error)
	// RouteConfig is an empty message of the per-route configuration, or nil.
	RouteConfig proto.Message
	// ParseRoute checks a per-route configuration; what it returns is what
	// Callbacks.RouteConfig gives.
	ParseRoute func(cfg proto.Message, env *Env) (any, error)
	// Terminal filters end the chain.
	Terminal bool
	// Upstream filters may stand in an upstream filter chain (HF-13).
	Upstream bool
}

// NetworkFactory makes the filter of one connection.
type NetworkFactory func(c Connection) NetworkFilter

// NetworkType is a kind of network filter.
type NetworkType struct {
	// Config is an empty message of the filter's configuration.
	Config proto.Message
	// New checks a configuration and makes the factory.
	New func(cfg proto.Message, env *Env) (NetworkFactory, error)
	// Terminal filters end the chain, and only they may (NF-04).
	Terminal bool
}

// ListenerFactory makes the filter of one accepted connection.
type ListenerFactory func() ListenerFilter

// ListenerType is a kind of listener filter.
type ListenerType struct {
	// Config is an empty message of the filter's configuration.
	Config proto.Message
	// New checks a configuration and makes the factory.
	New func(cfg proto.Message, env *Env) (ListenerFactory, error)
}

// Registry holds the extensions a proxy knows, by the full name of their
// configuration's message. It is a value: fill it, then give it to the proxy;
// it must not be changed afterwards.
type Registry struct {
	http     map[string]HTTPType
	route    map[string]string // per-route message → filter message
	network  map[string]NetworkType
	listener map[string]ListenerType
}

func nameOf(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// AddHTTP adds a kind of HTTP filter; a type that is there already, or a
// per-route type that is another's, is an error.
func (r *Registry) AddHTTP(t HTTPType) error {
	if r.http == nil {
		r.http, r.route = map[string]HTTPType{}, map[string]string{}
	}
	name := nameOf(t.Config)
	if _, ok := r.http[name]; ok {
		return fmt.Errorf("an HTTP filter of type %s is registered already", name)
	}
	if t.RouteConfig != nil {
		message := nameOf(t.RouteConfig)
		if other, ok := r.route[message]; ok {
			return fmt.Errorf("the per-route type %s of the HTTP filter %s is that of %s already", message, name, other)
		}
		r.route[message] = name
	}
	r.http[name] = t
	return nil
}

// AddNetwork adds a kind of network filter.
func (r *Registry) AddNetwork(t NetworkType) error {
	if r.network == nil {
		r.network = map[string]NetworkType{}
	}
	name := nameOf(t.Config)
	if _, ok := r.network[name]; ok {
		return fmt.Errorf("a network filter of type %s is registered already", name)
	}
	r.network[name] = t
	return nil
}

// AddListener adds a kind of listener filter.
func (r *Registry) AddListener(t ListenerType) error {
	if r.listener == nil {
		r.listener = map[string]ListenerType{}
	}
	name := nameOf(t.Config)
	if _, ok := r.listener[name]; ok {
		return fmt.Errorf("a listener filter of type %s is registered already", name)
	}
	r.listener[name] = t
	return nil
}

// HTTP is the HTTP filter whose configuration has a message's full name.
func (r *Registry) HTTP(fullName string) (HTTPType, bool) { t, ok := r.http[fullName]; return t, ok }

// HTTPByRoute is the HTTP filter whose per-route configuration has this name.
func (r *Registry) HTTPByRoute(fullName string) (HTTPType, bool) { return r.HTTP(r.route[fullName]) }

// Network is the network filter whose configuration has a message's full name.
func (r *Registry) Network(fullName string) (NetworkType, bool) {
	t, ok := r.network[fullName]
	return t, ok
}

// Listener is the listener filter whose configuration has a message's full name.
func (r *Registry) Listener(fullName string) (ListenerType, bool) {
	t, ok := r.listener[fullName]
	return t, ok
}

// Names are the full names of every configuration message that is registered,
// per-route ones too, sorted.
func (r *Registry) Names() []string {
	var all []string
	for n := range r.http {
		all = append(all, n)
	}
	for n := range r.route {
		all = append(all, n)
	}
	for n := range r.network {
		all = append(all, n)
	}
	for n := range r.listener {
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
