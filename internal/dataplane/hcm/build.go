package hcm

import (
	"errors"
	"fmt"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/edge"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xds"
)

// Env is what a connection manager is built with.
type Env struct {
	Registry  *filter.Registry
	FilterEnv filter.Env
	Stats     *stats.Registry
	// Listener is the scope of the listener, "listener.<address>".
	Listener *stats.Scope
	Edge     *edge.Env
	Route    route.Env
	Logs     func(path string, list []*accesslogv3.AccessLog) (accesslog.Logs, error)
	Unpack   func(*anypb.Any) (proto.Message, error)
	// Router makes the terminal filter for its configuration.
	Router func(cfg proto.Message, st *Stats) (filter.HTTPFactory, bool, error)
	// BufferLimit is the listener's.
	BufferLimit int
	// Overload is the listener's; nil without.
	Overload *overload.Levels
	// Tables is told of each route table that was built, for config_dump.
	Tables func(cfg *routev3.RouteConfiguration)
	// Discover finds routes elsewhere: build makes a table of a configuration that
	// came; prefix is "http.<prefix>", below which is counted. What it returns is the table in force on
	// a worker, or nil before the first came; it is called by that worker.
	Discover func(rds *hcmv3.Rds, prefix *stats.Scope, build func(*routev3.RouteConfiguration) (*route.Table, error)) func(worker int) *route.Table
	// DiscoverHosts finds more virtual hosts for routes of the configuration (RT-12);
	// build and what it returns are as those of Discover.
	DiscoverHosts func(rc *routev3.RouteConfiguration, build func(*routev3.RouteConfiguration) (*route.Table, error)) (func(worker int) *route.Table, error)
	// Extensions is what places of discovered filters are made with.
	Extensions *extension.Env
	// DiscoverScopes finds scopes elsewhere. What it returns are those in force on a
	// worker; it is called by that worker.
	DiscoverScopes func(s *Scoped) func(worker int) *route.Scopes
	// InlineScopes is told of each list of scopes that was built, for config_dump.
	InlineScopes func(name string, list []*routev3.ScopedRouteConfiguration)
	// CheckSource refuses a config source that cannot be used for a type.
	CheckSource func(path string, c *corev3.ConfigSource, typeURL string) error
}

type builder struct {
	env  *Env
	cfg  *hcmv3.HttpConnectionManager
	out  *Config
	errs []error
}

// New builds a connection manager's configuration; all errors are reported at
// once, with the path of their field.
func New(cfg *hcmv3.HttpConnectionManager, env *Env) (*Config, error) {
	b := &builder{env: env, cfg: cfg, out: &Config{Stats: &Stats{}, Listener: &ListenerStats{}, Codecs: &CodecStats{}, BufferLimit: env.BufferLimit, Overload: env.Overload}}
	prefix := cfg.GetStatPrefix()
	b.out.Scope = env.Stats.Scope("http." + prefix)
	b.out.Scope.Fill(b.out.Stats)
	b.out.agents = &agents{scope: b.out.Scope}
	env.Listener.Scope("http." + prefix).Fill(b.out.Listener)
	env.Stats.Scope("").Fill(b.out.Codecs)
	b.env.FilterEnv.Stats = scope{b.out.Scope}
	b.codecs()
	b.timeouts()
	var err error
	b.out.Rules, err = edge.New(cfg, env.Edge)
	b.fail("", err)
	b.out.Logs, err = env.Logs("access_log", cfg.GetAccessLog())
	b.fail("", err)
	b.out.Filters = b.filters("http_filters", cfg.GetHttpFilters())
	b.upgrades()
	b.routes()
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	return b.out, nil
}

// scope is a stats.Scope as filters see it.
type scope struct{ *stats.Scope }

// Counter implements filter.Scope.
func (s scope) Counter(name string) uint32 { return uint32(s.Scope.Counter(name)) }

// Gauge implements filter.Scope.
func (s scope) Gauge(name string) uint32 { return uint32(s.Scope.Gauge(name)) }

// Histogram implements filter.Scope.
func (s scope) Histogram(name string) uint32 {
	return uint32(s.Scope.Histogram(name, stats.Milliseconds))
}

// ScopeOf is a scope as filters see it.
func ScopeOf(s *stats.Scope) filter.Scope { return scope{s} }

func (b *builder) fail(path string, err error) {
	switch {
	case err == nil:
	case path == "":
		b.errs = append(b.errs, err)
	default:
		b.errs = append(b.errs, fmt.Errorf("%s: %w", path, err))
	}
}

func (b *builder) codecs() {
	c, o := b.cfg, b.out
	switch c.GetCodecType() {
	case hcmv3.HttpConnectionManager_HTTP1:
		o.Codec = HTTP1
	case hcmv3.HttpConnectionManager_HTTP2:
		o.Codec = HTTP2
	case hcmv3.HttpConnectionManager_HTTP3:
		b.fail("codec_type", errors.New("HTTP3 codec configured on non-QUIC listener.")) //nolint:staticcheck,revive // Envoy's text
	}
	common := c.GetCommonHttpProtocolOptions()
	kb := c.GetMaxRequestHeadersKb().GetValue()
	count := common.GetMaxHeadersCount().GetValue()
	o.MaxRequests = uint64(common.GetMaxRequestsPerConnection().GetValue())
	invalid := c.GetStreamErrorOnInvalidHttpMessage().GetValue()
	o.HTTP1 = HTTP1Options(c.GetHttpProtocolOptions())
	ignore, err := anyString("http_protocol_options.ignore_http_11_upgrade", c.GetHttpProtocolOptions().GetIgnoreHttp_11Upgrade())
	b.fail("", err)
	o.HTTP1.IgnoreUpgrade = ignore
	o.MatchUpstream = c.GetSchemeHeaderTransformation().GetMatchUpstream()
	o.HTTP1.MaxHeadersKB, o.HTTP1.MaxHeadersCount = kb, count
	o.HTTP2 = HTTP2Options(c.GetHttp2ProtocolOptions(), invalid)
	o.HTTP2.MaxHeadersKB, o.HTTP2.MaxHeaders = kb, count
	o.HTTP2.OutputHigh = http2.OutputHigh(o.BufferLimit)
	switch common.GetHeadersWithUnderscoresAction() {
	case corev3.HttpProtocolOptions_REJECT_REQUEST:
		o.HTTP1.Underscores, o.HTTP2.Underscores = http1.RejectUnderscores, http2.UnderscoresReject
	case corev3.HttpProtocolOptions_DROP_HEADER:
		o.HTTP1.Underscores, o.HTTP2.Underscores = http1.DropUnderscores, http2.UnderscoresDrop
	}
	o.StreamErrorOnInvalid = invalid
	if v := c.GetHttpProtocolOptions().GetOverrideStreamErrorOnInvalidHttpMessage(); v != nil {
		o.StreamErrorOnInvalid = v.GetValue()
	}
	o.Proxy100 = c.GetProxy_100Continue()
	o.RuntimeInteger = b.env.FilterEnv.RuntimeInteger
	if k := c.GetHttp2ProtocolOptions().GetConnectionKeepalive(); k != nil {
		o.KeepaliveInterval, o.KeepaliveTimeout, o.KeepaliveJitter = k.GetInterval().AsDuration(), k.GetTimeout().AsDuration(), 0.15
		if j := k.GetIntervalJitter(); j != nil {
			o.KeepaliveJitter = j.GetValue() / 100
		}
	}
}

// HTTP1Options reads Http1ProtocolOptions.
func HTTP1Options(p *corev3.Http1ProtocolOptions) http1.Options {
	o := http1.Options{
		AcceptHTTP10: p.GetAcceptHttp_10(), DefaultHost10: p.GetDefaultHostForHttp_10(), EnableTrailers: p.GetEnableTrailers(),
		AllowChunkedLength: p.GetAllowChunkedLength(), CustomMethods: p.GetAllowCustomMethods(),
		SendFullyQualifiedURL: p.GetSendFullyQualifiedUrl(),
	}
	if v := p.GetAllowAbsoluteUrl(); v != nil && !v.GetValue() {
		o.RefuseAbsoluteURL = true
	}
	switch p.GetHeaderKeyFormat().GetHeaderFormat().(type) {
	case *corev3.Http1ProtocolOptions_HeaderKeyFormat_ProperCaseWords_:
		o.HeaderCase = http1.ProperCaseWords
	case *corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter:
		o.HeaderCase = http1.PreserveCase
	}
	return o
}

// HTTP2Options reads Http2ProtocolOptions.
func HTTP2Options(p *corev3.Http2ProtocolOptions, streamErrors bool) http2.Options {
	o := http2.Options{
		MaxConcurrentStreams: p.GetMaxConcurrentStreams().GetValue(), StreamWindow: p.GetInitialStreamWindowSize().GetValue(),
		ConnWindow: p.GetInitialConnectionWindowSize().GetValue(), MaxOutboundFrames: p.GetMaxOutboundFrames().GetValue(),
		MaxOutboundControlFrames: p.GetMaxOutboundControlFrames().GetValue(),
		MaxWindowUpdateFrames:    p.GetMaxInboundWindowUpdateFramesPerDataFrameSent().GetValue(),
		AllowConnect:             p.GetAllowConnect(), StreamErrors: streamErrors, Batch: true,
	}
	if v := p.GetHpackTableSize(); v != nil {
		o.HeaderTableSize, o.ZeroTable = v.GetValue(), v.GetValue() == 0
	}
	if v := p.GetMaxConsecutiveInboundFramesWithEmptyPayload(); v != nil {
		n := v.GetValue()
		o.MaxEmptyFrames = &n
	}
	if v := p.GetMaxInboundPriorityFramesPerStream(); v != nil {
		n := v.GetValue()
		o.MaxPriorityFrames = &n
	}
	if v := p.GetOverrideStreamErrorOnInvalidHttpMessage(); v != nil {
		o.StreamErrors = v.GetValue()
	}
	return o
}

func or(d *durationpb.Duration, fallback time.Duration) time.Duration {
	if d == nil {
		return fallback
	}
	return d.AsDuration()
}

func (b *builder) timeouts() {
	c, o := b.cfg, b.out
	common := c.GetCommonHttpProtocolOptions()
	o.IdleTimeout = or(common.GetIdleTimeout(), time.Hour)
	o.StreamIdle = or(c.GetStreamIdleTimeout(), 5*time.Minute)
	o.FlushTimeout = or(c.GetStreamFlushTimeout(), o.StreamIdle)
	o.RequestTimeout = c.GetRequestTimeout().AsDuration()
	o.HeadersTimeout = c.GetRequestHeadersTimeout().AsDuration()
	o.MaxStream = common.GetMaxStreamDuration().AsDuration()
	o.MaxConnection = common.GetMaxConnectionDuration().AsDuration()
	o.MaxConnJitter = common.GetMaxConnectionDurationJitter().GetValue() / 100
	o.SafeMaxConnection = c.GetHttp1SafeMaxConnectionDuration()
	o.DrainTimeout = or(c.GetDrainTimeout(), 5*time.Second)
	o.DelayedClose = or(c.GetDelayedCloseTimeout(), time.Second)
}

func (b *builder) upgrades() {
	for i, u := range b.cfg.GetUpgradeConfigs() {
		at := fmt.Sprintf("upgrade_configs[%d]", i)
		kind := strings.ToLower(u.GetUpgradeType())
		if b.out.Upgrades == nil {
			b.out.Upgrades = map[string]Upgrade{}
		}
		if _, twice := b.out.Upgrades[kind]; twice {
			b.fail(at, fmt.Errorf("Error: multiple upgrade configs with the same name: '%s'", u.GetUpgradeType())) //nolint:staticcheck // Envoy's text
		}
		up := Upgrade{Enabled: u.GetEnabled() == nil || u.GetEnabled().GetValue()}
		if len(u.GetFilters()) > 0 {
			up.Filters = b.filters(at+".filters", u.GetFilters())
		}
		b.out.Upgrades[kind] = up
	}
}

func (b *builder) routes() {
	env := b.env.Route
	env.Registry, env.FilterEnv = b.env.Registry, &b.env.FilterEnv
	env.FilterNames = map[string]string{}
	for _, f := range b.cfg.GetHttpFilters() {
		// Of a filter that is discovered the type may change.
		env.FilterNames[f.GetName()] = strings.TrimPrefix(f.GetTypedConfig().GetTypeUrl(), "type.googleapis.com/")
	}
	switch {
	case b.cfg.GetRouteConfig() != nil:
		rc := b.cfg.GetRouteConfig()
		if rc.GetVhds() != nil {
			b.moreHosts(rc, &env)
			return
		}
		t, err := route.New(rc, &env)
		b.fail("route_config", err)
		if b.env.Tables != nil {
			b.env.Tables(rc)
		}
		b.out.Routes = func(int) *route.Table { return t }
	case b.cfg.GetRds() != nil:
		b.discovered(&env)
	case b.cfg.GetScopedRoutes() != nil:
		b.scoped(&env)
	default:
		b.fail("route_config", errors.New("a route source is needed: route_config, rds or scoped_routes"))
	}
}

// moreHosts takes the routes of the configuration, and more virtual hosts from
// elsewhere (RT-12).
func (b *builder) moreHosts(rc *routev3.RouteConfiguration, env *route.Env) {
	if err := b.env.CheckSource("route_config.vhds.config_source", rc.GetVhds().GetConfigSource(), xds.VirtualHostType); err != nil {
		b.fail("", err)
		return
	}
	var err error
	b.out.Routes, err = b.env.DiscoverHosts(rc, rebuilding(func(before *route.Table, rc *routev3.RouteConfiguration) (*route.Table, error) {
		return route.Rebuild(before, rc, env)
	}))
	b.fail("route_config", err)
}

// rebuilding makes tables one after the other, each of what has stayed of the one
// before: a change of one virtual host of thousands costs little. One table is built
// at a time.
func rebuilding(build func(*route.Table, *routev3.RouteConfiguration) (*route.Table, error)) func(*routev3.RouteConfiguration) (*route.Table, error) {
	var before *route.Table
	return func(rc *routev3.RouteConfiguration) (*route.Table, error) {
		t, err := build(before, rc)
		if err == nil {
			before = t
		}
		return t, err
	}
}

// discovered takes the routes from where rds says (RT-13).
func (b *builder) discovered(env *route.Env) {
	rds := b.cfg.GetRds()
	switch {
	case rds.GetRouteConfigName() == "":
		b.fail("rds.route_config_name", errors.New("a name is needed"))
		return
	case rds.GetConfigSource() == nil:
		b.fail("rds.config_source", errors.New("a config source is needed"))
		return
	}
	b.fail("", b.env.CheckSource("rds.config_source", rds.GetConfigSource(), xds.RouteType))
	prefix := b.env.Stats.Scope("http." + b.cfg.GetStatPrefix())
	b.out.Routes = b.env.Discover(rds, prefix, discoveredTables(env))
}
