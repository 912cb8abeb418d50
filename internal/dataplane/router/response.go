package router

import (
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// onHeaders is the response's head.
func (f *Filter) onHeaders(end bool) {
	u := &f.up
	status := u.resp.Status()
	if u.resp.HasID(header.XEnvoyImmediateHealthCheckFail) {
		f.c.Cfg.FailedByItself(u.host)
	}
	if f.tunnel != noTunnel && f.refuseTunnel(status) {
		return
	}
	if f.retry.Active() {
		switch d := f.retry.OnHeaders(&u.resp); f.mayRetry(d) {
		case route.Retry:
			f.retryHeaders(status, end)
			return
		case route.NoOverflow:
			f.info.Flags |= filter.FlagUpstreamOverflow
		case route.NoLimit:
			f.info.Flags |= filter.FlagUpstreamRetryLimitExceeded
		}
	}
	f.started, f.info.ResponseCode = true, status
	f.noStatus = !end && status == 200 && isGRPC(f.head) && !u.resp.HasID(header.GRPCStatus)
	f.chargeFinal(status)
	f.serviceTime()
	f.sayAttempts(&u.resp)
	f.info.Details, f.info.ResponseCode = "via_upstream", status
	f.finalizeResponse(&u.resp)
	if end {
		f.onEnd()
	}
	f.host.Chain().EncodeHeaders(&u.resp, end)
}

// sayAttempts tells the client how often the request was sent, if the route says
// so.
func (f *Filter) sayAttempts(h *header.Map) {
	if f.entry.IncludeResponseAttemptCount() {
		h.SetID(header.XEnvoyAttemptCount, strconv.Itoa(f.info.Attempts))
	}
}

// isGRPC reports whether a request is one of gRPC, by its content-type.
func isGRPC(h *header.Map) bool {
	rest, ok := strings.CutPrefix(h.GetID(header.ContentType), "application/grpc")
	return ok && (rest == "" || rest[0] == '+')
}

func (f *Filter) serviceTime() {
	if f.complete < 0 || f.cfg.SuppressEnvoyHeaders {
		return
	}
	ms := int64(worker.Millis(f.w.Loop.Now() - f.complete))
	f.up.resp.SetID(header.XEnvoyUpstreamServiceTime, f.w.Itoa(ms, &f.up.resp))
}

// onEnd is the end of the response, before it is handed on.
func (f *Filter) onEnd() {
	now := f.w.Loop.Now()
	f.info.Timing.LastUpstreamRx = now
	f.routeTimer.Stop()
	f.maxStream.Stop()
	f.releaseRetry()
	if !f.cfg.NoDynamicStats && f.complete >= 0 {
		ms := worker.Millis(now - f.complete)
		f.timed(&f.c.Cfg.Stats.Codes, ms)
		if f.alt != nil {
			f.timed(f.alt, ms)
		}
		for _, c := range f.also.all() {
			f.w.Stats.Record(c.Codes.Time(), ms)
		}
	}
	f.done = true
	u := &f.up
	if u.stream != nil {
		u.over()
	}
	u.log.end(0)
	u.closeFilters() // what is on its way through them is the last
}

func (f *Filter) timed(codes *cluster.Codes, ms uint64) {
	f.w.Stats.Record(codes.All.Time(), ms)
	f.w.Stats.Record(f.origin(codes).Time(), ms)
	if t := f.zone(codes, f.up.host); t != nil {
		f.w.Stats.Record(t.Time(), ms)
	}
}

// takeAlternative takes the name out of the request by which it is to be counted
// as well. Requests from outside of the mesh have none by now.
func (f *Filter) takeAlternative() {
	name, ok := f.head.LookupID(header.XEnvoyUpstreamAltStatName)
	if !ok {
		return
	}
	if !f.cfg.NoDynamicStats {
		f.alt = f.c.Cfg.Stats.Codes.Alternative(name)
	}
	f.head.DelID(header.XEnvoyUpstreamAltStatName)
}

func (f *Filter) origin(codes *cluster.Codes) *cluster.CodeTree {
	if f.host.Internal() {
		return &codes.Internal
	}
	return &codes.External
}

func (f *Filter) zone(codes *cluster.Codes, h *cluster.Host) *cluster.CodeTree {
	if f.cfg.Zone == "" || h == nil || h.Attributes().Locality.Zone == "" {
		return nil
	}
	return codes.Zone(f.cfg.Zone, h.Attributes().Locality.Zone)
}

// chargeFinal counts a response that goes to the client.
func (f *Filter) chargeFinal(status int) {
	h := f.up.host
	f.charge(status, h)
	if f.up.resp.GetID(header.XEnvoyUpstreamCanary) == "true" || h.Attributes().Canary {
		f.c.Cfg.Stats.Codes.Canary.Count(f.w.Stats, status)
		if f.alt != nil {
			f.alt.Canary.Count(f.w.Stats, status)
		}
	}
	if status < 500 {
		f.w.Stats.Inc(h.Stats.RqSuccess)
	}
}

// charge counts an outcome of a request to the cluster, and of a host's.
func (f *Filter) charge(status int, h *cluster.Host) {
	if h != nil && status >= 500 {
		f.w.Stats.Inc(h.Stats.RqError)
	}
	if f.cfg.NoDynamicStats {
		return
	}
	f.count(&f.c.Cfg.Stats.Codes, status, h)
	if f.alt != nil {
		f.count(f.alt, status, h)
	}
	for _, c := range f.also.all() {
		c.Codes.Count(f.w.Stats, status)
	}
}

func (f *Filter) count(codes *cluster.Codes, status int, h *cluster.Host) {
	f.tally(&codes.All, status)
	f.origin(codes).Count(f.w.Stats, status)
	if t := f.zone(codes, h); t != nil {
		t.Count(f.w.Stats, status)
	}
}

// tally counts a response of all of a cluster's, without its code if it is gRPC's and
// to be left to the statistics of that. As in Envoy, those of some of them have it.
func (f *Filter) tally(codes *cluster.CodeTree, status int) {
	if f.cfg.SuppressGRPCCodes && isGRPC(f.head) {
		f.w.Stats.Inc(codes.Completed())
		return
	}
	codes.Count(f.w.Stats, status)
}

// resetFlag is the response flag of a reset.
func resetFlag(why pool.Reset) filter.Flags {
	switch why {
	case pool.LocalReset, pool.LocalRefused:
		return filter.FlagLocalReset
	case pool.RemoteReset, pool.RemoteRefused:
		return filter.FlagUpstreamRemoteReset
	case pool.ConnectionTermination:
		return filter.FlagUpstreamConnectionTermination
	case pool.Overflow:
		return filter.FlagUpstreamOverflow
	case pool.ProtocolError:
		return filter.FlagUpstreamProtocolError
	}
	return filter.FlagUpstreamConnectionFailure
}

// onReset is the end of an attempt without (all of) its response.
func (f *Filter) onReset(why pool.Reset, failure string) {
	if f.done {
		return
	}
	if !f.started && f.retry.Active() {
		sent := f.up.sent && why != pool.LocalRefused // which took no head
		switch f.mayRetry(f.retry.OnReset(route.ResetKind(why), sent)) {
		case route.Retry:
			f.w.Stats.Inc(f.up.host.Stats.RqError)
			f.scheduleRetry()
			return
		case route.NoOverflow:
			f.info.Flags |= filter.FlagUpstreamOverflow
		case route.NoLimit:
			f.info.Flags |= filter.FlagUpstreamRetryLimitExceeded
		}
	}
	status := 503
	if why == pool.ProtocolError {
		status = 502
	}
	switch {
	case !f.started:
		f.charge(status, f.up.host)
	case f.noStatus:
		f.w.Stats.Inc(f.cfg.Stats.ResetAfterStart)
	}
	f.abort(status, resetFlag(why), f.resetBody(why), f.resetDetails(why, failure), why == pool.Overflow)
}

func (f *Filter) resetBody(why pool.Reset) string {
	latest := ""
	if f.retried {
		latest = "retried and the latest "
	}
	return "upstream connect error or disconnect/reset before headers. " + latest + "reset reason: " + why.String()
}

func (f *Filter) resetDetails(why pool.Reset, failure string) string {
	d := "upstream_reset_before_response_started{"
	if f.started {
		d = "upstream_reset_after_response_started{"
	}
	d += why.String()
	if failure != "" {
		d += "|" + failure
	}
	return strings.ReplaceAll(d+"}", " ", "_")
}

// abort ends the request with a local reply, or with a reset when a response
// is on its way (RT-46).
func (f *Filter) abort(status int, flag filter.Flags, body, details string, overloaded bool) {
	f.info.Flags |= flag
	f.cleanup()
	if f.started {
		f.host.Reset(details)
		return
	}
	r := filter.LocalReply{Status: status, Body: body, Details: details}
	r.Edit = func(h *header.Map) {
		if overloaded && !f.cfg.SuppressEnvoyHeaders {
			h.SetID(header.XEnvoyOverloaded, "true")
		}
		f.sayAttempts(h)
	}
	f.host.Chain().LocalReply(&r)
}
