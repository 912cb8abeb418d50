package router

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
)

// upstream is one attempt: the Receiver of its stream.
type upstream struct {
	f        *Filter
	waiter   pool.Waiter
	host     *cluster.Host
	stream   pool.Stream
	raw      *raw // of a tunnel that ends here; nil for most
	resp     header.Map
	trailers header.Map
	pending  bool // waiting for a connection
	sent     bool // the head is out
	gotHead  bool
	paused   bool
	awaits   bool          // what goes through the tunnel waits until it is granted
	waited   filter.Buffer // body that came while there was no connection
	waitEnd  bool
	wtrail   *header.Map
	filters  *upstreamChain // nil without upstream filters
	log      *attemptLog    // nil without an upstream log
	began    time.Duration
	// wireSent and wireReceived are what the stream's info knows of.
	wireSent, wireReceived uint64
}

// send begins an attempt.
func (f *Filter) send(h *cluster.Host) {
	u := &f.up
	u.host, u.stream, u.sent, u.gotHead, u.pending = h, nil, false, false, true
	ends := f.ends()
	u.awaits, u.raw = ends == nil && f.tunnel.waits(), nil
	u.began, u.wireSent, u.wireReceived = f.w.Loop.Now(), 0, 0
	u.resp.Reset()
	u.trailers.Reset()
	f.notice(h)
	u.openLog()
	if ends != nil {
		u.dial(h, ends)
		return
	}
	f.c.NewStream(h, f.protocol(), f.prio, f.transport(h), u)
}

// notice tells the stream's info of the host.
func (f *Filter) notice(h *cluster.Host) {
	a := h.Attributes()
	i := f.info
	i.HasUpstream = true
	up := &i.Upstream
	up.Host, up.HostName = h.Address(), h.Hostname()
	up.Metadata = a.Metadata
	up.Region, up.Zone, up.SubZone = a.Locality.Region, a.Locality.Zone, a.Locality.SubZone
	up.TransportFailure, up.PoolReady, up.PoolAnswered, up.ConnectionID, up.BodyStart = "", 0, false, 0, 0
	up.Attempted, up.AttemptedNames, up.AttemptedIDs = up.Attempted[:0], up.AttemptedNames[:0], up.AttemptedIDs[:0]
	up.ConnectStart, up.ConnectEnd, up.HandshakeEnd = 0, 0, 0
	up.Local, up.TLS, up.Protocol = filter.Address{}, nil, filter.NoProtocol
	t := &i.Timing
	t.FirstUpstream, t.LastUpstreamTx, t.FirstUpstrRx, t.LastUpstreamRx = -1, -1, -1, -1
}

func (f *Filter) protocol() pool.Protocol {
	o := f.c.Options()
	if o.UseDownstream {
		if f.host.DownstreamProtocol() >= filter.HTTP2 {
			return pool.HTTP2
		}
		return pool.HTTP1
	}
	return o.Protocol
}

func (f *Filter) transport(h *cluster.Host) (t pool.TransportOptions) {
	o := f.c.Options()
	if o.PerRequestTransport != nil {
		t = o.PerRequestTransport(f.head)
	}
	if o.ProxyHeaders != nil {
		t.Source = f.c.Source(h, f.info)
	}
	return t
}

// Cases implements pool.Receiver.
func (u *upstream) Cases() *http1.Cases { return u.f.host.RequestCases() }

// SetCases implements pool.Receiver.
func (u *upstream) SetCases(c *http1.Cases) { u.f.host.SetResponseCases(c) }

// Waiter implements pool.Receiver.
func (u *upstream) Waiter() *pool.Waiter { return &u.waiter }

// Headers implements pool.Receiver.
func (u *upstream) Headers() *header.Map { return &u.resp }

// Trailers implements pool.Receiver.
func (u *upstream) Trailers() *header.Map { return &u.trailers }

// Ready implements pool.Receiver: the request goes out.
func (u *upstream) Ready(s pool.Stream) {
	f := u.f
	now := f.w.Loop.Now()
	u.stream, u.pending, u.sent = s, false, true
	in := s.Info()
	up := &f.info.Upstream
	up.Local, up.ConnectionID, up.Protocol, up.TLS = in.Local, in.ID, in.Protocol, in.TLS
	up.ConnectStart, up.ConnectEnd, up.HandshakeEnd = in.ConnectStart, in.ConnectEnd, in.HandshakeEnd
	up.PoolReady, up.PoolAnswered = now-u.began, true
	// As in Envoy, of a stream's attempts only the last one is listed, and a host
	// without a connection was not attempted.
	up.Attempted = append(up.Attempted, up.Host)
	up.AttemptedNames = append(up.AttemptedNames, up.HostName)
	up.AttemptedIDs = append(up.AttemptedIDs, up.ConnectionID)
	u.log.ready()
	for _, c := range f.also.all() {
		f.w.Stats.Inc(c.Total)
	}
	f.info.Timing.FirstUpstream = now
	end := f.end && u.waited.Len() == 0 && u.wtrail == nil && f.trailers == nil
	if f.host.DownstreamPaused() {
		u.pause(true)
	}
	if f.host.MatchUpstreamScheme() {
		f.head.SetID(header.Scheme, map[bool]string{false: "http", true: "https"}[in.TLS != nil])
	}
	if name := u.host.Hostname(); f.entry.AutoHostRewrite() && name != "" {
		f.entry.SetHost(f.host.RouteContext(), name)
	}
	u.openFilters()
	if end {
		u.waitEnd = false // nothing else says it
	}
	u.emitHeaders(end)
	if u.stream != s {
		return
	}
	if !u.awaits {
		u.flushWaiting()
	}
	if f.end {
		f.info.Timing.LastUpstreamTx = now
		if f.final.PerTry > 0 {
			f.perTry.Set(f.final.PerTry)
		}
	}
	u.armIdle()
}

// flushWaiting sends what came while there was no connection.
func (u *upstream) flushWaiting() {
	s, trailers, end := u.stream, u.wtrail, u.waitEnd
	if u.waited.Len() > 0 || end && trailers == nil {
		u.emitData(u.waited.Bytes(), end && trailers == nil)
		u.waited.Reset()
	}
	u.waitEnd, u.wtrail = false, nil
	if trailers != nil && u.stream == s {
		u.emitTrailers(trailers)
	}
	if u.f.pausing && u.stream == s {
		u.f.pauseRequest(false)
	}
}

// data sends a part of the request's body, or keeps it until there is a
// connection.
func (u *upstream) data(b []byte, end bool) {
	if !u.sent {
		if u.pending || u.f.waiting {
			u.hold(b, end)
		}
		return
	}
	if u.awaits {
		u.hold(b, end)
		return
	}
	if end {
		u.f.info.Timing.LastUpstreamTx = u.f.w.Loop.Now()
	}
	u.armIdle()
	u.emitData(b, end)
}

// hold keeps what came while there is no connection. What is kept for retries
// anyway is not kept twice.
func (u *upstream) hold(b []byte, end bool) {
	u.waitEnd = u.waitEnd || end
	if u.f.waiting {
		return // the retry sends everything again
	}
	u.waited.Append(b)
	if limit := u.f.limit(); limit > 0 && u.waited.Len() > limit && !u.f.pausing {
		u.f.pauseRequest(true)
	}
}

func (f *Filter) pauseRequest(pause bool) {
	f.pausing = pause
	f.host.PauseRequest(pause)
}

func (u *upstream) sendTrailers(t *header.Map) {
	if !u.sent || u.awaits {
		u.wtrail = t
		return
	}
	u.f.info.Timing.LastUpstreamTx = u.f.w.Loop.Now()
	u.emitTrailers(t)
}

func (u *upstream) pause(pause bool) {
	if pause == u.paused || u.stream == nil {
		return
	}
	u.paused = pause
	st, s := u.f.c.Cfg.Stats, u.f.w.Stats
	if pause {
		s.Inc(st.UpstreamFlowControlPausedReadingTotal)
	} else {
		s.Inc(st.UpstreamFlowControlResumedReadingTotal)
	}
	u.stream.Pause(pause)
}

// cancel gives the attempt up.
func (u *upstream) cancel() {
	if u.pending {
		u.pending = false
		u.waiter.Cancel()
		if u.raw != nil {
			u.raw.Reset()
		}
	}
	if s := u.stream; s != nil {
		u.over()
		s.Reset()
	}
	u.waited.Reset()
	u.waitEnd, u.wtrail = false, nil
	u.log.end(0)
	u.closeFilters()
}

// tally tells the stream's info what the attempt has sent and received since it
// was told last.
func (u *upstream) tally() {
	if u.stream == nil {
		return
	}
	up := &u.f.info.Upstream
	sent, received := u.stream.Wire()
	up.WireSent += sent - u.wireSent
	up.WireReceived += received - u.wireReceived
	u.wireSent, u.wireReceived = sent, received
}

// over notes what the stream knows at its end and forgets it.
func (u *upstream) over() {
	u.tally()
	u.stream, u.paused = nil, false
	u.f.perTry.Stop()
	u.f.perTryIdle.Stop()
	if u.f.pausing {
		u.f.pauseRequest(false)
	}
}

// On1xx implements pool.Receiver.
func (u *upstream) On1xx() {
	u.f.charge(u.resp.Status(), nil)
	if u.filters != nil {
		u.filters.c.Encode1xx(&u.resp)
		return
	}
	u.f.host.Chain().Encode1xx(&u.resp)
}

// OnHeaders implements pool.Receiver.
func (u *upstream) OnHeaders(end bool) {
	u.f.info.Timing.FirstUpstrRx = u.f.w.Loop.Now()
	u.gotHead = true
	u.grant()
	u.log.answered(&u.resp)
	u.f.perTry.Stop()
	u.armIdle()
	if u.filters != nil {
		u.filters.c.EncodeHeaders(&u.resp, end)
		return
	}
	u.f.onHeaders(end)
}

// OnData implements pool.Receiver.
func (u *upstream) OnData(data []byte, end bool) {
	u.armIdle()
	u.log.took(len(data))
	if up := &u.f.info.Upstream; up.BodyStart == 0 {
		up.BodyStart = u.f.w.Loop.Now()
	}
	if u.filters != nil {
		u.filters.c.EncodeData(data, end)
		return
	}
	u.take(data, end)
}

// take hands a part of the response on.
func (u *upstream) take(data []byte, end bool) {
	if end {
		u.f.onEnd()
	}
	u.f.host.Chain().EncodeData(data, end)
}

// OnTrailers implements pool.Receiver.
func (u *upstream) OnTrailers() {
	if u.filters != nil {
		u.filters.c.EncodeTrailers(&u.trailers)
		return
	}
	u.takeTrailers(&u.trailers)
}

func (u *upstream) takeTrailers(t *header.Map) {
	u.f.onEnd()
	u.f.host.Chain().EncodeTrailers(t)
}

func (u *upstream) armIdle() {
	if d := u.f.final.PerTryIdle; d > 0 {
		u.f.perTryIdle.Set(d)
	}
}

// Failed implements pool.Receiver: there will be no connection.
func (u *upstream) Failed(why pool.Reset, failure string) {
	u.pending = false
	if why == pool.PendingOverflow {
		why, u.f.info.HasUpstream, u.f.info.UpstreamAsked = pool.Overflow, false, true
	}
	up := &u.f.info.Upstream
	up.PoolReady, up.PoolAnswered = u.f.w.Loop.Now()-u.began, true // as Envoy, when it answers
	u.failed(why, failure)
}

// failed ends the attempt before its response has come.
func (u *upstream) failed(why pool.Reset, failure string) {
	if u.f.done {
		return
	}
	u.f.info.Upstream.TransportFailure = failure
	u.log.end(resetFlag(why))
	u.f.onReset(why, failure)
}

// OnReset implements pool.Receiver.
func (u *upstream) OnReset(why pool.Reset, failure string) {
	if why == pool.RemoteReset {
		u.f.w.Stats.Inc(u.f.c.Cfg.Stats.UpstreamRqRxReset)
	}
	u.over()
	u.failed(why, failure)
}

// OnBlocked implements pool.Receiver.
func (u *upstream) OnBlocked() {
	if !u.f.pausing {
		u.f.pauseRequest(true)
	}
}

// OnDrained implements pool.Receiver.
func (u *upstream) OnDrained() {
	if u.f.pausing {
		u.f.pauseRequest(false)
	}
}
