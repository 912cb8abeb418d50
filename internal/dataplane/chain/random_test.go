package chain_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
)

// moody is a filter that stops as it likes until it is told to settle; then it
// goes on with everything.
type moody struct {
	t       *rapid.T
	cb      filter.Callbacks
	settled bool
	// dec and enc are what went past it, to check that nothing comes in disorder.
	dec, enc order
}

// order is what a filter has seen of a message.
type order struct{ head, end, trailers bool }

func (o *order) sawHead(t *rapid.T, end bool) {
	if o.head {
		t.Fatal("a second head")
	}
	o.head, o.end = true, end
}

func (o *order) sawData(t *rapid.T, end bool) {
	if !o.head || o.end || o.trailers {
		t.Fatalf("data after %+v", *o)
	}
	o.end = end
}

func (o *order) sawTrailers(t *rapid.T) {
	if !o.head || o.end || o.trailers {
		t.Fatalf("trailers after %+v", *o)
	}
	o.trailers = true
}

func (m *moody) headers(end bool) filter.HeadersStatus {
	if m.settled {
		return filter.Continue
	}
	list := []filter.HeadersStatus{filter.Continue, filter.Continue, filter.StopIteration, filter.StopAllIterationAndBuffer, filter.StopAllIterationAndWatermark}
	if end {
		list = append(list, filter.ContinueAndDontEndStream)
	}
	return rapid.SampledFrom(list).Draw(m.t, "head")
}

// data answers to data; inject gives them on right away.
func (m *moody) data(b *filter.Buffer, end bool, inject func([]byte, bool), trailers func() *header.Map) filter.DataStatus {
	if m.settled {
		return filter.DataContinue
	}
	if end && rapid.Bool().Draw(m.t, "make trailers") {
		trailers().Add("made", "1")
		end = false
	}
	st := rapid.SampledFrom([]filter.DataStatus{filter.DataContinue, filter.DataContinue, filter.DataStopIterationAndBuffer, filter.DataStopIterationAndWatermark, filter.DataStopIterationNoBuffer}).Draw(m.t, "data")
	if st == filter.DataStopIterationNoBuffer {
		taken := string(b.Bytes())
		b.Drain(b.Len())
		inject([]byte(taken), end && rapid.Bool().Draw(m.t, "end"))
	}
	return st
}

func (m *moody) trailers() filter.TrailersStatus {
	if !m.settled && rapid.Bool().Draw(m.t, "trailers") {
		return filter.TrailersStop
	}
	return filter.TrailersContinue
}

func (m *moody) DecodeHeaders(_ *header.Map, end bool) filter.HeadersStatus {
	m.dec.sawHead(m.t, end)
	return m.headers(end)
}

func (m *moody) DecodeData(b *filter.Buffer, end bool) filter.DataStatus {
	m.dec.sawData(m.t, end)
	if m.cb.DecodingBuffer() != nil && m.cb.DecodingBuffer().Len() > 0 {
		return m.noInject(b, end, m.cb.AddDecodedTrailers)
	}
	return m.data(b, end, m.cb.InjectDecodedData, m.cb.AddDecodedTrailers)
}

// noInject is data while some are held, before which nothing may be injected.
func (m *moody) noInject(b *filter.Buffer, end bool, trailers func() *header.Map) filter.DataStatus {
	st := m.data(b, end, func([]byte, bool) {}, trailers)
	if st == filter.DataStopIterationNoBuffer {
		m.t.Skip("it would lose data")
	}
	return st
}

func (m *moody) DecodeTrailers(*header.Map) filter.TrailersStatus {
	m.dec.sawTrailers(m.t)
	return m.trailers()
}

func (*moody) Encode1xx(*header.Map) {}

func (m *moody) EncodeHeaders(_ *header.Map, end bool) filter.HeadersStatus {
	m.enc.sawHead(m.t, end)
	return m.headers(end)
}

func (m *moody) EncodeData(b *filter.Buffer, end bool) filter.DataStatus {
	m.enc.sawData(m.t, end)
	if m.cb.EncodingBuffer() != nil && m.cb.EncodingBuffer().Len() > 0 {
		return m.noInject(b, end, m.cb.AddEncodedTrailers)
	}
	return m.data(b, end, m.cb.InjectEncodedData, m.cb.AddEncodedTrailers)
}

func (m *moody) EncodeTrailers(*header.Map) filter.TrailersStatus {
	m.enc.sawTrailers(m.t)
	return m.trailers()
}

// Whatever filters hold back and for how long, both ends get the same bytes in
// order, and one end.
func TestFiltersThatContinueLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "filters")
		all := make([]*moody, n)
		var list []filtertest.Filter
		for i := range all {
			all[i] = &moody{t: t}
			list = append(list, filtertest.Filter{Name: fmt.Sprint(i), New: func(cb filter.Callbacks) filter.HTTPFilter {
				all[i].cb = cb
				return filter.HTTPFilter{Decoder: all[i], Encoder: all[i]}
			}})
		}
		s := filtertest.NewStream(0, list...)
		s.Raise = true
		var trace strings.Builder
		s.Log = func(format string, args ...any) { fmt.Fprintf(&trace, format+"\n", args...) }
		c := &s.Chain
		sent := play(t, func() {
			for _, m := range all {
				if rapid.IntRange(0, 3).Draw(t, "continue") == 0 {
					m.cb.ContinueDecoding()
				}
			}
		}, func(end bool) { c.DecodeHeaders(filtertest.Headers(&s.Request, ":path", "/"), end) }, c.DecodeData,
			func() { c.DecodeTrailers(filtertest.Headers(&s.Trailers, "t", "1")) })
		settle(all, func(m *moody) { m.cb.ContinueDecoding() })
		if s.Upstream != sent || !s.UpstreamEnded || strings.Count(trace.String(), "end\n")+strings.Count(trace.String(), "trailers") != 1 {
			t.Fatalf("sent %q, the host got\n%s", sent, trace.String())
		}
		trace.Reset()
		sent = play(t, func() {
			for _, m := range all {
				if rapid.IntRange(0, 3).Draw(t, "continue") == 0 {
					m.cb.ContinueEncoding()
				}
			}
		}, func(end bool) { c.EncodeHeaders(filtertest.Headers(&s.Response, ":status", "200"), end) }, c.EncodeData,
			func() { c.EncodeTrailers(filtertest.Headers(&s.ResponseTrailers, "t", "1")) })
		settle(all, func(m *moody) { m.cb.ContinueEncoding() })
		if s.Got != sent || !s.Ended || strings.Count(trace.String(), "end\n")+strings.Count(trace.String(), "trailers") != 1 {
			t.Fatalf("sent %q, the client got\n%s", sent, trace.String())
		}
	})
}

// play sends a message in parts, and tells what its body is.
func play(t *rapid.T, between func(), head func(bool), data func([]byte, bool), trailers func()) string {
	parts := rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,3}`), 0, 4).Draw(t, "parts")
	trailer := rapid.Bool().Draw(t, "trailers")
	head(len(parts) == 0 && !trailer)
	between()
	for i, p := range parts {
		data([]byte(p), i == len(parts)-1 && !trailer)
		between()
	}
	if trailer {
		trailers()
	}
	between()
	return strings.Join(parts, "")
}

func settle(all []*moody, proceed func(*moody)) {
	for _, m := range all {
		m.settled = true
	}
	for range all {
		for _, m := range all {
			proceed(m)
		}
	}
	for _, m := range all {
		m.settled = false
	}
}

// Whenever a stream is cut off, every filter is destroyed once. Proves HF-06.
func TestDestroyedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := make([]int, rapid.IntRange(1, 4).Draw(t, "filters"))
		var list []filtertest.Filter
		var cbs []filter.Callbacks
		for i := range counts {
			list = append(list, filtertest.Filter{Name: fmt.Sprint(i), New: func(cb filter.Callbacks) filter.HTTPFilter {
				cbs = append(cbs, cb)
				f := &mortal{moody: moody{t: t, cb: cb}, destroyed: &counts[i]}
				return filter.HTTPFilter{Decoder: f, Encoder: f}
			}})
		}
		s := filtertest.NewStream(0, list...)
		s.Raise = true
		steps := []func(){
			func() { s.Chain.DecodeHeaders(filtertest.Headers(&s.Request, ":path", "/"), false) },
			func() { s.Chain.DecodeData([]byte("x"), false) },
			func() { s.Chain.DecodeData([]byte("y"), true) },
			func() { s.Chain.EncodeHeaders(filtertest.Headers(&s.Response, ":status", "200"), false) },
			func() { s.Chain.EncodeData([]byte("z"), true) },
		}
		cut := rapid.IntRange(0, len(steps)).Draw(t, "cut")
		for i, step := range steps {
			if i == cut {
				rapid.SampledFrom([]func(){
					s.Finish, func() { cbs[0].ResetStream("cut") },
					func() { s.Chain.LocalReply(&filter.LocalReply{Status: 500, Body: "cut"}) },
				}).Draw(t, "how")()
			}
			step()
		}
		s.Finish()
		for i, n := range counts {
			if n != 1 {
				t.Fatalf("filter %d was destroyed %d times", i, n)
			}
		}
	})
}

type mortal struct {
	moody
	destroyed *int
}

func (m *mortal) OnDestroy() { *m.destroyed++ }
