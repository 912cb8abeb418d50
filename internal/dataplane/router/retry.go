package router

import (
	"strconv"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// mayRetry applies the cluster's limits to what the policy decided (RT-43).
func (f *Filter) mayRetry(d route.Decision) route.Decision {
	s, st := f.w.Stats, f.c.Cfg.Stats
	if f.held != nil && d == route.No {
		s.Inc(st.UpstreamRqRetrySuccess)
		for _, c := range f.also.all() {
			s.Inc(c.RetrySuccess)
		}
	}
	f.releaseRetry()
	switch d {
	case route.NoLimit:
		s.Inc(st.UpstreamRqRetryLimitExceeded)
		for _, c := range f.also.all() {
			s.Inc(c.RetryLimit)
		}
	case route.Retry:
		if !f.c.Cfg.Breaker(f.prio).TryRetry() {
			s.Inc(st.UpstreamRqRetryOverflow)
			for _, c := range f.also.all() {
				s.Inc(c.RetryOverflow)
			}
			return route.NoOverflow
		}
		if !f.c.Cfg.MayRetry(f.w.Loop.Random()) {
			f.c.Cfg.Breaker(f.prio).ReleaseRetry()
			return route.No
		}
		f.held = f.c.Cfg.Breaker(f.prio)
	}
	return d
}

// releaseRetry gives the retry's place in the breaker back.
func (f *Filter) releaseRetry() {
	if f.held != nil {
		f.held.ReleaseRetry()
		f.held = nil
	}
}

// retryHeaders drops a response for another try.
func (f *Filter) retryHeaders(status int, end bool) {
	u := &f.up
	f.tally(&f.c.Cfg.Stats.Codes.Retry, status)
	if status >= 500 {
		f.w.Stats.Inc(u.host.Stats.RqError)
	}
	if s := u.stream; s != nil {
		u.over()
		if !end || !f.end {
			s.Reset()
		}
	}
	u.log.end(0)
	f.scheduleRetry()
}

// scheduleRetry waits for the time of the next try.
func (f *Filter) scheduleRetry() {
	f.waiting = true
	f.up.sent, f.up.pending = false, false
	f.up.closeFilters()
	d, limited := f.retry.Backoff(f.w.Loop.Random())
	f.limited = limited
	f.backoff.Set(d)
}

// onBackoff sends the request again.
func (f *Filter) onBackoff() {
	if f.done {
		return
	}
	f.waiting, f.retried = false, true
	if c := f.host.Clusters().Cluster(f.target.Cluster); c != nil {
		f.c = c // which may have been replaced meanwhile
	}
	s, st := f.w.Stats, f.c.Cfg.Stats
	s.Inc(st.UpstreamRqRetry)
	for _, c := range f.also.all() {
		s.Inc(c.Retry)
	}
	if f.limited {
		s.Inc(st.UpstreamRqRetryBackoffRatelimited)
	} else {
		s.Inc(st.UpstreamRqRetryBackoffExponential)
	}
	f.info.Attempts++
	h := f.pick()
	if h == nil {
		f.cleanup()
		f.noHost()
		return
	}
	if f.entry.IncludeRequestAttemptCount() {
		f.head.SetID(header.XEnvoyAttemptCount, strconv.Itoa(f.info.Attempts))
	}
	if f.complete >= 0 {
		f.entry.TellTimeouts(f.host.RouteContext(), &f.final, f.w.Loop.Now()-f.complete)
	}
	u := &f.up
	u.waited.Reset()
	u.waited.Append(f.kept.Bytes())
	u.waitEnd, u.wtrail = f.end, f.trailers
	f.send(h)
}

func (f *Filter) onRouteTimeout() {
	if f.done {
		return
	}
	u := &f.up
	st := f.c.Cfg.Stats
	if u.pending || u.stream != nil {
		f.w.Stats.Inc(st.UpstreamRqTimeout)
		for _, c := range f.also.all() {
			f.w.Stats.Inc(c.Timeout)
		}
		f.w.Stats.Inc(u.host.Stats.RqTimeout)
		if !u.gotHead {
			f.charge(f.timeoutStatus(), u.host)
			if f.timeoutStatus() < 500 {
				f.w.Stats.Inc(u.host.Stats.RqError)
			}
		}
	}
	f.abortTimeout(filter.FlagUpstreamRequestTimeout, "response_timeout")
}

// timeoutStatus is 504, or 204 if the request asks for it (RT-35).
func (f *Filter) timeoutStatus() int {
	if f.final.AltResponse {
		return 204
	}
	return 504
}

func (f *Filter) abortTimeout(flag filter.Flags, details string) {
	body := "upstream request timeout"
	status := f.timeoutStatus()
	if status != 504 {
		body = ""
	}
	f.abort(status, flag, body, details, false)
}

func (f *Filter) onPerTryTimeout() {
	f.w.Stats.Inc(f.c.Cfg.Stats.UpstreamRqPerTryTimeout)
	f.tryTimeout("upstream_per_try_timeout", filter.FlagUpstreamRequestTimeout)
}

func (f *Filter) onPerTryIdle() {
	f.w.Stats.Inc(f.c.Cfg.Stats.UpstreamRqPerTryIdleTimeout)
	f.tryTimeout("upstream_per_try_idle_timeout", filter.FlagStreamIdleTimeout)
}

// tryTimeout ends an attempt that took too long, for which the upstream log has a
// flag of its own.
func (f *Filter) tryTimeout(details string, logged filter.Flags) {
	u := &f.up
	if f.done || u.stream == nil && !u.pending {
		return
	}
	f.w.Stats.Inc(u.host.Stats.RqTimeout)
	u.log.flag(logged)
	u.cancel()
	f.info.Flags |= filter.FlagUpstreamRequestTimeout
	if !f.started && f.retry.Active() {
		switch f.mayRetry(f.retry.OnPerTryTimeout()) {
		case route.Retry:
			f.w.Stats.Inc(u.host.Stats.RqError)
			f.info.Flags &^= filter.FlagUpstreamRequestTimeout
			f.scheduleRetry()
			return
		case route.NoOverflow:
			f.info.Flags |= filter.FlagUpstreamOverflow
		case route.NoLimit:
			f.info.Flags |= filter.FlagUpstreamRetryLimitExceeded
		}
	}
	if !f.started {
		f.charge(f.timeoutStatus(), u.host)
	}
	f.abortTimeout(filter.FlagUpstreamRequestTimeout, details)
}

// onMaxStream is the end of the cluster's max_stream_duration.
func (f *Filter) onMaxStream() {
	if f.done {
		return
	}
	f.w.Stats.Inc(f.c.Cfg.Stats.UpstreamRqMaxDurationReached)
	f.up.cancel()
	f.abort(f.timeoutStatus(), filter.FlagUpstreamMaxStreamDurationReached, "upstream max stream duration reached", "upstream_max_stream_duration_reached", false)
}

// invalidHeader is the first strictly checked header with a bad value, or "".
func (f *Filter) invalidHeader(*route.Context) string {
	for _, name := range f.cfg.StrictChecks {
		v, ok := f.head.Lookup(name)
		if !ok {
			continue
		}
		switch name {
		case "x-envoy-retry-on", "x-envoy-retry-grpc-on":
			if !route.ValidRetryOn(v, name == "x-envoy-retry-grpc-on") {
				return name
			}
		default:
			if _, err := strconv.ParseUint(v, 10, 32); err != nil {
				return name
			}
		}
	}
	return ""
}
