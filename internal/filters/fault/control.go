package fault

import (
	"strconv"
	"time"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Headers by which clients ask for faults.
const (
	abortHeader         = "x-envoy-fault-abort-request"
	abortGRPCHeader     = "x-envoy-fault-abort-grpc-request"
	abortPercentHeader  = "x-envoy-fault-abort-request-percentage"
	delayHeader         = "x-envoy-fault-delay-request"
	delayPercentHeader  = "x-envoy-fault-delay-request-percentage"
	rateHeader          = "x-envoy-fault-throughput-response"
	ratePercentHeader   = "x-envoy-fault-throughput-response-percentage"
	serviceClusterField = "x-envoy-downstream-service-cluster"
	serviceNodeField    = "x-envoy-downstream-service-node"
)

// number is a header's whole number.
func number(h *header.Map, name string) (uint64, bool) {
	v, ok := h.Lookup(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 64)
	return n, err == nil
}

// share is a fraction of which a header can only take less.
func share(p part, byHead bool, h *header.Map, name string) part {
	if byHead {
		if n, ok := number(h, name); ok && n <= 1<<32-1 {
			p.n = min(p.n, n)
		}
	}
	return p
}

// matches tells whether a request is one to have faults.
func (s *settings) matches(f *stream, h *header.Map) bool {
	if s.cluster != "" {
		if r := f.cb.Route(); r == nil || r.Cluster() != s.cluster {
			return false
		}
	}
	if s.nodes != nil {
		if n, ok := h.Lookup(serviceNodeField); !ok || !s.nodes[n] {
			return false
		}
	}
	for _, match := range s.headers {
		if !match(h) {
			return false
		}
	}
	return true
}

// on draws whether a fault happens, by the fault's own runtime key and by that
// of the downstream cluster.
func (f *stream) on(p part, key, peerKey string) bool {
	on := f.kind.enabled(key, p, f.cb.Random)
	if f.peerName != "" {
		on = f.kind.enabled("fault.http."+f.peerName+peerKey, p, f.cb.Random) || on
	}
	return on
}

// delayOf is how long a request is to wait; 0 does not.
func (f *stream) delayOf(h *header.Map) time.Duration {
	d := f.settings.delay
	if d == nil || !f.on(share(d.share, d.byHead, h, delayPercentHeader), f.settings.delayPercentKey, ".delay.fixed_delay_percent") {
		return 0
	}
	ms := uint64(d.fixed.Milliseconds())
	if d.byHead {
		n, ok := number(h, delayHeader)
		if !ok {
			return 0
		}
		ms = n
	}
	ms = f.kind.integer(f.settings.delayKey, ms)
	if f.peerName != "" {
		ms = f.kind.integer("fault.http."+f.peerName+".delay.fixed_duration_ms", ms)
	}
	return time.Duration(min(ms, uint64(maxDelay/time.Millisecond))) * time.Millisecond
}

// maxDelay keeps what a header asks for within what a timer can do.
const maxDelay = 365 * 24 * time.Hour

// abortOf is the status that a request is to be aborted with; a gRPC status
// comes with 200.
func (f *stream) abortOf(h *header.Map) (status int, grpc uint32, isGRPC, ok bool) {
	a := f.settings.abort
	if a == nil || !f.on(share(a.share, a.byHead, h, abortPercentHeader), f.settings.abortPercentKey, ".abort.abort_percent") {
		return 0, 0, false, false
	}
	code, codeOK := a.status, !a.byHead && !a.isGRPC
	gcode, gcodeOK := a.grpc, a.isGRPC
	if a.byHead {
		code, codeOK = number(h, abortHeader)
		codeOK = codeOK && code >= 200 && code < 600
		gcode, gcodeOK = number(h, abortGRPCHeader)
	}
	switch {
	case codeOK:
		return f.statusOf(code), 0, false, true
	case gcodeOK:
		gcode = f.override(f.settings.grpcKey, ".abort.grpc_status", gcode)
		return 200, uint32(gcode), true, true //nolint:gosec // as many bits as a status has
	}
	return 0, 0, false, false
}

// statusOf is the status that the runtime wants, if it is one.
func (f *stream) statusOf(code uint64) int {
	if n := f.override(f.settings.statusKey, ".abort.http_status", code); n >= 200 && n < 600 {
		return int(n)
	}
	return int(code) //nolint:gosec // below 600
}

// override is a value that the runtime may replace; the key of the downstream
// cluster, whether it is there or not, goes before the general one.
func (f *stream) override(key, peerKey string, n uint64) uint64 {
	if f.peerName != "" {
		return f.kind.integer("fault.http."+f.peerName+peerKey, n)
	}
	return f.kind.integer(key, n)
}
