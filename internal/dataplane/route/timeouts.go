package route

import (
	"errors"
	"strconv"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/filter/header"
)

// defaultRouteTimeout is RouteAction.timeout's default.
const defaultRouteTimeout = 15 * time.Second

// Timeouts are a route's times (RT-32 to RT-35). 0 means no limit.
type Timeouts struct {
	// Route is RouteAction.timeout: 15 s unless set.
	Route time.Duration
	// Idle replaces the connection manager's stream idle timeout, if HasIdle.
	Idle    time.Duration
	HasIdle bool
	// Flush replaces its stream flush timeout, if HasFlush.
	Flush    time.Duration
	HasFlush bool
	// HasMaxStream tells that the route says how long a stream may last: ask
	// MaxStreamDuration.
	HasMaxStream bool

	maxStream, grpcMax, grpcOffset        time.Duration
	hasStream, hasGRPCMax                 bool
	newStyle                              bool // max_stream_duration is there: no route timeout
	legacyGRPCMax, legacyGRPCOffset       time.Duration
	hasLegacyGRPCMax, hasLegacyGRPCOffset bool

	routeText string // Route in milliseconds, as requests are told
}

func defaultTimeouts() Timeouts { return Timeouts{Route: defaultRouteTimeout}.written() }

func (t Timeouts) written() Timeouts {
	t.routeText = strconv.FormatInt(t.Route.Milliseconds(), 10)
	return t
}

// duration reads a time; millis is Envoy's resolution.
func (b *builder) duration(path string, d *durationpb.Duration) (time.Duration, bool) {
	if d == nil {
		return 0, false
	}
	if err := d.CheckValid(); err != nil {
		b.fail(path, err)
		return 0, false
	}
	if d.AsDuration() < 0 {
		b.fail(path, errors.New("the time is negative"))
		return 0, false
	}
	return d.AsDuration().Truncate(time.Millisecond), true
}

func (b *builder) timeouts(path string, a *routev3.RouteAction) Timeouts {
	t := defaultTimeouts()
	if d, ok := b.duration(path+".timeout", a.GetTimeout()); ok {
		t.Route = d
	}
	t.Idle, t.HasIdle = b.duration(path+".idle_timeout", a.GetIdleTimeout())
	t.Flush, t.HasFlush = b.duration(path+".flush_timeout", a.GetFlushTimeout())
	t.legacyGRPCMax, t.hasLegacyGRPCMax = b.duration(path+".max_grpc_timeout", a.GetMaxGrpcTimeout())             //nolint:staticcheck // deprecated fields still work (RT-31)
	t.legacyGRPCOffset, t.hasLegacyGRPCOffset = b.duration(path+".grpc_timeout_offset", a.GetGrpcTimeoutOffset()) //nolint:staticcheck // deprecated fields still work (RT-31)
	if m := a.GetMaxStreamDuration(); m != nil {
		p := path + ".max_stream_duration"
		b.only(p, m, "max_stream_duration", "grpc_timeout_header_max", "grpc_timeout_header_offset")
		t.newStyle = true
		t.maxStream, t.hasStream = b.duration(p+".max_stream_duration", m.GetMaxStreamDuration())
		t.grpcMax, t.hasGRPCMax = b.duration(p+".grpc_timeout_header_max", m.GetGrpcTimeoutHeaderMax())
		t.grpcOffset, _ = b.duration(p+".grpc_timeout_header_offset", m.GetGrpcTimeoutHeaderOffset())
		t.HasMaxStream = t.hasStream || t.hasGRPCMax
	}
	return t.written()
}

// Timeouts are the route's times.
func (e *Entry) Timeouts() *Timeouts { return &e.timeouts }

// MaxStreamDuration is how long the stream may last from its start; 0: as long
// as it likes. Ask only if Timeouts().HasMaxStream.
func (e *Entry) MaxStreamDuration(c *Context) time.Duration { return e.StreamDuration(c, 0) }

// StreamDuration is how long the stream may last from its start: by its
// grpc-timeout, if the route says how to take it, else by the route, else as
// given, which is the connection manager's (RT-34). 0: as long as it likes.
// With max_stream_duration in the route, a gRPC request's grpc-timeout becomes
// what was decided.
func (e *Entry) StreamDuration(c *Context, fallback time.Duration) time.Duration {
	t := &e.timeouts
	asked, ok := grpcTimeout(c.Request)
	if !ok || !t.hasGRPCMax {
		d := fallback
		if t.hasStream {
			d = t.maxStream
		}
		if d > 0 {
			t.tellStream(c, d)
		} else if fallback > 0 && t.newStyle && IsGRPC(c.Request) {
			c.Request.DelID(header.GRPCTimeout) // it is taken back
		}
		return d
	}
	if t.grpcMax > 0 && asked > t.grpcMax {
		asked = t.grpcMax
	}
	asked = max(asked-t.grpcOffset, 0)
	t.tellStream(c, asked)
	return max(asked, time.Nanosecond) // nothing left is not no limit
}

// tellStream tells the upstream of a gRPC request how long the stream may last.
func (t *Timeouts) tellStream(c *Context, d time.Duration) {
	if t.newStyle && IsGRPC(c.Request) {
		var buf [24]byte
		c.Request.SetIDBytes(header.GRPCTimeout, appendGRPCTimeout(buf[:0], d.Milliseconds()))
	}
}

// grpcTimeout reads grpc-timeout: up to eight digits and a unit. Parts of a
// millisecond count as one.
func grpcTimeout(m *header.Map) (time.Duration, bool) {
	s := m.GetID(header.GRPCTimeout)
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	n, ok := parseUint(s[:len(s)-1])
	if !ok {
		return 0, false
	}
	d := time.Duration(n)
	switch s[len(s)-1] {
	case 'H':
		return d * time.Hour, true
	case 'M':
		return d * time.Minute, true
	case 'S':
		return d * time.Second, true
	case 'm':
		return d * time.Millisecond, true
	case 'u':
		d *= time.Microsecond
	case 'n':
	default:
		return 0, false
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond), true
}

// Final are the times of one request.
type Final struct {
	// Timeout bounds the response from the request's end, over all attempts.
	Timeout time.Duration
	// PerTry bounds one attempt, PerTryIdle the silence within one.
	PerTry, PerTryIdle time.Duration
	// AltResponse makes a timeout 204 instead of 504.
	AltResponse bool
}

// FinalTimeouts takes the request's own wishes into account, as Envoy's
// FilterUtility::finalTimeout does: x-envoy-upstream-rq-timeout-ms, its per-try
// form and -alt-response, which are removed, and x-envoy-expected-rq-timeout-ms
// of an egress peer if respectExpected. It writes what upstreams may expect.
// Requests from outside have none of these headers left (HC-33), so internal
// makes no difference here.
func (e *Entry) FinalTimeouts(c *Context, _ bool, respectExpected bool) Final {
	var f Final
	grpc := IsGRPC(c.Request)
	t := &e.timeouts
	if !t.newStyle {
		f.Timeout = t.Route
		if grpc && t.hasLegacyGRPCMax {
			f.Timeout = t.legacy(c.Request)
		}
	}
	if e.retry != nil {
		f.PerTry, f.PerTryIdle = e.retry.perTry, e.retry.perTryIdle
	}
	m := c.Request
	if d, ok := millis(m, header.XEnvoyExpectedRQTimeoutMS); respectExpected && m.HasID(header.XEnvoyExpectedRQTimeoutMS) {
		if ok {
			f.Timeout = d
		}
	} else if d, ok := millis(m, header.XEnvoyUpstreamRQTimeoutMS); ok {
		f.Timeout = d
	}
	m.DelID(header.XEnvoyUpstreamRQTimeoutMS)
	if d, ok := millis(m, header.XEnvoyUpstreamRQPerTryTimeoutMS); ok {
		f.PerTry = d
	}
	m.DelID(header.XEnvoyUpstreamRQPerTryTimeoutMS)
	if f.PerTry >= f.Timeout && f.Timeout != 0 {
		f.PerTry = 0
	}
	f.AltResponse = m.DelID(header.XEnvoyUpstreamRQTimeoutAltResponse) > 0
	t.tell(c, &f, grpc, 0)
	return f
}

// TellTimeouts writes again what an upstream may expect, for a further attempt
// at a time after the request's end.
func (e *Entry) TellTimeouts(c *Context, f *Final, elapsed time.Duration) {
	e.timeouts.tell(c, f, IsGRPC(c.Request), elapsed)
}

// legacy is the time by max_grpc_timeout, which max_stream_duration replaced.
func (t *Timeouts) legacy(m *header.Map) time.Duration {
	d, _ := grpcTimeout(m)
	if t.hasLegacyGRPCOffset && t.legacyGRPCOffset < d {
		d -= t.legacyGRPCOffset
	}
	if t.legacyGRPCMax != 0 && (d == 0 || d > t.legacyGRPCMax) {
		d = t.legacyGRPCMax
	}
	return d
}

// tell writes the time that the upstream has: at least a millisecond, for 0
// would be no limit.
func (t *Timeouts) tell(c *Context, f *Final, grpc bool, elapsed time.Duration) {
	d := f.PerTry
	if d == 0 {
		d = f.Timeout
	}
	if d == 0 {
		return
	}
	if f.Timeout > 0 {
		d = max(min(d, f.Timeout-elapsed), time.Millisecond)
	}
	var buf [24]byte
	switch {
	case c.SuppressEnvoyHeaders:
	case d == t.Route:
		c.Request.SetID(header.XEnvoyExpectedRQTimeoutMS, t.routeText)
	default:
		c.Request.SetIDBytes(header.XEnvoyExpectedRQTimeoutMS, strconv.AppendInt(buf[:0], d.Milliseconds(), 10))
	}
	if grpc && !t.newStyle && t.hasLegacyGRPCMax {
		c.Request.SetIDBytes(header.GRPCTimeout, appendGRPCTimeout(buf[:0], d.Milliseconds()))
	}
}

// appendGRPCTimeout writes a time with at most eight digits.
func appendGRPCTimeout(dst []byte, ms int64) []byte {
	const most = 99999999
	n, unit := ms, byte('m')
	if n > most {
		n, unit = n/1000, 'S'
		if n > most {
			n, unit = n/60, 'M'
			if n > most {
				n, unit = min(n/60, most), 'H'
			}
		}
	}
	return append(strconv.AppendInt(dst, n, 10), unit)
}

// millis reads a header's number of milliseconds.
func millis(m *header.Map, id header.ID) (time.Duration, bool) {
	s, ok := m.LookupID(id)
	if !ok {
		return 0, false
	}
	n, ok := parseUint(s)
	if !ok {
		return 0, false
	}
	const most = uint64(1<<63-1) / uint64(time.Millisecond)
	return time.Duration(min(n, most)) * time.Millisecond, true
}
