package router

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// UpstreamLog is what is logged of attempts (Router.upstream_log and
// upstream_log_options); immutable.
type UpstreamLog struct {
	Logs accesslog.Logs
	// OnReady writes a line as well when an attempt has its connection.
	OnReady bool
	// Interval writes one that often while an attempt lasts; 0 never.
	Interval time.Duration
}

// attemptLog is what is known of one attempt by itself. A stream has it only if
// its router has an upstream log.
type attemptLog struct {
	u              *upstream
	cfg            *UpstreamLog
	head           header.Map // as it came, before the route changes it
	info           filter.StreamInfo
	ctx            format.Context
	began          time.Duration
	wall           time.Time
	sent, received uint64
	flags          filter.Flags
	open           bool
	periodic       loop.Timer
}

// openLog begins an attempt's line.
func (u *upstream) openLog() {
	f := u.f
	if len(f.cfg.UpstreamLog.Logs) == 0 {
		u.log = nil
		return
	}
	if f.attempt == nil {
		f.attempt = &attemptLog{u: u}
		f.attempt.periodic.Init(f.w.Loop, f.attempt.onInterval)
	}
	l := f.attempt
	u.log, l.cfg, l.open = l, &f.cfg.UpstreamLog, true
	l.began, l.wall = f.w.Loop.Now(), f.w.Loop.Wall()
	l.sent, l.received, l.flags = 0, 0, 0
	l.head.Reset()
	if l.cfg.Interval > 0 {
		l.periodic.Set(l.cfg.Interval)
	}
}

// ready is when the attempt has its connection.
func (l *attemptLog) ready() {
	if l != nil && l.cfg.OnReady {
		l.write("UpstreamPoolReady")
	}
}

// answered keeps the response's head.
func (l *attemptLog) answered(h *header.Map) {
	if l != nil {
		l.head.CopyFrom(h)
	}
}

// took counts what came of the response's body, gave what was sent of the
// request's.
func (l *attemptLog) took(n int) {
	if l != nil {
		l.received += uint64(n)
	}
}

func (l *attemptLog) gave(n int) {
	if l != nil {
		l.sent += uint64(n)
	}
}

// flag says why the attempt is about to be given up.
func (l *attemptLog) flag(flags filter.Flags) {
	if l != nil {
		l.flags |= flags
	}
}

func (l *attemptLog) onInterval() {
	l.write("UpstreamPeriodic")
	l.periodic.Set(l.cfg.Interval)
}

// end writes the attempt's line; further ends are none.
func (l *attemptLog) end(flags filter.Flags) {
	if l == nil || !l.open {
		return
	}
	l.open = false
	l.periodic.Stop()
	l.flags |= flags
	l.write("UpstreamEnd")
	l.info, l.ctx = filter.StreamInfo{}, format.Context{}
}

// write writes a line. It knows of the stream what the client's line would say
// now, but of times, bodies, flags and the outcome only the attempt's own.
func (l *attemptLog) write(kind string) {
	f := l.u.f
	l.u.tally()
	i := &l.info
	*i = *f.info
	i.StartTime, i.Timing = l.wall, l.timing()
	i.Protocol, i.ResponseCode, i.Details, i.Flags = i.Upstream.Protocol, l.head.Status(), "", l.flags
	i.BytesSent, i.BytesReceived = l.sent, l.received
	i.Attempts, i.RequestID = 0, ""
	l.ctx = format.Context{Req: f.head, Resp: &l.head, RespTrailers: &l.u.trailers, Info: i, LogType: kind, Now: f.w.Loop.Wall()}
	l.cfg.Logs.Log(f.w.Log, &l.ctx)
}

// timing are the instants between the attempt's beginning and now.
func (l *attemptLog) timing() filter.Timing {
	f := l.u.f
	var t filter.Timing
	t.Reset(l.began)
	s := &f.info.Timing
	t.FirstUpstream, t.LastUpstreamTx, t.FirstUpstrRx, t.LastUpstreamRx = s.FirstUpstream, s.LastUpstreamTx, s.FirstUpstrRx, s.LastUpstreamRx
	t.End = f.w.Loop.Now()
	return t
}
