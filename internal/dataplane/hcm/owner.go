package hcm

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/router"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

var _ router.Host = (*Stream)(nil)

// Reset implements chain.Owner: the stream ends without (the rest of) a response.
func (s *Stream) Reset(details string) {
	if s.finished {
		return
	}
	s.setDetails(details)
	s.w.Stats.Inc(s.cfg.Stats.RqTxReset)
	s.w.Stats.Inc(s.cfg.Stats.RqRxReset) // as in Envoy, where the stream hears of its own reset
	s.codec.reset(s)
	s.finish()
}

// remoteReset is the client's reset, or what was made of its fault.
func (s *Stream) remoteReset(remote bool, details string) {
	if s.finished {
		return
	}
	if !s.headDone {
		s.req.Reset() // a head that cannot be read says nothing
	}
	if s.info.Details == "" || !s.respHead || s.upgraded {
		s.setDetails(details)
	}
	if remote || details == http2.DetailTooLarge || details == http2.DetailTooMany || details == http2.DetailUnderscore {
		s.info.Flags |= filter.FlagDownstreamRemoteReset // of heads that break a limit too, as Envoy says it
	} else {
		s.info.Flags |= filter.FlagDownstreamProtocolError
	}
	s.w.Stats.Inc(s.cfg.Stats.RqRxReset)
	s.finish()
}

// disconnected is the end of the connection below the stream.
func (s *Stream) disconnected(local bool) {
	if s.finished {
		return
	}
	if !s.responded {
		s.w.Stats.Inc(s.cfg.Stats.RqRxReset)
		if s.info.Flags&filter.FlagDownstreamProtocolError == 0 {
			s.info.Flags |= filter.FlagDownstreamConnectionTermination
			if !local {
				s.setDetails("downstream_remote_disconnect")
			} else {
				s.setDetails("downstream_local_disconnect")
			}
		}
	}
	s.finish()
}

// finish ends the stream, once (RQ-01).
func (s *Stream) finish() {
	if s.finished {
		return
	}
	s.finished = true
	s.chain.Dead()
	s.idle.Stop()
	s.headersT.Stop()
	s.requestT.Stop()
	s.maxT.Stop()
	if s.cancel != nil {
		s.cancel()
	}
	st, sh := s.cfg.Stats, s.w.Stats
	sh.GaugeAdd(st.RqActive, -1)
	now := s.w.Loop.Now()
	s.info.Timing.End = now
	sh.Record(st.RqTime, worker.Millis(now-s.info.Timing.Start))
	if s.upgrade {
		sh.GaugeAdd(st.CxUpgradesActive, -1)
	}
	s.chain.Complete()
	s.log()
	s.chain.Destroy()
	s.router.OnDestroy()
	s.c.unlink(s)
	if x := s.h2; x != nil {
		x.User = nil
		s.h2 = nil
	}
	s.w.Loop.AtEnd(s.freed())
}

// freed makes the stream available again when nobody on the stack uses it.
func (s *Stream) freed() func() {
	if s.free == nil {
		s.free = func() {
			s.gen++
			s.table, s.scope, s.entry = nil, nil, nil
			if cap(s.scopeKey) > keepScopeKey {
				s.scopeKey = nil
			}
			s.router.Forget()
			s.sv.recycle(s)
		}
	}
	return s.free
}

func (s *Stream) log() {
	if len(s.cfg.Logs) == 0 {
		return
	}
	c := &s.logCtx
	c.Req, c.Resp, c.RespTrailers, c.Info = &s.req, s.resp, s.chain.ResponseTrailers(), &s.info
	c.LogType, c.Now = "DownstreamEnd", s.w.Loop.Wall()
	s.cfg.Logs.Log(s.w.Log, c)
}

// flush waits for the client to take the rest of the response (HC-22).
func (s *Stream) flush() {
	s.flushing = true
	s.idle.Stop()
	if d := s.flushTimeout(); d > 0 {
		s.idle.Set(s.c.wait(overload.StreamFlush, d))
	}
}

func (s *Stream) flushTimeout() time.Duration {
	if s.entry != nil {
		if t := s.entry.Timeouts(); t.HasFlush {
			return t.Flush
		}
	}
	return s.cfg.FlushTimeout
}

func (s *Stream) onIdle() {
	if s.finished {
		return
	}
	sh := s.w.Stats
	if s.flushing {
		sh.Inc(s.cfg.Codecs.TxFlushTimeout)
		s.codec.reset(s)
		s.finish()
		return
	}
	sh.Inc(s.cfg.Stats.RqIdleTimeout)
	s.info.Flags |= filter.FlagStreamIdleTimeout
	status := 408
	if s.reqEnd {
		status = 504
	}
	s.timedOut(status, "stream timeout", "stream_idle_timeout")
}

// timedOut answers, or resets when an answer is on its way.
func (s *Stream) timedOut(status int, body, details string) {
	if s.respHead {
		s.Reset(details)
		return
	}
	s.router.Abandon()
	s.chain.LocalReply(&filter.LocalReply{Status: status, Body: body, Details: details})
}

func (s *Stream) onHeadersTimeout() {
	if s.begun {
		return
	}
	s.w.Stats.Inc(s.cfg.Stats.RqHeaderTimeout)
	s.early("request_header_timeout", "request header timeout")
}

func (s *Stream) onRequestTimeout() {
	if s.finished {
		return
	}
	s.w.Stats.Inc(s.cfg.Stats.RqTimeout)
	s.early("request_overall_timeout", "request timeout")
}

// early answers a request that is not complete with 408.
func (s *Stream) early(details, body string) {
	if !s.begun {
		s.req.Reset() // half a head says nothing
		if h := s.c.h1; h != nil && h.cur == s {
			h.cur, h.s, h.last = nil, s, true
		}
		s.begin()
	}
	s.timedOut(408, body, details)
}

func (s *Stream) onMaxDuration() {
	if s.finished {
		return
	}
	s.w.Stats.Inc(s.cfg.Stats.RqMaxDuration)
	status := 408
	if s.reqEnd {
		status = 504
	}
	if s.respHead {
		s.Reset("max_duration_timeout")
		return
	}
	s.router.Abandon()
	s.chain.LocalReply(&filter.LocalReply{Status: status, Body: "downstream duration timeout", Details: "max_duration_timeout", GRPCStatus: 4, GRPCSet: true})
}

// clientPaused tells the stream whether the client takes what it is sent.
func (s *Stream) clientPaused(pause bool) {
	if pause == s.clientOff || s.finished {
		return
	}
	s.clientOff = pause
	s.chain.Downstream(pause)
	s.router.Pause(pause)
}

// PauseRequest implements chain.Owner.
func (s *Stream) PauseRequest(pause bool) {
	if s.finished {
		return
	}
	if pause {
		s.reqPaused++
		if s.reqPaused == 1 {
			s.w.Stats.Inc(s.cfg.Stats.FlowPaused)
			s.codec.pause(s, true)
		}
		return
	}
	s.reqPaused--
	if s.reqPaused == 0 {
		s.w.Stats.Inc(s.cfg.Stats.FlowResumed)
		s.codec.pause(s, false)
	}
}

// PauseResponse implements chain.Owner.
func (s *Stream) PauseResponse(pause bool) { s.router.Pause(pause) }

// RequestHeaders implements chain.Owner.
func (s *Stream) RequestHeaders() *header.Map { return &s.req }

// RequestTrailers implements chain.Owner.
func (s *Stream) RequestTrailers() *header.Map { return &s.reqTrailers }

// Info implements chain.Owner.
func (s *Stream) Info() *filter.StreamInfo { return &s.info }

// Route implements chain.Owner.
func (s *Stream) Route() filter.Route {
	if e := s.Entry(); e != nil {
		return e
	}
	return nil
}

// ClearRouteCache implements chain.Owner.
func (s *Stream) ClearRouteCache() { s.resolved = false }

// Entry implements router.Host.
func (s *Stream) Entry() *route.Entry {
	if !s.resolved {
		s.resolve()
	}
	return s.entry
}

// RouteConfig implements chain.Owner.
func (s *Stream) RouteConfig(name string) any {
	if e := s.Entry(); e != nil {
		return e.FilterConfig(s.target, name)
	}
	return nil
}

// RouteConfigs implements chain.Owner.
func (s *Stream) RouteConfigs(name string, yield func(cfg any) bool) {
	if e := s.Entry(); e != nil {
		e.FilterConfigs(s.target, name, yield)
	}
}

// Post implements chain.Owner.
func (s *Stream) Post(f func()) {
	gen := s.gen
	s.w.Loop.Post(func() {
		if s.gen == gen && !s.finished {
			f()
		}
	})
}

// Go implements chain.Owner.
func (s *Stream) Go(work func(ctx context.Context) (done func())) {
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancel(s.sv.Context)
	}
	ctx := s.ctx
	gen := s.gen
	go func() {
		done := work(ctx)
		s.w.Loop.Post(func() {
			if s.gen == gen && !s.finished && done != nil {
				done()
			}
		})
	}()
}

// streamTimer is a timer that a filter asked for.
type streamTimer struct {
	t   loop.Timer
	off bool
}

// Stop implements filter.Timer.
func (t *streamTimer) Stop() {
	t.off = true
	t.t.Unlink() // it is not set again, and the time may be long
}

// After implements chain.Owner.
func (s *Stream) After(d time.Duration, f func()) filter.Timer {
	t := &streamTimer{}
	gen := s.gen
	t.t.Init(s.w.Loop, func() {
		if s.gen == gen && !s.finished && !t.off {
			f()
		}
	})
	t.t.Set(d)
	return t
}

// Now implements chain.Owner.
func (s *Stream) Now() time.Duration { return s.w.Loop.Now() }

// Random implements chain.Owner.
func (s *Stream) Random() uint64 { return s.w.Loop.Random() }

// Stats implements chain.Owner.
func (s *Stream) Stats() filter.Stats { return s.w.Counts }

// Logger implements chain.Owner.
func (s *Stream) Logger() *slog.Logger { return s.w.Loop.Logger() }

// Chain implements router.Host.
func (s *Stream) Chain() *chain.Chain { return &s.chain }

// Worker implements router.Host.
func (s *Stream) Worker() *worker.Worker { return s.w }

// Clusters implements router.Host.
func (s *Stream) Clusters() *pool.Set { return s.sv.Clusters }

// RouteContext implements router.Host.
func (s *Stream) RouteContext() *route.Context { return &s.rctx }

// Internal implements router.Host.
func (s *Stream) Internal() bool { return s.edge.Internal }

// DownstreamProtocol implements router.Host.
func (s *Stream) DownstreamProtocol() filter.Protocol { return s.info.Protocol }

// MatchUpstreamScheme implements router.Host.
func (s *Stream) MatchUpstreamScheme() bool { return s.cfg.MatchUpstream }

// RequestCases implements router.Host.
func (s *Stream) RequestCases() *http1.Cases {
	if h, ok := s.codec.(*serverH1); ok {
		return h.dec.Cases()
	}
	return nil
}

// SetResponseCases implements router.Host.
func (s *Stream) SetResponseCases(c *http1.Cases) { s.respCases = c }

// Router implements router.Host.
func (s *Stream) Router() *router.Filter { return &s.router }

// DownstreamPaused implements router.Host.
func (s *Stream) DownstreamPaused() bool { return s.clientOff }

// Panicked implements chain.Owner: the stream whose filter panicked fails, alone
// (OV-09).
func (s *Stream) Panicked(name string, v any) {
	s.w.Stats.Inc(s.cfg.Scope.Counter("filter_panic")) // not one of Envoy's: it is there once it has happened
	s.w.Loop.Logger().Error("a filter panicked; its stream fails", "filter", name, "panic", v, "stack", string(debug.Stack()))
	if s.finished {
		return
	}
	s.Reset("filter_panic")
}
