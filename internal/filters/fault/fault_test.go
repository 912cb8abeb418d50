package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/filters/fault"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
)

// runtime is a runtime for tests: percentages and whole numbers by key.
type runtime map[string]uint64

func (r runtime) env(s *filtertest.Stats) *filter.Env {
	return &filter.Env{
		Stats:           s,
		RuntimeFraction: func(key string) (uint32, uint32, bool) { n, ok := r[key]; return uint32(n), 100, ok }, //nolint:gosec // small
		RuntimeInteger:  func(key string) (uint64, bool) { n, ok := r[key]; return n, ok },
	}
}

func start(t *testing.T, json string, r runtime) *filtertest.Stream {
	t.Helper()
	s := &filtertest.Stream{Log: func(string, ...any) {}}
	f := filtertest.HTTP(t, fault.Type(), json, r.env(&s.Counts))
	s.Start(1<<20, filtertest.Filter{Name: "chaos", New: f})
	return s
}

func fields(head string) []string {
	out := []string{":path", "/"}
	for f := range strings.SplitSeq(head, "; ") {
		if n, v, ok := strings.Cut(f, ": "); ok {
			out = append(out, n, v)
		}
	}
	return out
}

// always is a percentage.
const always = `"percentage":{"numerator":100}`

const (
	passes  = "passes"
	aborted = "418 fault filter abort"
)

// Proves HF-20: what Envoy 1.40 does with each request.
func TestAborts(t *testing.T) {
	code, grpc, byHead := `"abort":{"http_status":418,`+always+`}`, `"abort":{"grpc_status":5,`+always+`}`, `"abort":{"header_abort":{},`+always+`}`
	never := `"abort":{"http_status":418}`
	tests := []struct {
		name, config, head string
		runtime            runtime
		want               string
	}{
		{"status", code, "", nil, aborted},
		{"gRPC status", grpc, "", nil, "200 fault filter abort grpc 5"},
		{"a body", `"abort":{"http_status":418,"response_body":"custom %REQ(:path)%",` + always + `}`, "", nil, "418 custom %REQ(:path)%"},
		{"no share", never, "", nil, passes},
		{"no abort", ``, "", nil, passes},
		{"headers: none", byHead, "", nil, passes},
		{"headers: status", byHead, "x-envoy-fault-abort-request: 429", nil, "429 fault filter abort"},
		{"headers: no status", byHead, "x-envoy-fault-abort-request: 600", nil, passes},
		{"headers: no number", byHead, "x-envoy-fault-abort-request: x", nil, passes},
		{"headers: no share", byHead, "x-envoy-fault-abort-request: 429; x-envoy-fault-abort-request-percentage: 0", nil, passes},
		{"headers: no more than the share", `"abort":{"header_abort":{}}`, "x-envoy-fault-abort-request: 429; x-envoy-fault-abort-request-percentage: 100", nil, passes},
		{"headers: gRPC status", byHead, "x-envoy-fault-abort-grpc-request: 7", nil, "200 fault filter abort grpc 7"},
		{"headers: bad status, gRPC status", byHead, "x-envoy-fault-abort-request: 199; x-envoy-fault-abort-grpc-request: 77", nil, "200 fault filter abort grpc 77"},
		{"headers are for header_abort", code, "x-envoy-fault-abort-request: 429; x-envoy-fault-abort-request-percentage: 0", nil, aborted},
		{"matching header", code + `,"headers":[{"name":"x-f","string_match":{"exact":"1"}}]`, "x-f: 1", nil, aborted},
		{"other header", code + `,"headers":[{"name":"x-f","string_match":{"exact":"1"}}]`, "x-f: 2", nil, passes},
		{"this cluster", code + `,"upstream_cluster":"up"`, "", nil, aborted},
		{"another cluster", code + `,"upstream_cluster":"other"`, "", nil, passes},
		{"this node", code + `,"downstream_nodes":["n1"]`, "x-envoy-downstream-service-node: n1", nil, aborted},
		{"another node", code + `,"downstream_nodes":["n1"]`, "x-envoy-downstream-service-node: n2", nil, passes},
		{"no node", code + `,"downstream_nodes":["n1"]`, "", nil, passes},
		{"runtime share", never, "", runtime{"fault.http.abort.abort_percent": 100}, aborted},
		{"runtime, no share", code, "", runtime{"fault.http.abort.abort_percent": 0}, passes},
		{"runtime status", code, "", runtime{"fault.http.abort.http_status": 444}, "444 fault filter abort"},
		{"runtime status that is none", code, "", runtime{"fault.http.abort.http_status": 77}, aborted},
		{"runtime gRPC status", grpc, "", runtime{"fault.http.abort.grpc_status": 3}, "200 fault filter abort grpc 3"},
		{"runtime gRPC status for a status", code, "", runtime{"fault.http.abort.grpc_status": 3}, aborted},
		{"runtime keys of its own", `"abort":{"http_status":418},"abort_percent_runtime":"p","abort_http_status_runtime":"s"`, "", runtime{"p": 100, "s": 445}, "445 fault filter abort"},
		{"runtime, peer's share", never, "x-envoy-downstream-service-cluster: dc", runtime{"fault.http.dc.abort.abort_percent": 100}, aborted},
		{"runtime, peer's status", code, "x-envoy-downstream-service-cluster: dc", runtime{"fault.http.dc.abort.http_status": 455}, "455 fault filter abort"},
		{"runtime, not the peer's status", code, "x-envoy-downstream-service-cluster: dc", runtime{"fault.http.abort.http_status": 444}, aborted},
		{"too many faults", code + `,"max_active_faults":0`, "", nil, passes},
		{"too many faults by runtime", code, "", runtime{"fault.http.max_active_faults": 0}, passes},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, `{`+tt.config+`}`, tt.runtime)
			s.Matched = filtertest.RouteTo("up")
			s.Ask("", fields(tt.head)...)
			got := passes
			if s.Status != 0 {
				got = fmt.Sprintf("%d %s", s.Status, s.Got)
				if g := s.Head.Get("grpc-status"); g != "" {
					got += " grpc " + g
				}
				if s.StreamInfo.Flags != filter.FlagFaultInjected || s.StreamInfo.Details != "fault_filter_abort" {
					t.Errorf("flags %s, details %s", s.StreamInfo.Flags.AppendShort(nil), s.StreamInfo.Details)
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Proves HF-20: delays, alone and before an abort.
func TestDelays(t *testing.T) {
	fixed, byHead := `"delay":{"fixed_delay":"0.2s",`+always+`}`, `"delay":{"header_delay":{},`+always+`}`
	tests := []struct {
		name, config, head string
		runtime            runtime
		want               time.Duration
	}{
		{"fixed", fixed, "", nil, 200 * time.Millisecond},
		{"none", `"delay":{"fixed_delay":"0.2s"}`, "", nil, 0},
		{"header", byHead, "x-envoy-fault-delay-request: 150", nil, 150 * time.Millisecond},
		{"header: 0", byHead, "x-envoy-fault-delay-request: 0", nil, 0},
		{"header: none", byHead, "", nil, 0},
		{"header: no share", byHead, "x-envoy-fault-delay-request: 150; x-envoy-fault-delay-request-percentage: 0", nil, 0},
		{"header: absurd", byHead, "x-envoy-fault-delay-request: 18446744073709551615", nil, 365 * 24 * time.Hour},
		{"runtime share", `"delay":{"fixed_delay":"0.2s"}`, "", runtime{"fault.http.delay.fixed_delay_percent": 100}, 200 * time.Millisecond},
		{"runtime time", fixed, "", runtime{"fault.http.delay.fixed_duration_ms": 300}, 300 * time.Millisecond},
		{"runtime time of a peer", fixed, "x-envoy-downstream-service-cluster: dc", runtime{"fault.http.delay.fixed_duration_ms": 300, "fault.http.dc.delay.fixed_duration_ms": 400}, 400 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, `{`+tt.config+`}`, tt.runtime)
			s.Ask("body", fields(tt.head)...)
			if tt.want > 0 {
				s.Advance(tt.want - 1)
				if s.UpstreamHead != "" {
					t.Error("the request goes on too early")
				}
				s.Advance(1)
			}
			if s.Upstream != "body" || !s.UpstreamEnded {
				t.Errorf("the host got %q", s.Upstream)
			}
			if injected := s.StreamInfo.Flags == filter.FlagDelayInjected; injected != (tt.want > 0) {
				t.Errorf("flags %s", s.StreamInfo.Flags.AppendShort(nil))
			}
		})
	}
}

// Proves HF-20: statistics, metadata and the bound of faults at a time.
func TestCounts(t *testing.T) {
	s := &filtertest.Stream{Log: func(string, ...any) {}}
	f := filtertest.HTTP(t, fault.Type(), `{"delay":{"fixed_delay":"0.2s",`+always+`},"abort":{"http_status":503,`+always+`},"max_active_faults":1,"filter_metadata":{"a":"b"}}`, runtime{}.env(&s.Counts))
	list := []filtertest.Filter{{Name: "chaos", New: f}}
	s.Start(0, list...)
	s.Ask("", fields("x-envoy-downstream-service-cluster: dc")...)
	const waiting = "fault.active_faults=1 fault.dc.delays_injected=1 fault.delays_injected=1"
	if got := s.Counts.String(); got != waiting {
		t.Errorf("counted %s, want %s", got, waiting)
	}
	other := &filtertest.Stream{Log: func(string, ...any) {}}
	other.Counts = s.Counts
	other.Start(0, list...)
	other.Ask("", ":path", "/")
	if other.UpstreamHead == "" {
		t.Error("a second fault is made")
	}
	s.Advance(time.Second)
	s.Finish()
	other.Finish()
	const done = "fault.aborts_injected=1 fault.dc.aborts_injected=1 fault.dc.delays_injected=1 fault.delays_injected=1 fault.faults_overflow=1"
	if got := s.Counts.String(); got != done {
		t.Errorf("counted %s, want %s", got, done)
	}
	if s.StreamInfo.Flags != filter.FlagDelayInjected|filter.FlagFaultInjected || s.Status != 503 {
		t.Errorf("%s, flags %s", s, s.StreamInfo.Flags.AppendShort(nil))
	}
	if v := s.StreamInfo.Metadata["chaos"].GetFields()["a"].GetStringValue(); v != "b" {
		t.Errorf("metadata %v", s.StreamInfo.Metadata)
	}
	// The stream is over while the request waits.
	s.Start(0, list...)
	s.Ask("", ":path", "/")
	s.Finish()
	if n := s.Waiting(); n != 0 || s.Counts.Values["fault.active_faults"] != 0 {
		t.Errorf("%d timers run, %d faults are active", n, s.Counts.Values["fault.active_faults"])
	}
}

// A route's configuration takes the filter's place.
func TestRoute(t *testing.T) {
	s := start(t, `{"abort":{"http_status":501,`+always+`}}`, nil)
	s.Levels = map[string][]any{"chaos": {
		filtertest.Route(t, fault.Type(), `{"abort":{"http_status":502,`+always+`}}`),
		filtertest.Route(t, fault.Type(), `{}`),
	}}
	s.Ask("", ":path", "/")
	if s.Status != 0 {
		t.Error(s)
	}
}

// Proves HF-20: the times are Envoy's, to a slice.
func TestResponseRateLimit(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name, limit, head string
		size              int
		want              time.Duration
	}{
		{"10 KiB a second", `"fixed_limit":{"limit_kbps":10}`, "", 20000, 1950 * ms},
		{"1 KiB a second", `"header_limit":{}`, "x-envoy-fault-throughput-response: 1", 3000, 2900 * ms},
		{"4 KiB a second", `"header_limit":{}`, "x-envoy-fault-throughput-response: 4", 3000, 700 * ms},
		{"two slices", `"header_limit":{}`, "x-envoy-fault-throughput-response: 1", 100, 50 * ms},
		{"one slice", `"header_limit":{}`, "x-envoy-fault-throughput-response: 1", 51, 0},
		{"0 is no limit", `"header_limit":{}`, "x-envoy-fault-throughput-response: 0", 3000, 0},
		{"no header", `"header_limit":{}`, "", 3000, 0},
		{"no share", `"header_limit":{}`, "x-envoy-fault-throughput-response: 1; x-envoy-fault-throughput-response-percentage: 0", 3000, 0},
	}
	for _, tt := range tests {
		for _, trailers := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, trailers), func(t *testing.T) {
				s := start(t, `{"response_rate_limit":{`+tt.limit+`,`+always+`}}`, nil)
				s.Ask("", fields(tt.head)...)
				body := strings.Repeat("0123456789", tt.size/10+1)[:tt.size]
				c := &s.Chain
				c.EncodeHeaders(filtertest.Headers(&s.Response, ":status", "200"), false)
				c.EncodeData([]byte(body[:tt.size/2]), false)
				c.EncodeData([]byte(body[tt.size/2:]), !trailers)
				if trailers {
					c.EncodeTrailers(filtertest.Headers(&s.ResponseTrailers, "t", "1"))
				}
				took := time.Duration(0)
				for s.Advance(0); !s.Ended && took < time.Minute; took += ms {
					s.Advance(ms)
				}
				if s.Got != body || !s.Ended || trailers != (s.GotTrailers == "t: 1") {
					t.Fatalf("the client got %d bytes, trailers %q, ended %t", len(s.Got), s.GotTrailers, s.Ended)
				}
				if took < tt.want-60*ms || took > tt.want+60*ms {
					t.Errorf("it took %v, want %v", took, tt.want)
				}
			})
		}
	}
}

// The host is paused while more than the limit waits, and the end of an empty
// response is not lost.
func TestRateLimitPauses(t *testing.T) {
	s := &filtertest.Stream{Log: func(string, ...any) {}}
	f := filtertest.HTTP(t, fault.Type(), `{"response_rate_limit":{"fixed_limit":{"limit_kbps":1},`+always+`}}`, runtime{}.env(&s.Counts))
	s.Start(100, filtertest.Filter{Name: "chaos", New: f})
	s.Ask("", ":path", "/")
	s.Chain.EncodeHeaders(filtertest.Headers(&s.Response, ":status", "200"), false)
	s.Chain.EncodeData(make([]byte, 300), false)
	if !s.ResponsePaused {
		t.Error("the host is not paused")
	}
	s.Advance(time.Second)
	if s.ResponsePaused || len(s.Got) != 300 {
		t.Errorf("paused %t after %d bytes", s.ResponsePaused, len(s.Got))
	}
	s.Chain.EncodeData(nil, true)
	s.Advance(time.Millisecond)
	if !s.Ended {
		t.Error("the response does not end")
	}
}

func TestRefused(t *testing.T) {
	k := fault.Type()
	for json, want := range map[string]string{
		`{"abort":{"http_status":199}}`:                                          "HttpStatus: value must be inside range [200, 600)",
		`{"abort":{` + always + `}}`:                                             "ErrorType: value is required",
		`{"delay":{` + always + `}}`:                                             "FaultDelaySecifier: value is required",
		`{"delay":{"fixed_delay":"0s"}}`:                                         "FixedDelay: value must be greater than 0s",
		`{"response_rate_limit":{"fixed_limit":{"limit_kbps":"0"}}}`:             "LimitKbps: value must be greater than or equal to 1",
		`{"response_rate_limit":{}}`:                                             "LimitType: value is required",
		`{"headers":[{"name":"a","string_match":{"safe_regex":{"regex":"("}}}]}`: "headers[0].string_match.safe_regex",
	} {
		if _, err := k.New(filtertest.Config(t, k.Config, json), runtime{}.env(&filtertest.Stats{})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", json, err, want)
		}
		if _, err := k.ParseRoute(filtertest.Config(t, k.RouteConfig, json), &filter.Env{}); err == nil {
			t.Errorf("%s is accepted in a route", json)
		}
	}
}

// Shares are those of the random numbers that the worker draws.
func TestShare(t *testing.T) {
	s := &filtertest.Stream{Log: func(string, ...any) {}}
	f := filtertest.HTTP(t, fault.Type(), `{"abort":{"http_status":418,"percentage":{"numerator":25,"denominator":"TEN_THOUSAND"}}}`, runtime{}.env(&s.Counts))
	n := 0
	for i := range uint64(20000) {
		s.Start(0, filtertest.Filter{Name: "chaos", New: f})
		s.Next = []uint64{i}
		s.Ask("", ":path", "/")
		if s.Status == 418 {
			n++
		}
		s.Finish()
	}
	if n != 50 {
		t.Errorf("%d of 20000 requests were aborted, want 50", n)
	}
}

type quiet struct{ *filtertest.Stream }

// A request without a fault allocates nothing.
func TestAllocations(t *testing.T) {
	s := filtertest.NewStream(0)
	f := filtertest.HTTP(t, fault.Type(), `{"abort":{"http_status":418},"delay":{"fixed_delay":"1s"},"headers":[{"name":"x-f"}]}`, runtime{}.env(&s.Counts))
	run := func() {
		c := &s.Chain
		c.Reset(quiet{s}, 1<<20)
		c.Grow(1)
		c.Add("chaos", f)
		c.DecodeHeaders(filtertest.Headers(&s.Request, ":path", "/", "x-f", "1"), true)
		c.Destroy()
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
