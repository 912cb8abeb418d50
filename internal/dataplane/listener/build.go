package listener

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/chainmatch"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// Env is what listeners are built with.
type Env struct {
	Registry *filter.Registry
	// FilterEnv is what listener and network filters are built with.
	FilterEnv *filter.Env
	Stats     *stats.Registry
	TLS       tlsio.Options
	Logger    *slog.Logger
	// Integer reads a whole number of the runtime.
	Integer func(key string) (value uint64, ok bool)
	// Overload is the overload manager's; nil without.
	Overload *overload.Levels
	// Connections counts those of all listeners.
	Connections *overload.Connections
	// Workers is how many workers there are.
	Workers int
	// Logs builds access logs.
	Logs func(path string, list []*accesslogv3.AccessLog) (accesslog.Logs, error)
	// Terminal builds the built-in network filter that ends a chain; ok is false
	// for other types.
	Terminal func(name string, cfg proto.Message, l *Listener) (t Terminal, ok bool, err error)
	// Reuse gives a filter chain of this configuration that there is already, or
	// nil; it may be nil itself.
	Reuse func(cfg *listenerv3.FilterChain) *Chain
	// Begin is told of each filter chain before anything is built for it; may be
	// nil.
	Begin func(c *Chain)
	// Secure builds the TLS of a filter chain; nil makes it of TLS.
	Secure func(m *tlsv3.DownstreamTlsContext) (*ServerTLS, error)
	// NetworkExtensions and ListenerExtensions are what places of discovered filters
	// of the chain that was begun last, and of the listener, are made with.
	NetworkExtensions, ListenerExtensions func() *extension.Env
	// Unpack decodes a typed configuration.
	Unpack func(*anypb.Any) (proto.Message, error)
}

const (
	defaultBufferLimit   = 1 << 20
	defaultFilterTimeout = 15 * time.Second
)

// New builds a listener. Nothing is bound. Every error is reported at once, with
// the path of its field.
func New(cfg *listenerv3.Listener, env *Env) (*Listener, error) {
	b := builder{env: env, l: &Listener{Name: cfg.GetName(), Config: cfg, opened: new(atomic.Int64)}}
	l := b.l
	var err error
	l.Sockets, err = sockets(cfg)
	b.fail(err)
	var first *Socket
	if len(l.Sockets) > 0 {
		first = l.Sockets[0]
	}
	l.Scope = env.Stats.Scope("listener." + statName(cfg, first))
	l.Scope.Fill(&l.Stats)
	for _, s := range l.Sockets {
		for i := range env.Workers {
			w := l.Scope.Scope("worker_" + strconv.Itoa(i))
			s.workerTotal = append(s.workerTotal, w.Counter("downstream_cx_total"))
			s.workerActive = append(s.workerActive, w.Gauge("downstream_cx_active"))
		}
	}
	l.BufferLimit = defaultBufferLimit
	if v := cfg.GetPerConnectionBufferLimitBytes(); v != nil {
		l.BufferLimit = int(v.GetValue())
	}
	l.FilterTimeout = defaultFilterTimeout
	if d := cfg.GetListenerFiltersTimeout(); d != nil {
		l.FilterTimeout = d.AsDuration()
	}
	limit := "envoy.resource_limits.listener." + cfg.GetName() + ".connection_limit"
	l.limit = func() (uint64, bool) { return env.Integer(limit) }
	l.overload(cfg, env)
	l.StuckTimeout = cfg.GetPerConnectionBufferHighWatermarkTimeout().AsDuration()
	l.UseOriginal = cfg.GetUseOriginalDst().GetValue()
	l.ContinueOnTimeout = cfg.GetContinueOnListenerFiltersTimeout()
	l.Logs, err = env.Logs("access_log", cfg.GetAccessLog())
	b.fail(err)
	b.listenerFilters(cfg)
	b.chains(cfg)
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return l, nil
}

type builder struct {
	env  *Env
	l    *Listener
	errs []error
}

func (b *builder) fail(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

func (b *builder) failAt(path string, err error) {
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("%s: %w", path, err))
	}
}

func (b *builder) chains(cfg *listenerv3.Listener) {
	l := b.l
	m, err := chainmatch.ForListener(cfg, chainmatch.Env{Unpack: b.env.Unpack, Counter: b.env.Stats.Scope("").Counter})
	b.fail(err)
	l.Matcher = m
	b.remark(cfg, m)
	if len(cfg.GetFilterChains()) == 0 && cfg.GetDefaultFilterChain() == nil {
		b.fail(fmt.Errorf("error adding listener '%s': no filter chains specified", statAddress(l)))
	}
	for i, c := range cfg.GetFilterChains() {
		l.Chains = append(l.Chains, b.chain(fmt.Sprintf("filter_chains[%d]", i), c))
	}
	if c := cfg.GetDefaultFilterChain(); c != nil {
		l.Default = b.chain("default_filter_chain", c)
	}
	if m != nil && m.NeedsTLSInspector() && !hasInspector(cfg) {
		b.addInspector(cfg)
	}
}

// remark logs what the owner of a listener may not expect of its filter_chain_matcher.
func (b *builder) remark(cfg *listenerv3.Listener, m *chainmatch.Matcher) {
	if m == nil {
		return
	}
	for _, note := range m.Notes() {
		b.env.Logger.Warn("a filter_chain_matcher may not do what was meant", "listener", cfg.GetName(), "because", note)
	}
	if m.LooksIntoTLS() && len(cfg.GetListenerFilters()) == 0 {
		b.env.Logger.Warn("filter_chain_matcher looks at what listener filters find out, and there is none: add envoy.filters.listener.tls_inspector", "listener", cfg.GetName())
	}
}

func statAddress(l *Listener) string {
	if len(l.Sockets) == 0 {
		return l.Name
	}
	return l.Sockets[0].Address.String()
}

func hasInspector(cfg *listenerv3.Listener) bool {
	for _, f := range cfg.GetListenerFilters() {
		if f.GetTypedConfig().MessageIs((*tlsinspectorv3.TlsInspector)(nil)) {
			return true
		}
	}
	return false
}

// addInspector adds the inspector that a chain's match needs (LF-05).
func (b *builder) addInspector(cfg *listenerv3.Listener) {
	b.env.Logger.Warn("adding listener filter envoy.filters.listener.tls_inspector: a filter chain matches on it and it is not configured", "listener", cfg.GetName())
	a, err := anypb.New(&tlsinspectorv3.TlsInspector{})
	b.fail(err)
	b.listenerFilter("listener_filters", &listenerv3.ListenerFilter{Name: "envoy.filters.listener.tls_inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: a}}, true)
}

func (b *builder) listenerFilters(cfg *listenerv3.Listener) {
	for i, f := range cfg.GetListenerFilters() {
		b.listenerFilter(fmt.Sprintf("listener_filters[%d]", i), f, false)
	}
}

func (b *builder) listenerFilter(path string, f *listenerv3.ListenerFilter, first bool) {
	if f.GetConfigDiscovery() != nil {
		b.discoveredListenerFilter(path, f)
		return
	}
	msg, err := b.env.Unpack(f.GetTypedConfig())
	if err != nil {
		b.failAt(path+".typed_config", err)
		return
	}
	t, ok := b.env.Registry.Listener(string(msg.ProtoReflect().Descriptor().FullName()))
	if !ok {
		b.failAt(path, notRegistered(f.GetName(), f.GetTypedConfig()))
		return
	}
	env := *b.env.FilterEnv
	factory, err := t.New(msg, &env)
	if err != nil {
		b.failAt(path+".typed_config", err)
		return
	}
	spec := FilterSpec{Name: f.GetName(), New: factory}
	if p := f.GetFilterDisabled(); p != nil {
		spec.Disabled = predicate(p)
	}
	if first {
		b.l.Filters = append([]FilterSpec{spec}, b.l.Filters...)
		return
	}
	b.l.Filters = append(b.l.Filters, spec)
}

func notRegistered(name string, a *anypb.Any) error {
	return fmt.Errorf("Didn't find a registered implementation for '%s' with type URL: '%s'", name, a.GetTypeUrl()) //nolint:staticcheck // Envoy's text
}

// predicate is LF-03.
func predicate(p *listenerv3.ListenerFilterChainMatchPredicate) func(*filter.ConnectionInfo) bool {
	switch r := p.GetRule().(type) {
	case *listenerv3.ListenerFilterChainMatchPredicate_OrMatch:
		return combine(r.OrMatch.GetRules(), true)
	case *listenerv3.ListenerFilterChainMatchPredicate_AndMatch:
		return combine(r.AndMatch.GetRules(), false)
	case *listenerv3.ListenerFilterChainMatchPredicate_NotMatch:
		f := predicate(r.NotMatch)
		return func(i *filter.ConnectionInfo) bool { return !f(i) }
	case *listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange:
		start, end := r.DestinationPortRange.GetStart(), r.DestinationPortRange.GetEnd()
		return func(i *filter.ConnectionInfo) bool {
			port := int32(i.Local.IP.Port())
			return i.Local.IP.IsValid() && port >= start && port < end
		}
	case *listenerv3.ListenerFilterChainMatchPredicate_AnyMatch:
		return func(*filter.ConnectionInfo) bool { return r.AnyMatch }
	}
	return func(*filter.ConnectionInfo) bool { return false }
}

func combine(rules []*listenerv3.ListenerFilterChainMatchPredicate, or bool) func(*filter.ConnectionInfo) bool {
	var list []func(*filter.ConnectionInfo) bool
	for _, r := range rules {
		list = append(list, predicate(r))
	}
	return func(i *filter.ConnectionInfo) bool {
		for _, f := range list {
			if f(i) == or {
				return or
			}
		}
		return !or
	}
}

func (b *builder) chain(path string, cfg *listenerv3.FilterChain) *Chain {
	if b.env.Reuse != nil {
		if c := b.env.Reuse(cfg); c != nil {
			return c
		}
	}
	c := &Chain{Name: cfg.GetName(), Config: cfg, Metadata: cfg.GetMetadata(), HandshakeTimeout: cfg.GetTransportSocketConnectTimeout().AsDuration()}
	if b.env.Begin != nil {
		b.env.Begin(c)
	}
	c.TLS = b.transport(path+".transport_socket", cfg.GetTransportSocket())
	if c.TLS != nil {
		b.l.Scope.Fill(&b.l.SSL)
	}
	list := cfg.GetFilters()
	for i, f := range list {
		b.networkFilter(fmt.Sprintf("%s.filters[%d]", path, i), c, f, i == len(list)-1)
	}
	if len(list) == 0 {
		c.Terminal = closer{}
	}
	return c
}

// closer ends every connection: a chain without filters (LM-15).
type closer struct{}

// Open implements Terminal.
func (closer) Open(w *Worker, c *Connection) Session {
	w.Stats.Inc(c.l.Stats.NetworkMissing) // as Envoy counts it
	c.CloseReason("no_filters")
	return nil
}

func (b *builder) transport(path string, t *corev3.TransportSocket) *ServerTLS {
	if t == nil {
		return nil
	}
	msg, err := b.env.Unpack(t.GetTypedConfig())
	if err != nil {
		b.failAt(path+".typed_config", err)
		return nil
	}
	switch m := msg.(type) {
	case *rawv3.RawBuffer:
		return nil
	case *tlsv3.DownstreamTlsContext:
		secure := b.env.Secure
		if secure == nil {
			secure = func(m *tlsv3.DownstreamTlsContext) (*ServerTLS, error) {
				ctx, err := tlsio.NewServer(m, b.env.TLS)
				return NewServerTLS(ctx), err
			}
		}
		t, err := secure(m)
		b.failAt(path+".typed_config", err)
		return t
	}
	b.failAt(path, notRegistered(t.GetName(), t.GetTypedConfig()))
	return nil
}

func (b *builder) networkFilter(path string, c *Chain, f *listenerv3.Filter, last bool) {
	if f.GetConfigDiscovery() != nil {
		b.discoveredNetworkFilter(path, c, f, last)
		return
	}
	msg, err := b.env.Unpack(f.GetTypedConfig())
	if err != nil {
		b.failAt(path+".typed_config", err)
		return
	}
	t, ok, err := b.env.Terminal(f.GetName(), msg, b.l)
	if err != nil {
		b.failAt(path+".typed_config", err)
		return
	}
	if ok {
		b.failAt(path, terminalPlace(f.GetName(), f.GetName(), true, last))
		c.Terminal = t
		return
	}
	kind, ok := b.env.Registry.Network(string(msg.ProtoReflect().Descriptor().FullName()))
	if !ok {
		b.failAt(path, notRegistered(f.GetName(), f.GetTypedConfig()))
		return
	}
	env := *b.env.FilterEnv
	factory, err := kind.New(msg, &env)
	b.failAt(path+".typed_config", err)
	b.failAt(path, terminalPlace(f.GetName(), f.GetName(), kind.Terminal, last))
	c.Filters = append(c.Filters, NetworkSpec{Name: f.GetName(), New: factory})
}

// terminalPlace is NF-04.
func terminalPlace(name, kind string, terminal, last bool) error {
	switch {
	case terminal && !last:
		return fmt.Errorf("Error: terminal filter named %s of type %s must be the last filter in a network filter chain.", name, kind) //nolint:staticcheck,revive // Envoy's text
	case !terminal && last:
		return fmt.Errorf("Error: non-terminal filter named %s of type %s is the last filter in a network filter chain.", name, kind) //nolint:staticcheck,revive // Envoy's text
	}
	return nil
}
