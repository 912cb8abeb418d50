package hcm

import (
	"context"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/edge"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/router"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// Stream is one exchange of a downstream connection. It is used again for
// others; gen tells its lives apart.
type Stream struct {
	sv    *Server
	w     *worker.Worker
	c     *Conn
	cfg   *Config
	codec codec
	h2    *http2.Stream
	gen   uint64
	// respCases is how the upstream wrote header names, to be kept.
	respCases *http1.Cases

	prev, next *Stream

	info        filter.StreamInfo
	req         header.Map
	reqTrailers header.Map
	resp        *header.Map
	chain       chain.Chain
	router      router.Filter
	edge        edge.Request
	edgeResp    edge.Response
	rctx        route.Context
	table       *route.Table
	scope       *route.Scope // that table is of, if routes are scoped
	scopeKey    []byte       // used again
	entry       *route.Entry
	resolved    bool
	rematching  bool // the route is matched again, with the same random number
	target      route.Target
	method      string

	clocked    bool // its times have begun
	begun      bool // it is counted
	headDone   bool // the request's head is complete
	reqEnd     bool
	respHead   bool
	responded  bool // the response's end went to the codec
	flushing   bool // waiting for the client to take it
	finished   bool
	upgrade    bool // the request asks for an upgrade
	upgraded   bool
	closeAfter bool
	streamOver bool // more is unsent than the watermark allows
	clientOff  bool // the response is paused
	reqPaused  int
	unread     int
	upgradeFor *Upgrade
	ctx        context.Context //nolint:containedctx // made when a filter needs one
	cancel     context.CancelFunc

	idle     loop.Timer
	headersT loop.Timer
	requestT loop.Timer
	maxT     loop.Timer
	logCtx   format.Context
	// Bound once, since binding a method allocates.
	free func()
}

func (s *Stream) init() {
	l := s.w.Loop
	s.router.Init(l)
	s.idle.Init(l, s.onIdle)
	s.headersT.Init(l, s.onHeadersTimeout)
	s.requestT.Init(l, s.onRequestTimeout)
	s.maxT.Init(l, s.onMaxDuration)
}

// prepare makes the stream ready to receive a head.
func (s *Stream) prepare(c *Conn, k codec) {
	s.c, s.cfg, s.codec, s.h2 = c, c.cfg, k, nil
	s.gen++
	s.req.Reset()
	s.reqTrailers.Reset()
	up := &s.info.Upstream
	attempted, names, ids := up.Attempted[:0], up.AttemptedNames[:0], up.AttemptedIDs[:0]
	s.info = filter.StreamInfo{} // in its place: with a field it would be made elsewhere and copied
	s.info.Connection = c.info
	if c.below != nil {
		c.below.Inherit(&s.info)
	}
	up.Attempted, up.AttemptedNames, up.AttemptedIDs = attempted, names, ids
	s.respCases = nil
	s.scope = nil
	s.resp, s.table, s.entry, s.resolved, s.target, s.method = nil, nil, nil, false, route.Target{}, ""
	s.headDone, s.rematching = false, false
	s.clocked, s.begun, s.reqEnd, s.respHead, s.responded, s.flushing, s.finished = false, false, false, false, false, false, false
	s.upgrade, s.upgraded, s.closeAfter, s.streamOver, s.clientOff = false, false, false, false, false
	s.reqPaused, s.unread, s.upgradeFor, s.ctx, s.cancel = 0, 0, nil, nil, nil
}

// giveBack returns a stream that never began.
func (s *Stream) giveBack() {
	s.headersT.Stop()
	s.requestT.Stop()
	s.gen++
	s.sv.recycle(s)
}

// clock starts the stream's time, with its first byte.
func (s *Stream) clock() {
	s.clocked = true
	s.info.Timing.Reset(s.w.Loop.Now())
	s.info.StartTime = s.w.Loop.Wall()
	if d := s.cfg.HeadersTimeout; d > 0 {
		s.headersT.Set(d)
	}
	if d := s.cfg.RequestTimeout; d > 0 {
		s.requestT.Set(d)
	}
}

// begin counts the stream, when its head is there.
func (s *Stream) begin() {
	c := s.c
	s.begun = true
	s.info.StreamID = s.w.StreamID()
	s.info.Protocol = s.codec.protocol()
	c.spoken = s.info.Protocol
	s.method = s.req.Method()
	st, sh := s.cfg.Stats, s.w.Stats
	sh.Inc(st.RqTotal)
	sh.GaugeAdd(st.RqActive, 1)
	if s.info.Protocol >= filter.HTTP2 {
		sh.Inc(st.RqHTTP2Total)
	} else {
		sh.Inc(st.RqHTTP1Total)
	}
	c.link(s)
	s.chain.Reset(s, s.bufferLimit())
	s.headersT.Stop()
	s.activity()
}

// bufferLimit is HF-08.
func (s *Stream) bufferLimit() int {
	if s.info.Protocol < filter.HTTP2 {
		return s.cfg.BufferLimit
	}
	if n := s.cfg.HTTP2.StreamWindow; n > 0 {
		return int(n)
	}
	return 16 << 20
}

// activity pushes the idle timeout back.
func (s *Stream) activity() {
	if d := s.idleTimeout(); d > 0 {
		s.idle.Set(s.c.wait(overload.StreamIdle, d))
	} else {
		s.idle.Stop() // the route may say that there is none
	}
}

func (s *Stream) idleTimeout() time.Duration {
	if s.entry != nil {
		if t := s.entry.Timeouts(); t.HasIdle {
			return t.Idle
		}
	}
	return s.cfg.StreamIdle
}

// requestHeaders handles the request's head (HC-01).
func (s *Stream) requestHeaders(end, upgrade bool) {
	s.reqEnd, s.headDone = end, true
	if end {
		s.requestComplete()
	}
	s.info.RequestHeadersBytes = uint64(s.req.Size())
	q := &s.edge
	*q = edge.Request{}
	q.Info, q.Protocol, q.TLS, q.Random = &s.info, s.info.Protocol, s.c.info.TLS != nil, s.w.Loop
	q.Upgrade = upgrade || s.method == methodConnect
	if h := s.c.h2; h != nil {
		q.RemoteText = h.remote // of many requests
	}
	if s.overloaded() {
		return
	}
	s.c.agentOf(&s.req)
	v := s.cfg.Rules.Request(&s.req, q)
	s.info.RequestID = s.req.GetID(header.XRequestID)
	if v.Status != 0 {
		s.refuse(&v)
		return
	}
	if q.Expect100 && !s.cfg.Proxy100 {
		s.answerExpect()
	}
	s.resolve()
	if q.ConnectPort != "" {
		s.req.SetIDBytes(header.Authority, append([]byte(s.req.Authority()), q.ConnectPort...))
	}
	if d := s.maxDuration(); d > 0 {
		s.maxT.Set(d)
	}
	s.activity()
	if (upgrade || s.method == methodConnect) && !s.allowUpgrade() {
		return
	}
	s.addFilters()
	switch {
	case s.c.h2 != nil && s.c.h2.conn.Telling():
		s.sv.put(s, end)
	case end && !upgrade && s.c.h1 != nil && s.w.Loop.Gathers():
		s.sv.gather(s)
	default:
		s.chain.DecodeHeaders(&s.req, end)
	}
}

// refuse answers a request that the rules refuse; no filter sees it.
func (s *Stream) refuse(v *edge.Verdict) {
	s.info.Flags |= v.Flag
	if v.Close {
		s.closeAfter = true
	}
	location := v.Location
	r := filter.LocalReply{Status: v.Status, Body: v.Body, Details: v.Details}
	if location != "" {
		r.Edit = func(h *header.Map) { h.Set("location", location) }
	}
	s.countRefusal(v)
	s.chain.LocalReply(&r)
}

func (s *Stream) countRefusal(v *edge.Verdict) {
	st := s.cfg.Stats
	switch v.Details {
	case "path_normalization_failed":
		if v.Location == "" {
			s.w.Stats.Inc(st.RqPathNormFailed)
		}
	case "absolute_path_rejected":
		s.w.Stats.Inc(st.RqNonRelative)
	}
	if v.Location != "" {
		s.w.Stats.Inc(st.RqRedirectedNorm)
	}
}

// answerExpect tells the client to go on (HC-16).
func (s *Stream) answerExpect() {
	m := &s.w.Scratch
	m.Reset()
	m.AddID(header.Status, "100")
	s.countStatus(100)
	s.codec.informational(s, m)
}

// methodConnect is the method of requests for tunnels.
const methodConnect = "CONNECT"

// allowUpgrade decides on an upgrade or a CONNECT; false after a local reply
// (HC-43, HC-45). A CONNECT that is not enabled and has no route is left to the router.
func (s *Stream) allowUpgrade() bool {
	kind := s.edge.UpgradeType
	up, known := s.cfg.Upgrades[kind]
	enabled := known && up.Enabled
	if s.entry != nil {
		if on, set := s.entry.Upgrade(kind); set {
			enabled = on
		}
	}
	if !enabled && s.entry == nil && s.method == methodConnect {
		return true
	}
	if !enabled {
		s.w.Stats.Inc(s.cfg.Stats.RqWsOnNonWs)
		s.closeAfter = true
		s.chain.LocalReply(&filter.LocalReply{Status: 403, Details: "upgrade_failed"})
		return false
	}
	s.upgrade = true
	s.w.Stats.Inc(s.cfg.Stats.CxUpgradesTotal) // as Envoy, whatever the upstream says to it
	s.w.Stats.GaugeAdd(s.cfg.Stats.CxUpgradesActive, 1)
	if known {
		s.upgradeFor = &up
	}
	return true
}

func (s *Stream) addFilters() {
	specs := s.cfg.Filters
	if s.upgradeFor != nil && s.upgradeFor.Filters != nil {
		specs = s.upgradeFor.Filters
	}
	s.chain.Grow(len(specs))
	for i := range specs {
		sp := &specs[i]
		off := sp.Disabled
		if s.entry != nil {
			if d, set := s.entry.FilterDisabledFor(s.target, sp.Name); set {
				off = d
			}
		}
		if off {
			continue
		}
		factory := sp.Factory(s.w.ID)
		if factory == nil {
			factory = missing
		}
		s.chain.Add(sp.Name, factory)
	}
	if s.entry != nil {
		if n, ok := s.entry.BufferLimit(); ok {
			s.chain.SetLimit(int(n))
		}
	}
}

// resolve matches the route.
func (s *Stream) resolve() {
	switch {
	case s.cfg.Scopes != nil:
		s.enterScope()
	case s.table == nil:
		s.table = s.cfg.Routes(s.w.ID)
	}
	s.resolved = true
	random := s.rctx.Random
	if !s.rematching {
		random = s.w.Loop.Random()
	}
	r := &s.rctx
	*r = route.Context{}
	r.Request, r.Info, r.Random, r.TLS, r.External = &s.req, &s.info, random, s.c.info.TLS != nil, !s.edge.Internal
	s.entry = nil
	if s.table != nil {
		s.entry = s.table.Match(&s.rctx)
	}
	if s.entry != nil {
		s.pickCluster()
		s.info.RouteName, s.info.VirtualHost = s.entry.Name(), s.entry.VirtualHost()
		s.info.RouteMetadata, s.info.VirtualHostMetadata = s.entry.Metadata(), s.entry.VirtualHostMetadata()
	}
}

// pickCluster takes the route's action as far as a cluster's name: it is part of
// the choice of a route.
func (s *Stream) pickCluster() {
	s.target = route.Target{}
	s.info.Cluster, s.info.ClusterStatName, s.info.ClusterMetadata = "", "", nil
	if s.entry.Kind() != route.Forward {
		return
	}
	s.target = s.entry.PickCluster(&s.rctx)
	if c := s.sv.Clusters.Cluster(s.target.Cluster); c != nil {
		s.info.Cluster = s.target.Cluster
		s.info.ClusterStatName, s.info.ClusterMetadata = c.Cfg.Config().GetAltStatName(), c.Cfg.Metadata()
	}
}

// Target implements router.Host.
func (s *Stream) Target() route.Target { return s.target }

func (s *Stream) maxDuration() time.Duration {
	if s.entry != nil {
		return s.entry.StreamDuration(&s.rctx, s.cfg.MaxStream)
	}
	return s.cfg.MaxStream
}

// requestData handles a part of the request's body.
func (s *Stream) requestData(b []byte, end bool) {
	if s.responded || s.finished {
		s.reqEnd = s.reqEnd || end // what comes after the response is nobody's
		return
	}
	s.info.BytesReceived += uint64(len(b))
	s.activity()
	if end {
		s.reqEnd = true
		s.requestComplete()
	}
	s.chain.DecodeData(b, end)
}

func (s *Stream) requestTrailers() {
	s.reqEnd = true
	if s.responded || s.finished {
		return
	}
	s.activity()
	s.requestComplete()
	s.chain.DecodeTrailers(&s.reqTrailers)
}

func (s *Stream) requestComplete() {
	s.requestT.Stop()
	s.info.Timing.LastRx = s.w.Loop.Now()
}

// malformed answers what the codec could not read.
func (s *Stream) malformed(status int, details string) {
	s.info.Flags |= filter.FlagDownstreamProtocolError
	s.closeAfter = true
	if s.respHead {
		s.Reset(details)
		return
	}
	if !s.headDone {
		s.req.Reset() // a head that cannot be read says nothing
	}
	s.chain.LocalReply(&filter.LocalReply{Status: status, Body: reasonOf(status), Details: details})
}

func (s *Stream) setDetails(d string) {
	if d != "" {
		s.info.Details = d
	}
}
