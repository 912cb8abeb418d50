package filtertest

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
)

// Filter is a configured filter of a Stream.
type Filter struct {
	Name string
	New  filter.HTTPFactory
}

// Stream is a stream without a network: a chain of filters between a client and
// an upstream host that only take notes. The time passes with Advance alone. It
// is for one goroutine.
type Stream struct {
	Chain chain.Chain
	// Request is the request's head, Trailers its trailers.
	Request, Trailers header.Map
	// Response is the head of the host's response.
	Response, ResponseTrailers header.Map
	// StreamInfo is the stream's info.
	StreamInfo filter.StreamInfo
	// Counts are its statistics.
	Counts Stats
	// Matched is the stream's route, or nil.
	Matched filter.Route
	// Levels are per-route configurations by filter name, the most general first.
	Levels map[string][]any
	// Next are the random numbers to come; 0 follows.
	Next []uint64

	// Raise lets panics of filters through, for libraries that use them.
	Raise bool
	// Log is told of what happens.
	Log func(format string, args ...any)
	// Got is the body that the client got, Upstream the body that the host got.
	Got, Upstream string
	// Head and Status are the response's as the client got them, GotTrailers its
	// trailers; Ended says that it is complete.
	Head        header.Map
	Status      int
	GotTrailers string
	Ended       bool
	// UpstreamHead is the request as the host got it; UpstreamEnded says that it
	// is complete.
	UpstreamHead  string
	UpstreamEnded bool
	// ResetBy are the details of the stream's reset, or "".
	ResetBy string
	// RequestPaused and ResponsePaused say who may not send.
	RequestPaused, ResponsePaused bool
	// Cleared counts how often the route cache was cleared.
	Cleared int

	now    time.Duration
	timers []*timer
	done   bool
	conn   filter.ConnectionInfo
}

var _ chain.Owner = (*Stream)(nil)

// NewStream makes a stream with filters; the host behind them is added.
func NewStream(limit int, filters ...Filter) *Stream {
	s := &Stream{Log: func(string, ...any) {}}
	s.Start(limit, filters...)
	return s
}

// Start begins a stream, the first or another one.
func (s *Stream) Start(limit int, filters ...Filter) {
	s.StreamInfo = filter.StreamInfo{Connection: &s.conn}
	s.conn.Remote = filter.IPAddress(netip.MustParseAddrPort("192.0.2.1:1000"))
	s.Got, s.Upstream, s.GotTrailers, s.UpstreamHead, s.ResetBy = "", "", "", "", ""
	s.Status, s.Ended, s.UpstreamEnded, s.done, s.timers = 0, false, false, false, s.timers[:0]
	s.Chain.Reset(s, limit)
	s.Chain.Grow(len(filters) + 1)
	for _, f := range filters {
		s.Chain.Add(f.Name, f.New)
	}
	s.Chain.Add("host", func(filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Decoder: (*host)(s)} })
}

// host ends the chain.
type host Stream

// DecodeHeaders implements filter.Decoder.
func (h *host) DecodeHeaders(m *header.Map, end bool) filter.HeadersStatus {
	h.Log("host: headers%s", mark(end))
	h.UpstreamHead, h.UpstreamEnded = m.String(), end
	return filter.StopIteration
}

// DecodeData implements filter.Decoder.
func (h *host) DecodeData(b *filter.Buffer, end bool) filter.DataStatus {
	h.Log("host: data %q%s", b.Bytes(), mark(end))
	h.Upstream += string(b.Bytes())
	h.UpstreamEnded = h.UpstreamEnded || end
	return filter.DataStopIterationNoBuffer
}

// DecodeTrailers implements filter.Decoder.
func (h *host) DecodeTrailers(m *header.Map) filter.TrailersStatus {
	h.Log("host: trailers %s", line(m))
	h.UpstreamEnded = true
	return filter.TrailersStop
}

func mark(end bool) string {
	if end {
		return " end"
	}
	return ""
}

func line(m *header.Map) string {
	return strings.ReplaceAll(strings.TrimSpace(m.String()), "\n", ", ")
}

// Encoded1xx implements chain.Owner.
func (s *Stream) Encoded1xx(h *header.Map) { s.Log("client: %s", h.Get(":status")) }

// EncodedHeaders implements chain.Owner.
func (s *Stream) EncodedHeaders(h *header.Map, end bool) {
	s.Log("client: headers %s%s", h.Get(":status"), mark(end))
	s.Status, s.Ended = h.Status(), end
	s.Head.CopyFrom(h)
}

// EncodedData implements chain.Owner.
func (s *Stream) EncodedData(data []byte, end bool) {
	s.Log("client: data %q%s", data, mark(end))
	s.Got += string(data)
	s.Ended = s.Ended || end
}

// EncodedTrailers implements chain.Owner.
func (s *Stream) EncodedTrailers(t *header.Map) {
	s.Log("client: trailers %s", line(t))
	s.GotTrailers, s.Ended = line(t), true
}

// Reset implements chain.Owner.
func (s *Stream) Reset(details string) {
	if s.done {
		return
	}
	s.Log("reset: %s", details)
	s.ResetBy = details
	s.Finish()
}

// Panicked implements chain.Owner.
func (s *Stream) Panicked(name string, v any) {
	if s.Raise {
		panic(v)
	}
	s.Log("panic: %s: %v", name, v)
	s.Reset("filter_panic")
}

// Finish ends the stream.
func (s *Stream) Finish() {
	if s.done {
		return
	}
	s.done = true
	s.Chain.Dead()
	s.Chain.Complete()
	s.Chain.Destroy()
}

// FillLocalReply implements chain.Owner.
func (s *Stream) FillLocalReply(r *filter.LocalReply, h *header.Map) string {
	s.StreamInfo.Details = r.Details
	h.Add(":status", strconv.Itoa(r.Status))
	if r.GRPCSet {
		h.Add("grpc-status", strconv.FormatUint(uint64(r.GRPCStatus), 10))
	}
	if r.Edit != nil {
		r.Edit(h)
	}
	return r.Body
}

// PauseRequest implements chain.Owner.
func (s *Stream) PauseRequest(pause bool) {
	s.Log("request paused: %t", pause)
	s.RequestPaused = pause
}

// PauseResponse implements chain.Owner.
func (s *Stream) PauseResponse(pause bool) {
	s.Log("response paused: %t", pause)
	s.ResponsePaused = pause
}

// RequestHeaders implements chain.Owner.
func (s *Stream) RequestHeaders() *header.Map { return &s.Request }

// RequestTrailers implements chain.Owner.
func (s *Stream) RequestTrailers() *header.Map { return &s.Trailers }

// Info implements chain.Owner.
func (s *Stream) Info() *filter.StreamInfo { return &s.StreamInfo }

// Route implements chain.Owner.
func (s *Stream) Route() filter.Route { return s.Matched }

// ClearRouteCache implements chain.Owner.
func (s *Stream) ClearRouteCache() { s.Cleared++ }

// RouteConfig implements chain.Owner.
func (s *Stream) RouteConfig(name string) any {
	if l := s.Levels[name]; len(l) > 0 {
		return l[len(l)-1]
	}
	return nil
}

// RouteConfigs implements chain.Owner.
func (s *Stream) RouteConfigs(name string, yield func(cfg any) bool) {
	for _, c := range s.Levels[name] {
		if !yield(c) {
			return
		}
	}
}

// Post implements chain.Owner.
func (s *Stream) Post(f func()) { s.After(0, f) }

// Go implements chain.Owner; the work is done at once, its end with Advance.
func (s *Stream) Go(work func(ctx context.Context) (done func())) {
	if done := work(context.Background()); done != nil { //nolint:forbidigo // a test's stream has no other
		s.After(0, done)
	}
}

type timer struct {
	at time.Duration
	f  func()
}

// Stop implements filter.Timer.
func (t *timer) Stop() { t.f = nil }

// After implements chain.Owner.
func (s *Stream) After(d time.Duration, f func()) filter.Timer {
	t := &timer{s.now + d, f}
	s.timers = append(s.timers, t)
	return t
}

// Advance lets time pass; what is due runs in order.
func (s *Stream) Advance(d time.Duration) {
	until := s.now + d
	for {
		var next *timer
		for _, t := range s.timers {
			if t.f != nil && t.at <= until && (next == nil || t.at < next.at) {
				next = t
			}
		}
		if next == nil {
			break
		}
		f := next.f
		next.f = nil
		s.now = max(s.now, next.at)
		if !s.done {
			f()
		}
	}
	s.now = until
}

// Waiting counts the timers that run.
func (s *Stream) Waiting() int {
	n := 0
	for _, t := range s.timers {
		if t.f != nil {
			n++
		}
	}
	return n
}

// Now implements chain.Owner.
func (s *Stream) Now() time.Duration { return s.now }

// Random implements chain.Owner.
func (s *Stream) Random() uint64 {
	if len(s.Next) == 0 {
		return 0
	}
	n := s.Next[0]
	s.Next = s.Next[1:]
	return n
}

// Stats implements chain.Owner.
func (s *Stream) Stats() filter.Stats { return &s.Counts }

// Logger implements chain.Owner.
func (*Stream) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Headers fills a head with names and values in turn.
func Headers(m *header.Map, fields ...string) *header.Map {
	m.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		m.Add(fields[i], fields[i+1])
	}
	return m
}

// Ask gives a request to the filters: its head, and if there is one, a body.
func (s *Stream) Ask(body string, fields ...string) {
	Headers(&s.Request, fields...)
	s.Chain.DecodeHeaders(&s.Request, body == "")
	if body != "" {
		s.Chain.DecodeData([]byte(body), true)
	}
}

// Answer gives a host's response to the filters.
func (s *Stream) Answer(body string, fields ...string) {
	Headers(&s.Response, fields...)
	s.Chain.EncodeHeaders(&s.Response, body == "")
	if body != "" {
		s.Chain.EncodeData([]byte(body), true)
	}
}

// RouteTo is a route for tests.
type RouteTo string

// Name implements filter.Route.
func (RouteTo) Name() string { return "route" }

// VirtualHost implements filter.Route.
func (RouteTo) VirtualHost() string { return "host" }

// Cluster implements filter.Route.
func (r RouteTo) Cluster() string { return string(r) }

// String describes the outcome of the stream in a line.
func (s *Stream) String() string {
	switch {
	case s.ResetBy != "":
		return "reset " + s.ResetBy
	case s.Status == 0:
		return "no response"
	}
	return fmt.Sprintf("%d %q ended %t", s.Status, s.Got, s.Ended)
}
