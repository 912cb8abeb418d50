package stats

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Render writes the statistics of snap as opts ask (AD-04, AD-05). It streams:
// nothing of the size of the answer is built. Errors are those of w.
func Render(w io.Writer, snap *Snapshot, opts RenderOptions) error {
	out := &renderer{Writer: bufio.NewWriterSize(w, 32<<10), snap: snap, opts: opts}
	switch opts.Format {
	case FormatJSON:
		out.json()
	case FormatPrometheus:
		out.prometheus()
	case FormatHTML:
		out.html()
	default:
		out.text()
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write statistics: %w", err)
	}
	return nil
}

// renderer writes one answer. Errors of the writer stick in it until Flush.
type renderer struct {
	*bufio.Writer
	snap *Snapshot
	opts RenderOptions
	buf  []byte // scratch of one line
	num  []byte // scratch of one number
	full []byte // scratch of one name
}

// line writes and empties the scratch.
func (w *renderer) line() {
	_, _ = w.Write(w.buf) // the error sticks
	w.buf = w.buf[:0]
}

func (w *renderer) str(s string) {
	_, _ = w.WriteString(s) // the error sticks
}

// keep says whether the statistic is asked for.
func (w *renderer) keep(r ref) bool {
	if w.opts.HiddenOnly || w.opts.UsedOnly && !w.snap.used(r) {
		return false
	}
	if w.opts.Filter == nil {
		return true
	}
	w.full = w.snap.metric(r).appendName(w.full[:0])
	return w.opts.Filter.Match(w.full) != w.opts.InvertFilter
}

// each calls f for the statistics that are asked for.
func (w *renderer) each(refs []ref, f func(r ref, m metric)) {
	for _, r := range refs {
		if w.keep(r) {
			f(r, w.snap.metric(r))
		}
	}
}

// scalars are the counters and gauges of the kinds asked for, by name.
func (w *renderer) scalars() []ref {
	l := w.snap.byName()
	switch w.opts.Kinds {
	case KindAll:
		return l.scalars
	case KindCounters:
		return l.counters
	case KindGauges:
		return l.gauges
	default:
		return nil
	}
}

func (w *renderer) histograms() []ref {
	if w.opts.Kinds == KindAll || w.opts.Kinds == KindHistograms {
		return w.snap.byName().histograms
	}
	return nil
}

func (w *renderer) texts() []ref {
	if w.opts.Kinds == KindAll || w.opts.Kinds == KindTextReadouts {
		return w.snap.byName().texts
	}
	return nil
}

// quantiles are those that Envoy computes.
func quantiles() [10]float64 {
	return [10]float64{0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1}
}

// appendShortest writes a number with as few digits as tell it from others,
// with an exponent from 1e16 on and below 1e-4.
func appendShortest(b []byte, v float64) []byte {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return append(b, "nan"...)
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.AppendFloat(b, v, 'e', -1, 64)
	default:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	}
}

// appendSixDigits writes a number as printf's %g.
func appendSixDigits(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', 6, 64) }

// appendExact writes a number with all its digits, up to 32.
func appendExact(b []byte, v float64) []byte {
	if math.IsNaN(v) {
		return append(b, "nan"...)
	}
	return strconv.AppendFloat(b, v, 'g', 32, 64)
}

// appendJSONNumber writes the shorter of both notations; NaN is null.
func appendJSONNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) {
		return append(b, "null"...)
	}
	at := len(b)
	b = strconv.AppendFloat(b, v, 'f', -1, 64)
	fixed := len(b) - at
	b = strconv.AppendFloat(b, v, 'e', -1, 64)
	if len(b)-at-fixed < fixed {
		return append(b[:at], b[at+fixed:]...)
	}
	return b[:at+fixed]
}
