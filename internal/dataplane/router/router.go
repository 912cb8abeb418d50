// Package router is the HTTP filter that ends a request's way through the
// filters: it takes the route's action, chooses cluster and host, sends the
// request upstream, and brings the response back, with the timeouts, retries
// and limits on that way (Envoy's source/common/router).
package router

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/lb"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Config is the filter's configuration
// (extensions/filters/http/router/v3/router.proto); immutable.
type Config struct {
	// SuppressEnvoyHeaders leaves out x-envoy-* headers.
	SuppressEnvoyHeaders bool
	// StrictChecks are the headers to be refused with 400 when invalid.
	StrictChecks []string
	// RespectExpectedTimeout takes x-envoy-expected-rq-timeout-ms from a peer.
	RespectExpectedTimeout bool
	// NoDynamicStats leaves out statistics by response code (dynamic_stats: false).
	NoDynamicStats bool
	// SuppressGRPCCodes counts gRPC requests as completed, not by response code.
	SuppressGRPCCodes bool
	// Stats are the counters of the connection manager that the router counts.
	Stats Stats
	// UpstreamFilters are the upstream HTTP filters of clusters without their own.
	UpstreamFilters []chain.Spec
	// UpstreamLog is what is logged of attempts.
	UpstreamLog UpstreamLog
	// Zone is this proxy's zone, for zone.<from>.<to> statistics.
	Zone string
}

// Stats are "http.<prefix>." counters of the router.
type Stats struct {
	NoRoute, NoCluster, RqTotal, RqDirectResponse stats.Counter
	// ResetAfterStart counts gRPC responses that broke after their head.
	ResetAfterStart stats.Counter
}

// Host is the stream that the router belongs to.
type Host interface {
	chain.Owner
	Chain() *chain.Chain
	Worker() *worker.Worker
	Clusters() *pool.Set
	// Entry is the route, resolved at the latest now, or nil.
	Entry() *route.Entry
	RouteContext() *route.Context
	// Target is what the route's action led to.
	Target() route.Target
	// Internal tells whether the request came from inside (HC-32).
	Internal() bool
	DownstreamProtocol() filter.Protocol
	// MatchUpstreamScheme makes :scheme that of the upstream connection.
	MatchUpstreamScheme() bool
	// RequestCases is how the client wrote header names, SetResponseCases tells
	// how the upstream did; nil when that is not kept.
	RequestCases() *http1.Cases
	SetResponseCases(c *http1.Cases)
	// Router is the router's memory in the stream.
	Router() *Filter
	// DownstreamPaused tells whether the client does not keep up just now.
	DownstreamPaused() bool
}

// New makes the filter's factory. The filter of a stream lives in the stream.
func New(cfg *Config) filter.HTTPFactory {
	return func(cb filter.Callbacks) filter.HTTPFilter {
		h := hostOf(cb)
		f := h.Router()
		f.reset(cfg, h)
		return filter.HTTPFilter{Decoder: f}
	}
}

func hostOf(cb filter.Callbacks) Host {
	o, _ := cb.(interface{ Owner() chain.Owner })
	h, _ := o.Owner().(Host)
	return h
}

// Filter is the router of one stream. It is used again for the next; the zero
// value must be given to Init once.
type Filter struct {
	cfg    *Config
	host   Host
	w      *worker.Worker
	info   *filter.StreamInfo
	head   *header.Map
	entry  *route.Entry
	target route.Target
	c      *pool.Cluster
	prio   cluster.RoutePriority
	final  route.Final
	retry  route.RetryState

	up       upstream
	attempt  *attemptLog   // memory for up.log, made when it is needed
	kept     filter.Buffer // the request's body, to send again
	keeping  bool
	trailers *header.Map
	alt      *cluster.Codes // counts this request as well, or nil
	also     counts
	end      bool // the request is complete
	retried  bool
	held     *cluster.Breaker // that counts a retry, or nil
	waiting  bool             // for a retry's time
	limited  bool             // that time is what the upstream asked for
	started  bool             // the response's head was handed on
	noStatus bool             // it was a gRPC response's, without the status
	tunnel   tunnel           // what the request asks for
	granted  bool             // and has got
	done     bool
	pausing  bool          // the request's sender is paused
	complete time.Duration // when the request was; -1 before

	choice  lb.Context
	cookies balanceCookies

	routeTimer, perTry, perTryIdle, backoff, maxStream loop.Timer
}

// Init binds the router's timers to a loop. It is called once.
func (f *Filter) Init(l *loop.Loop) {
	f.routeTimer.Init(l, f.onRouteTimeout)
	f.perTry.Init(l, f.onPerTryTimeout)
	f.perTryIdle.Init(l, f.onPerTryIdle)
	f.backoff.Init(l, f.onBackoff)
	f.maxStream.Init(l, f.onMaxStream)
	f.up.f = f
	f.choice.Hasher = f
}

func (f *Filter) reset(cfg *Config, h Host) {
	f.cfg, f.host, f.w, f.info = cfg, h, h.Worker(), h.Info()
	f.entry, f.target, f.c, f.head, f.trailers = nil, route.Target{}, nil, nil, nil
	f.kept.Reset()
	f.keeping, f.end, f.retried, f.waiting, f.started, f.done, f.pausing = false, false, false, false, false, false, false
	f.noStatus, f.alt = false, nil
	f.also.n = 0
	f.tunnel, f.granted = noTunnel, false
	f.cookies.reset()
	f.choice.Criteria = nil
	f.complete = -1
}

// DecodeHeaders implements filter.Decoder.
func (f *Filter) DecodeHeaders(h *header.Map, end bool) filter.HeadersStatus {
	f.head, f.end, f.tunnel = h, end, tunnelOf(h)
	f.entry = f.host.Entry()
	s := f.w.Stats
	s.Inc(f.cfg.Stats.RqTotal)
	if f.entry == nil {
		s.Inc(f.cfg.Stats.NoRoute)
		f.reply(404, "", "route_not_found", filter.FlagNoRouteFound)
		return filter.StopIteration
	}
	ctx := f.host.RouteContext()
	switch f.entry.Kind() {
	case route.Redirect:
		f.redirect(ctx)
		return filter.StopIteration
	case route.DirectResponse:
		f.direct(ctx)
		return filter.StopIteration
	}
	if !f.findCluster() || !f.admit(ctx) {
		return filter.StopIteration
	}
	f.begin(ctx, end)
	return filter.StopIteration
}

func (f *Filter) reply(status int, body, details string, flag filter.Flags) {
	f.info.Flags |= flag
	f.host.Chain().LocalReply(&filter.LocalReply{Status: status, Body: body, Details: details})
}

func (f *Filter) redirect(ctx *route.Context) {
	f.w.Stats.Inc(f.cfg.Stats.RqDirectResponse) // as Envoy, whose rq_redirect counts nothing
	status, location := f.entry.Redirect(ctx)
	f.host.Chain().LocalReply(&filter.LocalReply{Status: status, Details: "direct_response", Edit: func(h *header.Map) {
		h.Set("location", location)
		f.finalizeLocal(h)
	}})
}

func (f *Filter) direct(ctx *route.Context) {
	f.w.Stats.Inc(f.cfg.Stats.RqDirectResponse)
	status, body, contentType := f.entry.Direct(ctx)
	f.host.Chain().LocalReply(&filter.LocalReply{Status: status, Body: body, Details: "direct_response", Edit: func(h *header.Map) {
		if contentType != "" {
			h.SetID(header.ContentType, contentType)
		}
		f.finalizeLocal(h)
	}})
}

// finalizeLocal applies the route's response headers to the proxy's own answer.
func (f *Filter) finalizeLocal(h *header.Map) {
	ctx := f.host.RouteContext()
	ctx.Response = h
	f.entry.FinalizeResponse(ctx, f.target)
}

// findCluster resolves the route's cluster; false after a local reply.
func (f *Filter) findCluster() bool {
	f.target = f.host.Target()
	f.c = f.host.Clusters().Cluster(f.target.Cluster)
	if f.c == nil {
		f.w.Stats.Inc(f.cfg.Stats.NoCluster)
		f.reply(f.entry.ClusterNotFoundStatus(), "", "cluster_not_found", filter.FlagNoClusterFound)
		return false
	}
	f.prio = cluster.RoutePriority(f.entry.Priority())
	f.takeAlternative()
	f.takeCounts()
	return true
}

// admit makes the checks before a host is chosen; false after a local reply.
func (f *Filter) admit(ctx *route.Context) bool {
	if bad := f.invalidHeader(ctx); bad != "" {
		f.info.Flags |= filter.FlagInvalidEnvoyRequestHeaders
		f.host.Chain().LocalReply(&filter.LocalReply{Status: 400, Body: "invalid header '" + bad + "' with value '" + f.head.Get(bad) + "'", Details: "request_headers_failed_strict_check{" + bad + "}"})
		return false
	}
	if f.c.Cfg.InMaintenance(f.w.Loop.Random()) {
		f.maintain()
		return false
	}
	if d := f.c.Cfg.Drop().Decide(f.w.Loop.Random()); d != cluster.DropNot {
		f.drop(d == cluster.DropUnconditional)
		return false
	}
	return true
}

// maintain answers a request to a cluster in maintenance mode (RT-48).
func (f *Filter) maintain() {
	f.info.Flags |= filter.FlagUpstreamOverflow
	f.charge(503, nil)
	f.w.Stats.Inc(f.c.Cfg.Stats.UpstreamRqMaintenanceMode)
	f.host.Chain().LocalReply(&filter.LocalReply{Status: 503, Body: "maintenance mode", Details: "maintenance_mode", Edit: func(h *header.Map) {
		if !f.cfg.SuppressEnvoyHeaders {
			h.SetID(header.XEnvoyOverloaded, "true")
		}
	}})
}

// drop answers a request that the cluster's drop_overloads refuses (CM-28).
func (f *Filter) drop(unconditional bool) {
	f.charge(503, nil)
	r := filter.LocalReply{Status: 503, Body: "drop overload", Details: "drop_overload"}
	f.info.Flags |= filter.FlagDropOverload
	name := "x-envoy-drop-overload"
	if unconditional {
		f.info.Flags = f.info.Flags&^filter.FlagDropOverload | filter.FlagUnconditionalDropOverload
		r.Body, r.Details, name = "unconditional drop overload", "unconditional_drop_overload", "x-envoy-unconditional-drop-overload"
	}
	r.Edit = func(h *header.Map) {
		if !f.cfg.SuppressEnvoyHeaders {
			h.Set(name, "true")
		}
	}
	f.host.Chain().LocalReply(&r)
}

// begin sends the request for the first time.
func (f *Filter) begin(ctx *route.Context, end bool) {
	ctx.SuppressEnvoyHeaders = f.cfg.SuppressEnvoyHeaders
	f.final = f.entry.FinalTimeouts(ctx, f.host.Internal(), f.cfg.RespectExpectedTimeout)
	f.info.Attempts = 1
	if f.entry.IncludeRequestAttemptCount() {
		f.head.SetID(header.XEnvoyAttemptCount, "1")
	}
	f.entry.FinalizeRequest(ctx, f.target) // before there is a host: a reply may show what became of the path
	host := f.pick()
	if host == nil {
		f.noHost()
		return
	}
	f.retry.Init(f.entry.Retry(), ctx) // the route's own headers may say how
	f.keeping = f.retry.Enabled()
	if d := f.c.Options().MaxStreamDuration; d > 0 {
		f.maxStream.Set(d)
	}
	switch {
	case end:
		f.requestComplete()
	case f.tunnel == websocket && f.final.Timeout > 0:
		f.routeTimer.Set(f.final.Timeout) // of the answer: the request itself has no end
	}
	f.send(host)
}

func (f *Filter) noHost() {
	f.w.Stats.Inc(f.c.Cfg.Stats.UpstreamCxNoneHealthy)
	f.charge(503, nil)
	f.end = true
	f.info.Flags |= filter.FlagNoHealthyUpstream
	f.host.Chain().LocalReply(&filter.LocalReply{Status: 503, Body: "no healthy upstream", Details: "no_healthy_upstream", Edit: f.sayAttempts})
}

// DecodeData implements filter.Decoder.
func (f *Filter) DecodeData(data *filter.Buffer, end bool) filter.DataStatus {
	if f.done {
		return filter.DataStopIterationNoBuffer
	}
	if f.keeping {
		if limit := f.limit(); f.kept.Len()+data.Len() > limit {
			if !f.giveUpRetry() {
				return filter.DataStopIterationNoBuffer
			}
		} else {
			f.kept.Append(data.Bytes())
		}
	}
	if end {
		f.end = true
		f.requestComplete()
	}
	f.up.data(data.Bytes(), end)
	return filter.DataStopIterationNoBuffer
}

func (f *Filter) limit() int { return f.host.Chain().Limit() }

// giveUpRetry forgets the body: it is too large to be kept for a retry. While
// nothing else has it, that is the end of the request (RT-40).
func (f *Filter) giveUpRetry() bool {
	f.w.Stats.Inc(f.c.Cfg.Stats.RetryOrShadowAbandoned)
	f.keeping = false
	f.retry.Disable()
	if f.waiting {
		f.backoff.Stop()
		f.cleanup()
		f.reply(507, "exceeded request buffer limit while retrying upstream", "request_payload_exceeded_retry_buffer_limit", 0)
		return false
	}
	f.kept.Reset()
	return true
}

// DecodeTrailers implements filter.Decoder.
func (f *Filter) DecodeTrailers(t *header.Map) filter.TrailersStatus {
	if f.done {
		return filter.TrailersStop
	}
	f.trailers, f.end = t, true
	f.requestComplete()
	f.up.sendTrailers(t)
	return filter.TrailersStop
}

// requestComplete starts the route's timeout (RT-32).
func (f *Filter) requestComplete() {
	f.complete = f.w.Loop.Now()
	f.info.Timing.LastRx = f.complete
	if f.granted {
		return // a tunnel may stay half open
	}
	if f.final.Timeout > 0 {
		f.routeTimer.Set(f.final.Timeout)
	}
	if f.up.sent && f.final.PerTry > 0 {
		f.perTry.Set(f.final.PerTry)
	}
}

// Forget lets go of what the stream had, which would otherwise stay until the
// next one uses the filter.
func (f *Filter) Forget() {
	f.c, f.entry, f.target, f.up.host, f.up.raw = nil, nil, route.Target{}, nil, nil
	f.also = counts{}
}

// OnStreamComplete implements filter.Completer: the stream's end is about to be
// logged, although an attempt may be under way.
func (f *Filter) OnStreamComplete() { f.up.tally() }

// OnDestroy implements filter.Destroyer: the stream is gone.
func (f *Filter) OnDestroy() { f.cleanup() }

// cleanup ends everything that is under way.
func (f *Filter) cleanup() {
	f.done = true
	f.routeTimer.Stop()
	f.perTry.Stop()
	f.perTryIdle.Stop()
	f.backoff.Stop()
	f.maxStream.Stop()
	f.waiting = false
	f.releaseRetry()
	f.up.cancel()
}

// Pause stops the response, or lets it go on: the client does not keep up.
func (f *Filter) Pause(pause bool) { f.up.pause(pause) }

// Abandon ends what is under way: the stream is answered by somebody else.
func (f *Filter) Abandon() { f.cleanup() }
