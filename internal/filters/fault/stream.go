package fault

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// stream is the filter of one stream.
type stream struct {
	kind     *kind
	cb       filter.Callbacks
	settings *settings
	peerName string // the downstream cluster, or ""
	timer    filter.Timer
	waiting  bool // the request is delayed
	active   bool // it counts as a fault
	bucket   bucket
	pace     filter.Timer
	pacing   bool // pace is running
	trailers bool // the response's trailers wait
	ended    bool
}

// DecodeHeaders implements filter.Decoder.
func (f *stream) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	f.settings = f.kind.settings
	if s, ok := f.cb.RouteConfig().(*settings); ok {
		f.settings = s
	}
	if !f.settings.any() {
		return filter.Continue
	}
	if f.kind.full(f.settings) {
		f.cb.Stats().Inc(f.kind.overflow)
		return filter.Continue
	}
	if !f.settings.matches(f, h) {
		return filter.Continue
	}
	f.peerName = h.Get(serviceClusterField)
	f.limitResponse(h)
	if d := f.delayOf(h); d > 0 {
		f.waiting = true
		f.timer = f.cb.After(d, f.delayed)
		f.cb.Stats().Inc(f.kind.delays)
		if f.counted() {
			f.cb.Stats().Inc(f.kind.peer(f.peerName, "delays_injected"))
		}
		f.begin()
		f.cb.Info().Flags |= filter.FlagDelayInjected
		f.note()
		return filter.StopIteration
	}
	if f.abort(h) {
		return filter.StopIteration
	}
	return filter.Continue
}

// any reports whether there are faults at all.
func (s *settings) any() bool {
	return s.abort != nil || s.delay != nil || s.rate != nil || s.max != noLimit
}

// noLimit is max_active_faults when it is not set.
const noLimit = 1<<64 - 1

// counted tells whether statistics by downstream cluster are kept.
func (f *stream) counted() bool { return f.peerName != "" && !f.settings.peerless }

// begin counts the stream as one that has a fault, once.
func (f *stream) begin() {
	if !f.active {
		f.active = true
		f.kind.active.Add(1)
		f.cb.Stats().GaugeAdd(f.kind.activeGauge, 1)
	}
}

// note adds the configured metadata to the stream's.
func (f *stream) note() {
	for k, v := range f.settings.metadata.GetFields() {
		f.cb.Info().SetMetadata(f.cb.FilterName(), k, v)
	}
}

// delayed is the end of the delay, which an abort may follow.
func (f *stream) delayed() {
	f.waiting = false
	if !f.abort(f.cb.RequestHeaders()) {
		f.cb.ContinueDecoding()
	}
}

// abort answers the request, if that is its lot.
func (f *stream) abort(h *header.Map) bool {
	status, grpc, isGRPC, ok := f.abortOf(h)
	if !ok {
		return false
	}
	f.cb.Stats().Inc(f.kind.aborts)
	if f.counted() {
		f.cb.Stats().Inc(f.kind.peer(f.peerName, "aborts_injected"))
	}
	f.begin()
	f.cb.Info().Flags |= filter.FlagFaultInjected
	f.note()
	f.cb.SendLocalReply(filter.LocalReply{
		Status: status, Body: f.settings.abort.body, Details: "fault_filter_abort", GRPCStatus: grpc, GRPCSet: isGRPC,
	})
	return true
}

// DecodeData implements filter.Decoder: a request that is delayed waits, and its
// sender at the limit.
func (f *stream) DecodeData(*filter.Buffer, bool) filter.DataStatus {
	if f.waiting {
		return filter.DataStopIterationAndWatermark
	}
	return filter.DataContinue
}

// DecodeTrailers implements filter.Decoder.
func (f *stream) DecodeTrailers(*header.Map) filter.TrailersStatus {
	if f.waiting {
		return filter.TrailersStop
	}
	return filter.TrailersContinue
}

// OnDestroy implements filter.Destroyer.
func (f *stream) OnDestroy() {
	if f.timer != nil {
		f.timer.Stop()
	}
	if f.pace != nil {
		f.pace.Stop()
	}
	if f.active {
		f.kind.active.Add(-1)
		f.cb.Stats().GaugeAdd(f.kind.activeGauge, -1)
	}
	k := f.kind
	*f = stream{kind: k}
	k.pool.Put(f)
}
