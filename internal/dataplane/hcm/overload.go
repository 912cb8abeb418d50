package hcm

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
)

// overloaded answers a request that the proxy takes no more (stop_accepting_requests,
// OV-03); false if it takes this one. Nothing but the codec has looked at it.
func (s *Stream) overloaded() bool {
	o := s.cfg.Overload
	if o == nil || !o.StopRequests.Takes(s.w.Loop) {
		return false
	}
	s.w.Stats.Inc(s.cfg.Stats.RqOverloadClose)
	s.info.RequestID = s.req.GetID(header.XRequestID)
	s.info.Flags |= filter.FlagOverloadManagerTerminated
	s.chain.LocalReply(&filter.LocalReply{Status: 503, Body: "envoy overloaded", Details: "overload"})
	return true
}

// wait is how long to wait for what is waited for d when there is no overload
// (reduce_timeouts).
func (c *Conn) wait(k overload.Timer, d time.Duration) time.Duration {
	if c.cfg.Overload == nil {
		return d
	}
	return c.sv.W.Timeouts.Of(k, d)
}

// aging is the timer of a connection's age.
type aging struct {
	loop.Timer
	most time.Duration // max_connection_duration with its jitter; 0 in Drain
}

// aging makes the timer of the connection's age, if there is none.
func (c *Conn) aging(most time.Duration) *aging {
	if c.age == nil {
		c.age = &aging{}
		c.age.Init(c.sv.W.Loop, c.onAge)
	}
	c.age.most = most
	return c.age
}

// Rewait implements listener.Rewaiter: timers that run go by the levels that are in
// force now.
func (c *Conn) Rewait() {
	if c.closed || c.cfg.Overload == nil {
		return
	}
	t := c.sv.W.Timeouts
	again := func(k overload.Timer, d time.Duration, timer *loop.Timer) {
		if timer.Active() && d > 0 {
			timer.Set(t.Left(k, d, timer.Left()))
		}
	}
	if c.active == 0 {
		again(overload.ConnectionIdle, c.cfg.IdleTimeout, &c.idle)
	}
	if c.age != nil {
		again(overload.ConnectionMax, c.age.most, &c.age.Timer)
	}
	for s := c.first; s != nil; s = s.next {
		if s.flushing {
			again(overload.StreamFlush, s.flushTimeout(), &s.idle)
		} else {
			again(overload.StreamIdle, s.idleTimeout(), &s.idle)
		}
	}
}
