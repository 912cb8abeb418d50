package route

import (
	"errors"
	"fmt"
	"strings"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// retryOn are conditions of a retry (RT-36, RT-37).
type retryOn uint32

const (
	on5xx retryOn = 1 << iota
	onGatewayError
	onConnectFailure
	onRetriable4xx
	onRefusedStream
	onRetriableStatusCodes
	onRetriableHeaders
	onReset
	onResetBeforeRequest
	onRatelimited
	onHTTP3ConnectFailure
	onCancelled
	onDeadlineExceeded
	onInternal
	onResourceExhausted
	onUnavailable

	onGRPC = onCancelled | onDeadlineExceeded | onInternal | onResourceExhausted | onUnavailable
)

// httpCondition is a condition of retry_on and x-envoy-retry-on, or 0.
func httpCondition(s string) retryOn {
	switch s {
	case "5xx":
		return on5xx
	case "gateway-error":
		return onGatewayError
	case "connect-failure":
		return onConnectFailure
	case "retriable-4xx":
		return onRetriable4xx
	case "refused-stream":
		return onRefusedStream
	case "retriable-status-codes":
		return onRetriableStatusCodes
	case "retriable-headers":
		return onRetriableHeaders
	case "reset":
		return onReset
	case "reset-before-request":
		return onResetBeforeRequest
	case "envoy-ratelimited":
		return onRatelimited
	case "http3-post-connect-failure":
		return onHTTP3ConnectFailure
	}
	return 0
}

// grpcCondition is a condition of retry_on and x-envoy-retry-grpc-on, or 0.
func grpcCondition(s string) retryOn {
	switch s {
	case "cancelled":
		return onCancelled
	case "deadline-exceeded":
		return onDeadlineExceeded
	case "internal":
		return onInternal
	case "resource-exhausted":
		return onResourceExhausted
	case "unavailable":
		return onUnavailable
	}
	return 0
}

// parseRetryOn reads a list of conditions; those of the other kind, and unknown
// ones, are left out and make it not valid (RT-38).
func parseRetryOn(list string, condition func(string) retryOn) (on retryOn, valid bool) {
	valid = true
	for list != "" {
		var s string
		s, list, _ = strings.Cut(list, ",")
		if s == "" {
			continue
		}
		c := condition(strings.TrimSpace(s))
		on |= c
		valid = valid && c != 0
	}
	return on, valid
}

// ValidRetryOn tells whether every condition in x-envoy-retry-on, or of
// x-envoy-retry-grpc-on if grpc, is known; for strict_check_headers.
func ValidRetryOn(v string, grpc bool) bool {
	condition := httpCondition
	if grpc {
		condition = grpcCondition
	}
	_, valid := parseRetryOn(v, condition)
	return valid
}

// Defaults of retry policies.
const (
	defaultRetries         = 1
	defaultBackoff         = 25 * time.Millisecond
	defaultRateLimitedMost = 300 * time.Second
)

// RetryPolicy is a route's or virtual host's retry policy
// (config/route/v3/route_components.proto RetryPolicy). It is immutable.
type RetryPolicy struct {
	on          retryOn
	retries     uint32
	perTry      time.Duration
	perTryIdle  time.Duration
	codes       []uint32
	headers     []headerMatcher
	request     []headerMatcher
	base, most  time.Duration
	resets      []resetHeader
	mostLimited time.Duration
	env         *Env
}

// resetHeader tells in a response when a rate limit ends.
type resetHeader struct {
	name string
	unix bool // seconds since 1970, else seconds from now
}

func (b *builder) retryPolicy(path string, r *routev3.RetryPolicy) *RetryPolicy {
	b.only(path, r, "retry_on", "num_retries", "per_try_timeout", "per_try_idle_timeout", "retriable_status_codes",
		"retry_back_off", "rate_limited_retry_back_off", "retriable_headers", "retriable_request_headers")
	p := &RetryPolicy{retries: defaultRetries, base: defaultBackoff, most: 10 * defaultBackoff, env: b.env}
	http, _ := parseRetryOn(r.GetRetryOn(), httpCondition)
	grpc, _ := parseRetryOn(r.GetRetryOn(), grpcCondition)
	p.on = http | grpc
	if n := r.GetNumRetries(); n != nil {
		p.retries = n.GetValue()
	}
	p.perTry, _ = b.duration(path+".per_try_timeout", r.GetPerTryTimeout())
	p.perTryIdle, _ = b.duration(path+".per_try_idle_timeout", r.GetPerTryIdleTimeout())
	p.codes = r.GetRetriableStatusCodes()
	p.headers = b.headerMatchers(path+".retriable_headers", r.GetRetriableHeaders())
	p.request = b.headerMatchers(path+".retriable_request_headers", r.GetRetriableRequestHeaders())
	if f := r.GetRetryBackOff(); f != nil {
		b.backoff(path+".retry_back_off", f, p)
	}
	if f := r.GetRateLimitedRetryBackOff(); f != nil {
		b.rateLimited(path+".rate_limited_retry_back_off", f, p)
	}
	return p
}

func (b *builder) backoff(path string, f *routev3.RetryPolicy_RetryBackOff, p *RetryPolicy) {
	base, ok := b.duration(path+".base_interval", f.GetBaseInterval())
	if !ok || f.GetBaseInterval().AsDuration() <= 0 {
		b.fail(path+".base_interval", errors.New("it must be more than 0"))
		return
	}
	p.base = max(base, time.Millisecond)
	p.most = 10 * p.base
	if most, ok := b.duration(path+".max_interval", f.GetMaxInterval()); ok {
		if p.most = max(most, time.Millisecond); p.most < p.base {
			b.fail(path+".max_interval", errors.New("retry_policy.max_interval must greater than or equal to the base_interval"))
		}
	}
}

func (b *builder) rateLimited(path string, f *routev3.RetryPolicy_RateLimitedRetryBackOff, p *RetryPolicy) {
	p.mostLimited = defaultRateLimitedMost
	if most, ok := b.duration(path+".max_interval", f.GetMaxInterval()); ok {
		if most == 0 {
			b.fail(path+".max_interval", errors.New("it must be more than 0"))
		}
		p.mostLimited = most
	}
	if len(f.GetResetHeaders()) == 0 {
		b.fail(path+".reset_headers", errors.New("there is none: write at least one"))
	}
	for i, h := range f.GetResetHeaders() {
		if h.GetName() == "" || !validName(h.GetName()) {
			b.fail(index(path+".reset_headers", i)+".name", fmt.Errorf("%q is no header name", h.GetName()))
		}
		p.resets = append(p.resets, resetHeader{headerName(h.GetName()), h.GetFormat() == routev3.RetryPolicy_UNIX_TIMESTAMP})
	}
}

// Retries is how many retries the policy allows: 1 unless set.
func (p *RetryPolicy) Retries() uint32 { return p.retries }
