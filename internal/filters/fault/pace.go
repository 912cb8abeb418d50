package fault

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// perSecond is how many slices of a response go out in a second.
const perSecond = 20

// bucket is the allowance of a response: tokens of a slice of bytes each, of
// which it gains 20 a second and holds as many.
type bucket struct {
	slice  int // bytes; 0 does not limit
	tokens float64
	at     time.Duration // when tokens was computed
	filled bool          // the first data were seen
}

// start gives the first token: a response begins at its rate and without a
// burst.
func (b *bucket) start(now time.Duration) {
	if !b.filled {
		b.filled, b.tokens, b.at = true, 1, now
	}
}

// take is how many of so many bytes may go now, and how long to wait for more.
func (b *bucket) take(n int, now time.Duration) (bytes int, wait time.Duration) {
	b.tokens = min(b.tokens+(now-b.at).Seconds()*perSecond, perSecond)
	b.at = now
	need := (n + b.slice - 1) / b.slice
	got := min(need, int(b.tokens))
	b.tokens -= float64(got)
	if bytes = min(n, got*b.slice); bytes == n {
		return bytes, 0
	}
	lack := time.Duration((1 - b.tokens) / perSecond * float64(time.Second))
	// Whole milliseconds, as timers have them, and never too early.
	return bytes, (lack/time.Millisecond + 1) * time.Millisecond
}

// limitResponse slows the response down, if that is its lot.
func (f *stream) limitResponse(h *header.Map) {
	r := f.settings.rate
	if r == nil {
		return
	}
	kbps := r.kbps
	if r.byHead {
		n, ok := number(h, rateHeader)
		if !ok || n == 0 {
			return
		}
		kbps = n
	}
	if !f.kind.enabled(f.settings.rateKey, share(r.share, r.byHead, h, ratePercentHeader), f.cb.Random) {
		return
	}
	const most = 1 << 30 // KiB a second: more is no limit
	f.bucket = bucket{slice: int(min(kbps, most) * 1024 / perSecond)}
	f.begin()
	f.cb.Stats().Inc(f.kind.limited)
}

// Encode1xx implements filter.Encoder.
func (*stream) Encode1xx(*header.Map) {}

// EncodeHeaders implements filter.Encoder.
func (*stream) EncodeHeaders(*header.Map, bool) filter.HeadersStatus { return filter.Continue }

// EncodeData implements filter.Encoder. What is held goes out bit by bit; the
// host is paused while that is more than the limit.
func (f *stream) EncodeData(_ *filter.Buffer, end bool) filter.DataStatus {
	if f.bucket.slice == 0 {
		return filter.DataContinue
	}
	f.ended = end
	f.bucket.start(f.cb.Now())
	f.after(0)
	return filter.DataStopIterationAndWatermark
}

// EncodeTrailers implements filter.Encoder.
func (f *stream) EncodeTrailers(*header.Map) filter.TrailersStatus {
	if f.bucket.slice == 0 {
		return filter.TrailersContinue
	}
	if b := f.cb.EncodingBuffer(); b == nil || b.Len() == 0 {
		return filter.TrailersContinue
	}
	f.trailers = true
	return filter.TrailersStop
}

func (f *stream) after(d time.Duration) {
	if !f.pacing {
		f.pacing = true
		f.pace = f.cb.After(d, f.send)
	}
}

// send gives as much to the client as the allowance has.
func (f *stream) send() {
	f.pacing = false
	b := f.cb.EncodingBuffer()
	if b == nil {
		return
	}
	n, wait := f.bucket.take(b.Len(), f.cb.Now())
	part := b.Bytes()[:n]
	b.Drain(n)
	rest := b.Len()
	if rest > 0 {
		f.after(wait)
	}
	last := rest == 0 && f.trailers
	if n > 0 || f.ended && rest == 0 {
		cb := f.cb // the stream may be over, and this one's, afterwards
		cb.InjectEncodedData(part, f.ended && rest == 0)
		if last {
			cb.ContinueEncoding()
		}
		return
	}
	if last {
		f.cb.ContinueEncoding()
	}
}
