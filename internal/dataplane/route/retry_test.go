package route

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/filter/header"
)

// state begins with a request on a route with a retry policy, or without.
func state(t *testing.T, policy string, env *Env, headers ...string) (*RetryState, *Context) {
	t.Helper()
	if policy != "" {
		policy = ", retry_policy: {" + policy + "}"
	}
	tab := newTableIn(t, "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c"+policy+"}}]}]", env)
	c := context(request("h", "/", headers...))
	var s RetryState
	s.Init(tab.Match(c).Retry(), c)
	return &s, c
}

// cause is how an attempt ended.
type cause struct {
	reset ResetKind
	sent  bool
	head  string // a response's head if not ""
}

func (c cause) ask(s *RetryState) Decision {
	if c.head == "" {
		return s.OnReset(c.reset, c.sent)
	}
	var m header.Map
	addAll(&m, strings.Split(c.head, "|"))
	return s.OnHeaders(&m)
}

func causes() map[string]cause {
	return map[string]cause{
		"local-reset": {LocalReset, true, ""}, "remote-reset": {RemoteReset, true, ""}, "remote-refused": {RemoteRefused, true, ""},
		"local-refused": {LocalRefused, false, ""}, "connect": {RemoteConnectionFailure, false, ""}, "connect-local": {LocalConnectionFailure, false, ""},
		"connect-timeout": {ConnectionTimeout, false, ""}, "termination": {ConnectionTermination, true, ""},
		"overflow": {Overflow, false, ""}, "protocol": {ProtocolError, true, ""},
		"200": {head: ":status: 200"}, "409": {head: ":status: 409"}, "418": {head: ":status: 418"}, "500": {head: ":status: 500"},
		"501": {head: ":status: 501"}, "502": {head: ":status: 502"}, "503": {head: ":status: 503"}, "504": {head: ":status: 504"}, "505": {head: ":status: 505"},
		"ratelimited": {head: ":status: 503|x-envoy-ratelimited: true"}, "header": {head: ":status: 200|x-again: 1"},
		"grpc1": {head: ":status: 200|grpc-status: 1"}, "grpc4": {head: ":status: 200|grpc-status: 4"}, "grpc8": {head: ":status: 200|grpc-status: 8"},
		"grpc13": {head: ":status: 200|grpc-status: 13"}, "grpc14": {head: ":status: 200|grpc-status: 14"}, "grpc5": {head: ":status: 200|grpc-status: 5"},
	}
}

const (
	everyReset = "local-reset remote-reset remote-refused local-refused connect connect-local connect-timeout termination protocol "
	notSent    = "local-refused connect connect-local connect-timeout "
)

// retryMatrix is which causes each condition retries.
func retryMatrix() map[string]string {
	return map[string]string{
		"5xx":                    everyReset + "500 501 502 503 504 505",
		"gateway-error":          everyReset + "502 503 504",
		"reset":                  everyReset,
		"reset-before-request":   notSent,
		"connect-failure":        "connect connect-local connect-timeout",
		"refused-stream":         "remote-refused",
		"retriable-4xx":          "409",
		"retriable-status-codes": "418 501",
		"retriable-headers":      "header",
		"envoy-ratelimited":      "ratelimited",
		"cancelled":              "grpc1", "deadline-exceeded": "grpc4", "resource-exhausted": "grpc8", "internal": "grpc13", "unavailable": "grpc14",
		"http3-post-connect-failure": "",
		"bogus":                      "",
	}
}

// Proves RT-36, RT-37, RT-38.
func TestRetryMatrix(t *testing.T) {
	const rest = ", retriable_status_codes: [418, 501], retriable_headers: [{name: x-again}]"
	for condition, causeNames := range retryMatrix() {
		want := words(causeNames)
		grpc := slices.Contains([]string{"cancelled", "deadline-exceeded", "resource-exhausted", "internal", "unavailable"}, condition)
		byHeader := "x-envoy-retry-on: " + condition
		if grpc {
			byHeader = "x-envoy-retry-grpc-on: nope, " + condition
		}
		for name, c := range causes() {
			exp := No
			if slices.Contains(want, name) {
				exp = Retry
			}
			s, _ := state(t, "retry_on: 'bogus, "+condition+"'"+rest, testEnv())
			if got := c.ask(s); got != exp {
				t.Errorf("%s with policy %s: %d, want %d", name, condition, got, exp)
			}
			s, _ = state(t, "num_retries: 1"+rest, testEnv(), byHeader)
			if got := c.ask(s); got != exp {
				t.Errorf("%s with header %s: %d, want %d", name, condition, got, exp)
			}
		}
	}
	// Conditions of gRPC have a header of their own, and so have the others.
	for h, c := range map[string]string{"x-envoy-retry-on: unavailable": "grpc14", "x-envoy-retry-grpc-on: 5xx": "503"} {
		s, _ := state(t, "", testEnv(), h)
		if got := causes()[c].ask(s); got != No {
			t.Errorf("%s retries %s", h, c)
		}
	}
}

// Proves RT-36, RT-41. The results were measured with Envoy 1.40.
func TestRetryCounts(t *testing.T) {
	for _, tc := range []struct {
		policy  string
		headers []string
		cause   string
		want    string // the decisions until the first that is no retry
	}{
		{"retry_on: gateway-error, num_retries: 2", nil, "503", "RRL"},
		{"retry_on: gateway-error, num_retries: 2", nil, "500", "-"},
		{"retry_on: gateway-error, num_retries: 2", []string{"x-envoy-retry-on: 5xx"}, "500", "RRL"},
		{"retry_on: gateway-error, num_retries: 2", []string{"x-envoy-retry-on: 5xx", "x-envoy-max-retries: 1"}, "500", "RL"},
		{"retry_on: gateway-error, num_retries: 2", []string{"x-envoy-max-retries: 0"}, "503", "L"},
		{"retry_on: gateway-error, num_retries: 2", []string{"x-envoy-max-retries: bad"}, "503", "RRL"},
		{"retry_on: 5xx, num_retries: 0", nil, "503", "L"},
		{"retry_on: 5xx", nil, "503", "RL"},
		{"", []string{"x-envoy-max-retries: 3"}, "503", "-"},
		{"", []string{"x-envoy-retry-on: 5xx"}, "503", "RL"},
		{"", []string{"x-envoy-retry-on: bogus, 5xx"}, "503", "RL"},
		{"", []string{"x-envoy-retry-on: 5xx", "x-envoy-max-retries: 3"}, "503", "RRRL"},
		{"", []string{"x-envoy-retry-on: retriable-status-codes", "x-envoy-retriable-status-codes: 417, 418"}, "418", "RL"},
		{"", []string{"x-envoy-retry-on: retriable-headers", "x-envoy-retriable-header-names: x-q, X-Again"}, "header", "RL"},
		{"", []string{"x-envoy-retry-grpc-on: unavailable"}, "grpc14", "RL"},
		{"retry_on: 5xx, retriable_request_headers: [{name: x-yes}]", nil, "503", "-"},
		{"retry_on: 5xx, retriable_request_headers: [{name: x-no}, {name: x-yes}]", []string{"x-yes: 1"}, "503", "RL"},
		{"", nil, "503", "-"},
	} {
		s, c := state(t, tc.policy, testEnv(), tc.headers...)
		got := ""
		for {
			kept := s.Enabled()
			d := causes()[tc.cause].ask(s)
			got += map[Decision]string{No: "-", NoLimit: "L", Retry: "R"}[d]
			if d == Retry && !kept {
				t.Errorf("%s %q: a retry is asked for that was not expected", tc.policy, tc.headers)
			}
			if d != Retry {
				break
			}
		}
		if got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.policy, tc.headers, got, tc.want)
		}
		for n := range c.Request.All() {
			if strings.HasPrefix(n, "x-envoy") {
				t.Errorf("%s %q: %s is left", tc.policy, tc.headers, n)
			}
		}
	}
}

// Proves RT-36.
func TestRetryPolicyOfRouteOverVirtualHost(t *testing.T) {
	tab := newTable(t, `
virtual_hosts:
- name: v
  domains: ['*']
  retry_policy: {retry_on: 5xx, num_retries: 3}
  routes:
  - {match: {path: /own}, route: {cluster: c, retry_policy: {retry_on: reset, num_retries: 7}}}
  - {match: {path: /host}, route: {cluster: c}}
`)
	for path, want := range map[string]uint32{"/own": 7, "/host": 3} {
		if got := tab.Match(context(request("h", path))).Retry().Retries(); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}

// Partly proves RT-40.
func TestDisabledRetries(t *testing.T) {
	s, _ := state(t, "retry_on: 5xx", testEnv())
	if !s.Active() || !s.Enabled() {
		t.Fatal("retries are off from the start")
	}
	s.Disable()
	if s.Active() || s.Enabled() || causes()["503"].ask(s) != No || s.OnPerTryTimeout() != No {
		t.Error("retries go on")
	}
	s, _ = state(t, "retry_on: 5xx, num_retries: 0", testEnv())
	if !s.Active() || s.Enabled() {
		t.Error("with no retries left the policy counts, but the body need not be kept")
	}
}

func TestPerTryTimeout(t *testing.T) {
	for condition, want := range map[string]Decision{"5xx": Retry, "gateway-error": Retry, "reset": Retry, "connect-failure": No, "retriable-4xx": No} {
		s, _ := state(t, "retry_on: "+condition, testEnv())
		if got := s.OnPerTryTimeout(); got != want {
			t.Errorf("%s: %d, want %d", condition, got, want)
		}
	}
}

// Proves RT-39.
func TestBackoff(t *testing.T) {
	const most = ^uint64(0)
	for _, tc := range []struct {
		policy string
		bounds []int // in milliseconds, of the random times
	}{
		{"num_retries: 9", []int{25, 50, 100, 200, 250, 250}},
		{"retry_back_off: {base_interval: 0.1s}", []int{100, 200, 400, 800, 1000, 1000}},
		{"retry_back_off: {base_interval: 0.1s, max_interval: 0.15s}", []int{100, 150, 150}},
		{"retry_back_off: {base_interval: 0.0001s}", []int{1, 2, 4, 8, 10}},
		{"retry_back_off: {base_interval: 0.1s, max_interval: 0.1s}", []int{100, 100}},
	} {
		s, _ := state(t, "retry_on: 5xx, "+tc.policy, testEnv())
		for i, b := range tc.bounds {
			// The largest remainder is one less than the bound.
			low, high := *s, *s
			if d, _ := low.Backoff(0); d != 0 {
				t.Errorf("%s: at least %v before retry %d", tc.policy, d, i+1)
			}
			d, limited := high.Backoff(uint64(b) - 1)
			if want := time.Duration(b-1) * time.Millisecond; d != want || limited {
				t.Errorf("%s: at most %v before retry %d, want %v", tc.policy, d, i+1, want)
			}
			if d, _ = s.Backoff(uint64(b)); d != 0 {
				t.Errorf("%s: the bound before retry %d is more than %d ms", tc.policy, i+1, b)
			}
		}
		if d, _ := s.Backoff(most); d < 0 {
			t.Errorf("%s: %v", tc.policy, d)
		}
	}
}

// Proves RT-39.
func TestRateLimitedBackoff(t *testing.T) {
	env := testEnv()
	env.Wall = func() time.Time { return time.Unix(1000, 0) }
	const policy = "retry_on: 5xx, num_retries: 5, rate_limited_retry_back_off: {reset_headers: [{name: Retry-After}, {name: x-reset, format: UNIX_TIMESTAMP}]"
	for _, tc := range []struct {
		more, head string
		random     uint64
		want       time.Duration
		limited    bool
	}{
		{"", "retry-after: 10", 0, 10 * time.Second, true},
		{"", "retry-after: 10", 4999, 14999 * time.Millisecond, true},
		{"", "retry-after: 10", 5000, 10 * time.Second, true},
		{"", "retry-after: 300", 0, 300 * time.Second, true},
		{"", "retry-after: 301", 3, 3 * time.Millisecond, false},
		{"", "retry-after: 0", 3, 3 * time.Millisecond, false},
		{"", "retry-after: bad", 3, 3 * time.Millisecond, false},
		{"", "x-reset: 1007", 0, 7 * time.Second, true},
		{"", "x-reset: 999", 3, 3 * time.Millisecond, false},
		{"", "retry-after: 301|x-reset: 1007", 0, 7 * time.Second, true},
		{", max_interval: 5s", "retry-after: 6", 3, 3 * time.Millisecond, false},
		{", max_interval: 5s", "retry-after: 5", 0, 5 * time.Second, true},
		{"", "x: y", 3, 3 * time.Millisecond, false},
	} {
		s, _ := state(t, policy+tc.more+"}", env)
		if d := (cause{head: ":status: 503|" + tc.head}).ask(s); d != Retry {
			t.Fatalf("%s: no retry", tc.head)
		}
		if d, limited := s.Backoff(tc.random); d != tc.want || limited != tc.limited {
			t.Errorf("%s%s: %v %t, want %v %t", tc.head, tc.more, d, limited, tc.want, tc.limited)
		}
		// What one response says holds for one retry.
		causes()["503"].ask(s)
		if _, limited := s.Backoff(0); limited {
			t.Errorf("%s: the next retry waits for it too", tc.head)
		}
	}
}

// Proves RT-38.
func TestValidRetryOn(t *testing.T) {
	for _, tc := range []struct {
		v          string
		http, grpc bool
	}{
		{"5xx", true, false}, {"5xx, reset", true, false}, {"5xx,bogus", false, false}, {"cancelled,unavailable", false, true}, {"", true, true}, {"5xx,,reset", true, false},
	} {
		if http, grpc := ValidRetryOn(tc.v, false), ValidRetryOn(tc.v, true); http != tc.http || grpc != tc.grpc {
			t.Errorf("%q: %t %t", tc.v, http, grpc)
		}
	}
}
