package router

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
)

// upstreamChain runs the upstream HTTP filters of one attempt (HF-13): between
// the router and the codec, again for each retry.
type upstreamChain struct {
	chain.Owner // the downstream stream, for everything but the two ends
	u           *upstream
	c           chain.Chain
}

// openFilters makes the attempt's filters, if the cluster or the router has any.
func (u *upstream) openFilters() {
	specs := u.f.c.Options().Filters
	if len(specs) == 0 {
		specs = u.f.cfg.UpstreamFilters
	}
	if len(specs) == 0 {
		return
	}
	x := &upstreamChain{Owner: u.f.host, u: u}
	u.filters = x
	x.c.Reset(x, u.f.limit())
	x.c.Grow(len(specs) + 1)
	for i := range specs {
		if !specs[i].Disabled {
			x.c.Add(specs[i].Name, specs[i].New)
		}
	}
	x.c.Add("envoy.filters.http.upstream_codec", func(filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Decoder: x} })
}

func (u *upstream) closeFilters() {
	if x := u.filters; x != nil {
		u.filters = nil
		x.c.Complete()
		x.c.Destroy()
	}
}

func (u *upstream) emitHeaders(end bool) {
	if u.filters != nil {
		u.filters.c.DecodeHeaders(u.f.head, end)
		return
	}
	u.stream.SendHeaders(u.f.head, end)
}

func (u *upstream) emitData(b []byte, end bool) {
	u.log.gave(len(b))
	if u.filters != nil {
		u.filters.c.DecodeData(b, end)
		return
	}
	u.stream.SendData(b, end)
}

func (u *upstream) emitTrailers(t *header.Map) {
	if u.filters != nil {
		u.filters.c.DecodeTrailers(t)
		return
	}
	u.stream.SendTrailers(t)
}

// DecodeHeaders implements filter.Decoder: the end of the upstream filters.
func (x *upstreamChain) DecodeHeaders(h *header.Map, end bool) filter.HeadersStatus {
	if s := x.u.stream; s != nil {
		s.SendHeaders(h, end)
	}
	return filter.StopIteration
}

// DecodeData implements filter.Decoder.
func (x *upstreamChain) DecodeData(data *filter.Buffer, end bool) filter.DataStatus {
	if s := x.u.stream; s != nil {
		s.SendData(data.Bytes(), end)
	}
	return filter.DataStopIterationNoBuffer
}

// DecodeTrailers implements filter.Decoder.
func (x *upstreamChain) DecodeTrailers(t *header.Map) filter.TrailersStatus {
	if s := x.u.stream; s != nil {
		s.SendTrailers(t)
	}
	return filter.TrailersStop
}

// live reports whether the chain is still the attempt's.
func (x *upstreamChain) live() bool { return x.u.filters == x }

// Encoded1xx implements chain.Owner.
func (x *upstreamChain) Encoded1xx(h *header.Map) { x.u.f.host.Chain().Encode1xx(h) }

// EncodedHeaders implements chain.Owner: the router takes the response.
func (x *upstreamChain) EncodedHeaders(h *header.Map, end bool) {
	if !x.live() {
		return
	}
	if h != &x.u.resp {
		x.u.resp.CopyFrom(h) // a filter answered itself
	}
	x.u.f.onHeaders(end)
}

// EncodedData implements chain.Owner.
func (x *upstreamChain) EncodedData(b []byte, end bool) {
	if x.live() {
		x.u.take(b, end)
	}
}

// EncodedTrailers implements chain.Owner.
func (x *upstreamChain) EncodedTrailers(t *header.Map) {
	if x.live() {
		x.u.takeTrailers(t)
	}
}

// PauseRequest implements chain.Owner.
func (x *upstreamChain) PauseRequest(pause bool) { x.u.f.host.PauseRequest(pause) }

// PauseResponse implements chain.Owner.
func (x *upstreamChain) PauseResponse(pause bool) { x.u.pause(pause) }
