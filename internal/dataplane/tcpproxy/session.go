package tcpproxy

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// Proxy is the filter as the last of a chain.
type Proxy struct{ Config *Config }

// Clusters is what a worker's User must offer.
type Clusters interface{ Clusters() *pool.Set }

// Open implements listener.Terminal.
func (p *Proxy) Open(w *listener.Worker, c *listener.Connection) listener.Session {
	s := &session{cfg: p.Config, w: w, c: c, d: c.Downstream(), info: c.Stream()}
	w.Stats.Inc(s.cfg.Stats.CxTotal)
	s.info.UpstreamAsked = true
	s.idle.Init(w.Loop, s.onIdle)
	s.age.Init(w.Loop, s.onAge)
	s.retry.Init(w.Loop, s.connect)
	if s.cfg.maxDuration > 0 {
		s.age.Set(s.cfg.age(w.Loop.Random()))
	}
	s.logs.start(s)
	s.d.Pause() // until there is somebody to take what comes
	s.paused = true
	s.begin()
	return s
}

// session is one downstream connection and its upstream one.
type session struct {
	cfg  *Config
	w    *listener.Worker
	c    *listener.Connection
	d    listener.Downstream
	info *filter.StreamInfo

	cl       *pool.Cluster
	criteria *subset.Criteria // of the route; nil without
	host     *cluster.Host    // tried last
	up       *pool.TCP
	open     bool // the upstream connection is
	served   bool // it was
	attempts int
	began    time.Duration // of the first attempt
	paused   bool          // reading from the client
	early    []byte        // received before there was an upstream connection
	downEnd  bool          // the client sends no more
	upEnd    bool          // the host sends no more
	downGone bool
	flushing bool
	read     stats.Latest // what was received last from the client

	idle, age, retry loop.Timer
	waiting          *waiting // for the cluster, or nil
	logs             sessionLogs
}

func (s *session) begin() {
	var name string
	name, s.criteria = s.cfg.pick(s.w.Loop.Random())
	s.cl = s.clusters().Cluster(name)
	if s.cl == nil {
		if !s.await(name) {
			s.noCluster()
		}
		return
	}
	s.found(name)
}

// found begins to connect to a cluster.
func (s *session) found(name string) {
	s.info.Cluster = name
	s.began = s.w.Loop.Now()
	s.addTLVs()
	s.connect()
}

func (s *session) clusters() *pool.Set {
	u, _ := s.w.User.(Clusters)
	return u.Clusters()
}

// Why there is no upstream connection, in %DOWNSTREAM_LOCAL_CLOSE_REASON%. The
// spelling is Envoy's.
const (
	connectFailed  = "tcp_initializion_failure:0"
	noneHealthy    = "tcp_initializion_failure:1"
	limitsExceeded = "tcp_initializion_failure:2"
	noRoute        = "tcp_initializion_failure:3"
)

// fail ends a connection that finds no upstream.
func (s *session) fail(flag filter.Flags, why string) {
	if s.cl != nil {
		s.answered()
	}
	s.info.Flags |= flag
	s.c.CloseReason(why)
	s.w.Loop.AtEnd(func() { s.d.Abort(false) })
}

// connect tries a host.
func (s *session) connect() {
	if s.downGone {
		return
	}
	host := s.pick()
	if host == nil {
		s.w.Stats.Inc(s.cl.Cfg.Stats.UpstreamCxNoneHealthy)
		s.fail(filter.FlagNoHealthyUpstream, noneHealthy)
		return
	}
	s.host = host
	t := s.cl.Dial(host, 0, s.info, s.upstream())
	if t == nil {
		return // a circuit breaker: OnFailed was called
	}
	s.up = t
	s.attempts++
	s.info.Attempts = s.attempts
	s.notice(host)
}

// notice tells the stream's info of the host.
func (s *session) notice(host *cluster.Host) {
	s.info.HasUpstream = true
	up, a := &s.info.Upstream, host.Attributes()
	up.Host, up.HostName, up.Metadata = host.Address(), host.Hostname(), a.Metadata
	up.Region, up.Zone, up.SubZone = a.Locality.Region, a.Locality.Zone, a.Locality.SubZone
	s.tried(host)
}

// tried adds a host to those that were tried.
func (s *session) tried(host *cluster.Host) {
	up := &s.info.Upstream
	up.Attempted = append(up.Attempted, host.Address())
	up.AttemptedNames = append(up.AttemptedNames, host.Hostname())
}

// answered notes how long it took to have an upstream connection, or none.
func (s *session) answered() {
	up := &s.info.Upstream
	up.PoolReady, up.PoolAnswered = s.w.Loop.Now()-s.began, true
}

// upstream is the session as its upstream connection's handler.
func (s *session) upstream() *upstream { return (*upstream)(s) }

type upstream session

// OnOpen implements pool.TCPHandler.
func (u *upstream) OnOpen() {
	s := (*session)(u)
	s.open, s.served = true, true
	in := s.up.Info()
	up := &s.info.Upstream
	up.Local, up.ConnectionID, up.TLS = in.Local, in.ID, in.TLS
	up.ConnectStart, up.ConnectEnd, up.HandshakeEnd = in.ConnectStart, in.ConnectEnd, in.HandshakeEnd
	up.AttemptedIDs = append(up.AttemptedIDs, in.ID)
	s.answered()
	s.logs.connected(s)
	s.activity()
	if len(s.early) > 0 {
		s.up.Conn().Write(s.early)
		s.early = nil
	}
	if s.downEnd {
		s.up.Conn().CloseWrite()
	}
	s.paused = false // without counting: there was no backlog
	s.d.Resume()
}

// OnFailed implements pool.TCPHandler.
func (u *upstream) OnFailed(why pool.Reset, failure string) {
	s := (*session)(u)
	s.up = nil
	s.info.Upstream.TransportFailure = failure
	if s.downGone {
		return
	}
	switch why {
	case pool.Overflow:
		s.fail(filter.FlagUpstreamOverflow, limitsExceeded)
		return
	case pool.PendingOverflow: // one of the attempts, at no host
		s.attempts++
		s.info.Attempts = s.attempts
		s.tried(s.host)
	default:
		s.info.Flags |= filter.FlagUpstreamConnectionFailure
	}
	if s.attempts >= s.cfg.attempts {
		s.w.Stats.Inc(s.cl.Cfg.Stats.UpstreamCxConnectAttemptsExceeded)
		s.fail(filter.FlagUpstreamRetryLimitExceeded, connectFailed)
		return
	}
	s.retry.Set(s.cfg.wait(s.attempts, s.w.Loop.Random()))
}

// OnData implements pool.TCPHandler.
func (u *upstream) OnData(data []byte) {
	s := (*session)(u)
	s.info.BytesSent += uint64(len(data))
	s.w.Stats.Add(s.cfg.Stats.CxTxTotal, uint64(len(data)))
	s.activity()
	if !s.downGone {
		s.d.WriteBody(data)
	}
}

// OnEnd implements pool.TCPHandler: the host ends its side.
func (u *upstream) OnEnd() {
	s := (*session)(u)
	s.upEnd = true
	if s.downGone {
		s.up.Close(true)
		return
	}
	s.d.CloseWrite()
	s.bothEnded()
}

// bothEnded closes when neither side sends any more.
func (s *session) bothEnded() {
	if s.upEnd && s.downEnd {
		s.d.Close(0)
		if s.up != nil {
			s.up.Close(false)
		}
	}
}

// OnBlocked implements pool.TCPHandler: the host does not keep up.
func (u *upstream) OnBlocked() { (*session)(u).pause(true) }

// OnDrained implements pool.TCPHandler.
func (u *upstream) OnDrained() { (*session)(u).pause(false) }

// OnClose implements pool.TCPHandler.
func (u *upstream) OnClose(why loop.Reason) {
	s := (*session)(u)
	s.up, s.open = nil, false
	if s.flushing {
		s.endFlush()
	}
	if s.downGone {
		return
	}
	if why == loop.RemoteReset {
		s.info.Flags |= filter.FlagUpstreamRemoteReset
		s.info.Upstream.DetectedClose, s.c.Info.Ending().Detected = filter.ClosedByRemoteReset, filter.ClosedByLocalReset
		s.d.Abort(true) // as the host did
		return
	}
	s.d.Close(0)
}

func (s *session) pause(pause bool) {
	if s.downGone || pause == s.paused {
		return
	}
	s.paused = pause
	if pause {
		s.w.Stats.Inc(s.cfg.Stats.FlowPaused)
		s.d.Pause()
		return
	}
	s.w.Stats.Inc(s.cfg.Stats.FlowResumed)
	s.d.Resume()
}

// BufferedGauge implements worker.Buffering.
func (s *session) BufferedGauge() stats.Gauge { return s.cfg.Stats.CxTxBuffered }

// OnData implements listener.Session.
func (s *session) OnData(data []byte) {
	s.info.BytesReceived += uint64(len(data))
	s.w.Stats.Add(s.cfg.Stats.CxRxTotal, uint64(len(data)))
	s.read.Set(s.w.Stats, s.cfg.Stats.CxRxBuffered, len(data))
	s.activity()
	if !s.open {
		s.early = append(s.early, data...)
		return
	}
	s.up.Conn().WriteBody(data)
}

// OnEnd implements listener.Session: the client ends its side.
func (s *session) OnEnd() {
	s.downEnd = true
	if s.open {
		s.up.Conn().CloseWrite()
	}
	s.bothEnded()
}

// OnBlocked implements listener.Session: the client does not keep up.
func (s *session) OnBlocked() {
	if s.up != nil {
		s.w.Stats.Inc(s.cl.Cfg.Stats.UpstreamFlowControlPausedReadingTotal)
		s.up.Conn().Pause()
	}
}

// OnDrained implements listener.Session.
func (s *session) OnDrained() {
	if s.up != nil {
		s.w.Stats.Inc(s.cl.Cfg.Stats.UpstreamFlowControlResumedReadingTotal)
		s.up.Conn().Resume()
	}
}

// OnClose implements listener.Session.
func (s *session) OnClose(why loop.Reason, _ error) {
	s.downGone = true
	s.read.Set(s.w.Stats, s.cfg.Stats.CxRxBuffered, 0)
	if why == loop.RemoteReset {
		s.c.Info.Ending().Detected = filter.ClosedByRemoteReset
	}
	s.stopWaiting()
	s.age.Unlink()
	s.retry.Unlink()
	if s.up != nil {
		s.closeUpstream(why)
	}
	if !s.flushing {
		s.idle.Unlink()
	}
	s.logs.end(s)
}

// closeUpstream ends the upstream connection after the client's; what the
// client sent is still delivered (NF-09).
func (s *session) closeUpstream(why loop.Reason) {
	if why == loop.RemoteReset {
		s.up.Conn().Abort(true) // as the client did
		return
	}
	if !s.open {
		s.up.Close(true)
		return
	}
	if s.up.Conn().Buffered() > 0 {
		s.flushing = true
		s.w.Stats.Inc(s.cfg.Stats.UpstreamFlushTotal)
		s.w.Stats.GaugeAdd(s.cfg.Stats.UpstreamFlush, 1)
		s.activity()
	}
	s.up.Close(false)
}

func (s *session) endFlush() {
	s.flushing = false
	s.idle.Unlink()
	s.w.Stats.GaugeAdd(s.cfg.Stats.UpstreamFlush, -1)
}

func (s *session) activity() {
	if s.cfg.idle > 0 {
		s.idle.Set(s.cfg.idle)
	}
}

func (s *session) onIdle() {
	s.w.Stats.Inc(s.cfg.Stats.IdleTimeout)
	if s.flushing {
		s.up.Close(true)
		return
	}
	s.end("tcp_session_idle_timeout")
}

func (s *session) onAge() {
	s.w.Stats.Inc(s.cfg.Stats.MaxDuration)
	s.info.Flags |= filter.FlagDurationTimeout
	s.end("max_connection_duration_reached")
}

// end closes both connections for a reason.
func (s *session) end(why string) {
	s.info.Upstream.LocalCloseReason = why
	s.c.CloseReason(why)
	s.d.Abort(false)
}
