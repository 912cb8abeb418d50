package stats

import (
	"encoding/json"
	"strconv"
)

// json writes {"stats":[{"name":…,"value":…},…,{"histograms":…}]}.
func (w *renderer) json() {
	w.str(`{"stats":[`)
	sep := &separator{w: w}
	w.each(w.texts(), func(r ref, m metric) {
		sep.next()
		w.jsonName(m)
		w.buf = append(appendJSONString(append(w.buf, `,"value":`...), w.snap.texts[r.id].value), '}')
		w.line()
	})
	w.each(w.scalars(), func(r ref, m metric) {
		sep.next()
		w.jsonName(m)
		w.buf = append(strconv.AppendUint(append(w.buf, `,"value":`...), w.snap.value(r), 10), '}')
		w.line()
	})
	w.jsonHistograms(sep)
	w.str("]}")
}

// separator puts commas between the elements of a list.
type separator struct {
	w    *renderer
	some bool
}

func (s *separator) next() {
	if s.some {
		s.w.str(",")
	}
	s.some = true
}

// jsonName begins an object with its name.
func (w *renderer) jsonName(m metric) {
	w.full = m.appendName(w.full[:0])
	w.buf = appendJSONString(append(w.buf, `{"name":`...), w.full)
}

func appendJSONString[S string | []byte](b []byte, s S) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c >= 0x7f {
			q, err := json.Marshal(string(s))
			if err != nil { // a string always marshals
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// jsonHistograms writes one element for all histograms, or none if there are
// none.
func (w *renderer) jsonHistograms(outer *separator) {
	head, tail := "", "]}"
	one := w.jsonQuantiles
	switch w.opts.Buckets {
	case BucketsCumulative, BucketsDisjoint:
		head, one = `{"histograms":[`, w.jsonBuckets
	case BucketsDetailed:
		head, tail, one = `{"histograms":{"supported_percentiles":`+jsonPercents()+`,"details":[`, "]}}", w.jsonBins
	default:
		head, tail = `{"histograms":{"supported_quantiles":`+jsonPercents()+`,"computed_quantiles":[`, "]}}"
	}
	inner := &separator{w: w}
	w.each(w.histograms(), func(r ref, m metric) {
		if !inner.some {
			outer.next()
			w.str(head)
		}
		inner.next()
		w.jsonName(m)
		one(w.snap.interval(r.id), w.snap.total(r.id), m)
		w.buf = append(w.buf, '}')
		w.line()
	})
	if inner.some {
		w.str(tail)
	}
}

func jsonPercents() string {
	b := []byte{'['}
	for i, q := range quantiles() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendJSONNumber(b, percent(q))
	}
	return string(append(b, ']'))
}

func (w *renderer) jsonQuantiles(in, total histView, _ metric) {
	w.buf = append(w.buf, `,"values":`...)
	w.jsonQuantileList(in, total)
}

func (w *renderer) jsonQuantileList(in, total histView) {
	w.buf = append(w.buf, '[')
	for i, q := range quantiles() {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = appendJSONNumber(append(w.buf, `{"cumulative":`...), total.quantile(q))
		w.buf = appendJSONNumber(append(w.buf, `,"interval":`...), in.quantile(q))
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, ']')
}

func (w *renderer) jsonBuckets(in, total histView, m metric) {
	bounds := w.buckets(m)
	count := histView.cumulative
	if w.opts.Buckets == BucketsDisjoint {
		count = histView.disjoint
	}
	ins, totals := count(in, bounds), count(total, bounds)
	w.buf = append(w.buf, `,"buckets":[`...)
	for i, bound := range bounds {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = appendJSONNumber(append(w.buf, `{"upper_bound":`...), bound)
		w.buf = strconv.AppendUint(append(w.buf, `,"interval":`...), ins[i], 10)
		w.buf = strconv.AppendUint(append(w.buf, `,"cumulative":`...), totals[i], 10)
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, ']')
}

func (w *renderer) jsonBins(in, total histView, _ metric) {
	for _, v := range []struct {
		key string
		histView
	}{{`,"totals":[`, total}, {`,"intervals":[`, in}} {
		w.buf = append(w.buf, v.key...)
		for i, x := range v.bins {
			if i > 0 {
				w.buf = append(w.buf, ',')
			}
			w.buf = appendJSONNumber(append(w.buf, `{"lower_bound":`...), x.left)
			w.buf = appendJSONNumber(append(w.buf, `,"width":`...), x.width)
			w.buf = strconv.AppendUint(append(w.buf, `,"count":`...), x.n, 10)
			w.buf = append(w.buf, '}')
		}
		w.buf = append(w.buf, ']')
	}
	w.buf = append(w.buf, `,"percentiles":`...)
	w.jsonQuantileList(in, total)
}
