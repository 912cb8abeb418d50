package stats

import "strconv"

// prometheus writes the text exposition format, version 0.0.4 (ST-12):
// counters, gauges, readouts if asked for, histograms; each sorted by series.
func (w *renderer) prometheus() {
	l := w.snap.bySeries()
	w.series(l.counters, "counter", w.promScalar)
	w.series(l.gauges, "gauge", w.promScalar)
	if w.opts.TextReadouts {
		w.series(l.texts, "gauge", w.promText)
	}
	if w.opts.Buckets == BucketsSummary {
		w.series(l.histograms, "summary", w.promSummary)
	} else {
		w.series(l.histograms, "histogram", w.promHistogram)
	}
}

// series writes the statistics, which are sorted by series, with one TYPE line
// before each series.
func (w *renderer) series(refs []ref, typ string, one func(r ref, m metric, name []byte)) {
	last, some := "", false
	name := []byte("envoy_")
	w.each(refs, func(r ref, m metric) {
		if series := w.labels(m).series; !some || series != last {
			last, some = series, true
			name = appendPromName(name[:len("envoy_")], series)
			w.buf = append(append(append(w.buf, "# TYPE "...), name...), ' ')
			w.buf = append(append(w.buf, typ...), '\n')
			w.line()
		}
		one(r, m, name)
	})
}

func (w *renderer) labels(m metric) *labels { return w.snap.reg.labels.of(m) }

func (w *renderer) promScalar(r ref, m metric, name []byte) {
	w.sample(name, "", m, "", nil)
	w.buf = append(strconv.AppendUint(w.buf, w.snap.value(r), 10), '\n')
	w.line()
}

func (w *renderer) promText(r ref, m metric, name []byte) {
	tags := w.labels(m).tags.prometheus
	w.buf = append(append(append(w.buf, name...), '{'), tags...)
	if tags != "" {
		w.buf = append(w.buf, ',')
	}
	w.buf = appendLabel(w.buf, Tag{Name: "text_value", Value: w.snap.texts[r.id].value})
	w.buf = append(w.buf, "} 0\n"...)
	w.line()
}

// sample begins a line: the name with its suffix and labels, one more label if
// it has a name, and a space.
func (w *renderer) sample(name []byte, suffix string, m metric, label string, value []byte) {
	w.buf = append(append(append(w.buf, name...), suffix...), '{')
	tags := w.labels(m).tags.prometheus
	w.buf = append(w.buf, tags...)
	if label != "" {
		if tags != "" {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(append(append(append(w.buf, label...), `="`...), value...), '"')
	}
	w.buf = append(w.buf, "} "...)
}

func (w *renderer) promHistogram(r ref, m metric, name []byte) {
	v := w.snap.total(r.id)
	bound := w.num
	for _, x := range w.buckets(m) {
		bound = appendExact(bound[:0], x)
		w.promCount(name, "_bucket", m, "le", bound, v.below(x))
	}
	bound = append(bound[:0], "+Inf"...)
	w.promCount(name, "_bucket", m, "le", bound, v.count)
	w.num = bound
	w.promCount(name, "_sum", m, "", nil, v.sum)
	w.promCount(name, "_count", m, "", nil, v.count)
	w.line()
}

// promSummary shows the last interval, as Envoy does.
func (w *renderer) promSummary(r ref, m metric, name []byte) {
	v := w.snap.interval(r.id)
	q := w.num
	for _, x := range quantiles() {
		q = appendShortest(q[:0], x)
		w.sample(name, "", m, "quantile", q)
		w.buf = append(appendExact(w.buf, v.quantile(x)), '\n')
	}
	w.num = q
	w.promCount(name, "_sum", m, "", nil, v.sum)
	w.promCount(name, "_count", m, "", nil, v.count)
	w.line()
}

func (w *renderer) promCount(name []byte, suffix string, m metric, label string, value []byte, n uint64) {
	w.sample(name, suffix, m, label, value)
	w.buf = append(strconv.AppendUint(w.buf, n, 10), '\n')
}

// appendPromName writes a name with only the characters Prometheus allows.
func appendPromName(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; isAlnum(rune(c)) || c == '_' {
			b = append(b, c)
		} else {
			b = append(b, '_')
		}
	}
	return b
}

func appendLabel(b []byte, t Tag) []byte {
	if t.Name != "" && t.Name[0] >= '0' && t.Name[0] <= '9' {
		b = append(b, '_')
	}
	b = append(appendPromName(b, t.Name), `="`...)
	for i := range len(t.Value) {
		switch c := t.Value[i]; c {
		case '\\', '"':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
