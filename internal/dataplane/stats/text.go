package stats

import (
	"html"
	"math"
	"strconv"
)

// text writes readouts, then counters and gauges in one order, then
// histograms.
func (w *renderer) text() {
	w.textReadouts()
	w.textScalars()
	w.textHistograms()
}

// textReadouts escapes values for HTML even in plain text, as Envoy does: some
// come from other machines.
func (w *renderer) textReadouts() {
	w.each(w.texts(), func(r ref, m metric) {
		w.name(m)
		w.buf = append(append(w.buf, ` "`...), html.EscapeString(w.snap.texts[r.id].value)...)
		w.buf = append(w.buf, "\"\n"...)
		w.line()
	})
}

// name begins a line.
func (w *renderer) name(m metric) {
	if w.opts.Format == FormatHTML {
		w.buf = append(w.buf, html.EscapeString(m.name())...)
	} else {
		w.buf = m.appendName(w.buf)
	}
	w.buf = append(w.buf, ':')
}

func (w *renderer) textScalars() {
	w.each(w.scalars(), func(r ref, m metric) {
		w.name(m)
		w.buf = append(w.buf, ' ')
		w.buf = append(strconv.AppendUint(w.buf, w.snap.value(r), 10), '\n')
		w.line()
	})
}

func (w *renderer) textHistograms() {
	w.each(w.histograms(), func(r ref, m metric) {
		total, in := w.snap.total(r.id), w.snap.interval(r.id)
		w.name(m)
		switch {
		case total.count == 0:
			w.buf = append(w.buf, " No recorded values"...)
		case w.opts.Buckets == BucketsCumulative:
			w.buf = appendBuckets(w.buf, w.buckets(m), in.cumulative(w.buckets(m)), total.cumulative(w.buckets(m)))
		case w.opts.Buckets == BucketsDisjoint:
			w.buf = appendBuckets(w.buf, w.buckets(m), in.disjoint(w.buckets(m)), total.disjoint(w.buckets(m)))
		case w.opts.Buckets == BucketsDetailed:
			w.buf = appendBins(append(w.buf, "\n  totals="...), total)
			w.buf = appendBins(append(w.buf, "\n  intervals="...), in)
			w.buf = append(w.buf, "\n  summary="...)
			w.buf = appendQuantiles(w.buf, in, total)
		default:
			w.buf = appendQuantiles(append(w.buf, ' '), in, total)
		}
		w.buf = append(w.buf, '\n')
		w.line()
	})
}

func (w *renderer) buckets(m metric) []float64 { return w.snap.reg.conf.bucketsOf(m) }

// appendQuantiles writes P0(interval,total) P25(…) ….
func appendQuantiles(b []byte, in, total histView) []byte {
	for i, q := range quantiles() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = appendShortest(append(b, 'P'), percent(q))
		b = appendShortest(append(b, '('), in.quantile(q))
		b = appendShortest(append(b, ','), total.quantile(q))
		b = append(b, ')')
	}
	return b
}

// percent is 99.5 for 0.995, whatever the last bits say.
func percent(q float64) float64 { return math.Round(q*1000) / 10 }

func appendBuckets(b []byte, bounds []float64, in, total []uint64) []byte {
	for i, bound := range bounds {
		b = appendSixDigits(append(b, " B"...), bound)
		b = strconv.AppendUint(append(b, '('), in[i], 10)
		b = strconv.AppendUint(append(b, ','), total[i], 10)
		b = append(b, ')')
	}
	return b
}

func appendBins(b []byte, v histView) []byte {
	for i, x := range v.bins {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendShortest(append(appendShortest(b, x.left), ','), x.width)
		b = strconv.AppendUint(append(b, ':'), x.n, 10)
	}
	return b
}

// cumulative counts the samples up to each bound.
func (v histView) cumulative(bounds []float64) []uint64 {
	out := make([]uint64, len(bounds))
	for i, x := range bounds {
		out[i] = v.below(x)
	}
	return out
}

// disjoint counts the samples between each bound and the one before.
func (v histView) disjoint(bounds []float64) []uint64 {
	out := v.cumulative(bounds)
	for i := len(out) - 1; i > 0; i-- {
		out[i] -= out[i-1]
	}
	return out
}

// html writes the text in a page.
func (w *renderer) html() {
	w.str("<!DOCTYPE html>\n<html lang='en'>\n<head>\n  <title>Statistics</title>\n</head>\n<body>\n<pre>\n")
	w.text()
	w.str("</pre>\n</body>\n</html>\n")
}
