package route

import (
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Decision is what to do with a failed attempt.
type Decision uint8

// The decisions.
const (
	// No: the outcome is no reason to retry.
	No Decision = iota
	// NoLimit: it is, but no retry is left (flag URX).
	NoLimit
	// NoOverflow: it is, but the circuit breaker does not let it (flag UO). A
	// RetryState never decides so; its caller does.
	NoOverflow
	// Retry after Backoff.
	Retry
)

// ResetKind is why an attempt ended without a response.
type ResetKind uint8

// The reasons (envoy/http/codec.h StreamResetReason).
const (
	LocalReset ResetKind = iota
	LocalRefused
	RemoteReset
	RemoteRefused
	LocalConnectionFailure
	RemoteConnectionFailure
	ConnectionTimeout
	ConnectionTermination
	Overflow
	ProtocolError
)

// RetryState decides on the retries of one request (RT-36 to RT-41). The zero
// value never retries. Confined to the request's worker.
type RetryState struct {
	policy  *RetryPolicy
	on      retryOn
	left    uint64
	active  bool
	request *header.Map
	codes   string        // of x-envoy-retriable-status-codes
	names   string        // of x-envoy-retriable-header-names
	next    time.Duration // the bound of the next backoff; 0: the policy's first
	limited time.Duration // when a rate limit ends, from now; 0: none
}

// Init begins with a request. The headers that control retries count beside the
// policy, which may be nil, and are removed from the request.
func (s *RetryState) Init(p *RetryPolicy, c *Context) {
	*s = RetryState{policy: p, left: defaultRetries, request: c.Request}
	m := c.Request
	if p != nil {
		s.on, s.left = p.on, uint64(p.retries)
	}
	v, http := m.LookupID(header.XEnvoyRetryOn)
	w, grpc := m.LookupID(header.XEnvoyRetryGRPCOn)
	if s.active = s.on != 0 || http || grpc; s.active {
		a, _ := parseRetryOn(v, httpCondition)
		b, _ := parseRetryOn(w, grpcCondition)
		s.on |= a | b
		if p != nil && len(p.request) > 0 && !anyHeader(p.request, m) {
			s.on = 0
		}
		if n, ok := parseUint(m.GetID(header.XEnvoyMaxRetries)); ok && s.on != 0 {
			s.left = n
		}
		s.codes, s.names = m.GetID(header.XEnvoyRetriableStatusCodes), m.GetID(header.XEnvoyRetriableHeaderNames)
	}
	m.DelID(header.XEnvoyRetryOn)
	m.DelID(header.XEnvoyRetryGRPCOn)
	m.DelID(header.XEnvoyMaxRetries)
	m.DelID(header.XEnvoyHedgeOnPerTryTimeout)
	m.DelID(header.XEnvoyRetriableHeaderNames)
	m.DelID(header.XEnvoyRetriableStatusCodes)
	m.DelID(header.XEnvoyUpstreamRQPerTryTimeoutMS)
}

func anyHeader(ms []headerMatcher, m *header.Map) bool {
	for i := range ms {
		if ms[i].match(m) {
			return true
		}
	}
	return false
}

// Enabled tells whether a retry may still happen, so that the request must be
// kept.
func (s *RetryState) Enabled() bool { return s.active && s.on != 0 && s.left > 0 }

// Active tells whether outcomes are to be asked about, even if no retry is left.
func (s *RetryState) Active() bool { return s.active }

// Disable ends all retrying: the request is no longer there.
func (s *RetryState) Disable() { s.active = false }

// OnHeaders decides on a response's head. A response with trailers is judged
// by its head alone.
func (s *RetryState) OnHeaders(resp *header.Map) Decision {
	if !s.active || !s.retriable(resp) {
		return No
	}
	s.limited = s.rateLimit(resp)
	return s.take()
}

func (s *RetryState) retriable(resp *header.Map) bool {
	if resp.HasID(header.XEnvoyRatelimited) {
		return s.on&onRatelimited != 0
	}
	status := resp.Status()
	switch {
	case s.on&on5xx != 0 && status >= 500 && status < 600,
		s.on&onGatewayError != 0 && status >= 502 && status <= 504,
		s.on&onRetriable4xx != 0 && status == 409,
		s.on&onRetriableStatusCodes != 0 && s.hasCode(status),
		s.on&onRetriableHeaders != 0 && s.hasHeader(resp):
		return true
	}
	return s.on&onGRPC != 0 && s.on&grpcOutcome(resp) != 0
}

func (s *RetryState) hasCode(status int) bool {
	if s.policy != nil {
		for _, c := range s.policy.codes {
			if int(c) == status {
				return true
			}
		}
	}
	for list := s.codes; list != ""; {
		var c string
		c, list, _ = strings.Cut(list, ",")
		if n, ok := parseUint(c); ok && n == uint64(status) {
			return true
		}
	}
	return false
}

func (s *RetryState) hasHeader(resp *header.Map) bool {
	if s.policy != nil && anyHeader(s.policy.headers, resp) {
		return true
	}
	for list := s.names; list != ""; {
		var n string
		n, list, _ = strings.Cut(list, ",")
		if n = headerName(strings.TrimSpace(n)); n != "" && resp.Has(n) {
			return true
		}
	}
	return false
}

// grpcOutcome is the condition that a grpc-status fulfils, or 0.
func grpcOutcome(resp *header.Map) retryOn {
	switch resp.GetID(header.GRPCStatus) {
	case "1":
		return onCancelled
	case "4":
		return onDeadlineExceeded
	case "13":
		return onInternal
	case "8":
		return onResourceExhausted
	case "14":
		return onUnavailable
	}
	return 0
}

// OnReset decides on an attempt that ended without a response; requestSent
// tells whether any of it had been sent.
func (s *RetryState) OnReset(kind ResetKind, requestSent bool) Decision {
	if !s.active || kind == Overflow {
		return No
	}
	connect := kind == LocalConnectionFailure || kind == RemoteConnectionFailure || kind == ConnectionTimeout
	switch {
	case s.on&(onReset|on5xx|onGatewayError) != 0,
		s.on&onResetBeforeRequest != 0 && !requestSent,
		s.on&onRefusedStream != 0 && kind == RemoteRefused,
		s.on&onConnectFailure != 0 && connect:
		return s.take()
	}
	return No
}

// OnPerTryTimeout decides on an attempt that took too long.
func (s *RetryState) OnPerTryTimeout() Decision { return s.OnReset(LocalReset, true) }

// take uses up a retry.
func (s *RetryState) take() Decision {
	if s.left == 0 {
		return NoLimit
	}
	s.left--
	return Retry
}

// rateLimit is how long the first header that tells it, and is not too long,
// says to wait.
func (s *RetryState) rateLimit(resp *header.Map) time.Duration {
	if s.policy == nil {
		return 0
	}
	for i := range s.policy.resets {
		h := &s.policy.resets[i]
		n, ok := parseInt(resp.Get(h.name))
		if !ok || n < 0 {
			continue
		}
		if h.unix {
			if n -= s.policy.env.now().Unix(); n < 0 {
				continue
			}
		}
		if n <= int64(s.policy.mostLimited/time.Second) {
			return time.Duration(n) * time.Second
		}
	}
	return 0
}

// Backoff is the time before the retry that was just decided: a random part of
// a bound that starts at the base interval and doubles up to its maximum, or
// what a rate limit says and up to half as much again (RT-39).
func (s *RetryState) Backoff(rnd uint64) (d time.Duration, rateLimited bool) {
	if l := s.limited; l > time.Millisecond {
		s.limited = 0
		ms := uint64(l / time.Millisecond)
		return time.Duration(ms+rnd%(ms/2)) * time.Millisecond, true
	}
	base, most := defaultBackoff, 10*defaultBackoff
	if s.policy != nil {
		base, most = s.policy.base, s.policy.most
	}
	bound := s.next
	if bound == 0 {
		bound = min(base, most)
	}
	s.next = min(2*bound, most)
	return time.Duration(rnd%uint64(bound/time.Millisecond)) * time.Millisecond, false
}
