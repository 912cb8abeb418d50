package worker

import (
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Buffering is a connection's handler that tells which gauge counts the bytes
// that wait to be sent on the connection; 0 is none.
type Buffering interface{ BufferedGauge() stats.Gauge }

// CountBuffered makes the gauges of bytes that wait to be sent true, until
// something is sent: it is for just before the worker's statistics are read,
// since only then somebody looks. It goes through the connections whose peers do
// not keep up; all others have sent everything.
func (w *Worker) CountBuffered() {
	for g := range w.buffered {
		b := w.buffered[g]
		w.buffered[g] = bufferedBytes{told: b.told}
	}
	for c := range w.Loop.Blocked() {
		h, ok := c.Handler().(Buffering)
		if !ok {
			continue
		}
		if g := h.BufferedGauge(); g != 0 {
			b := w.buffered[g]
			b.now += int64(c.Waiting())
			w.setBuffered(g, b)
		}
	}
	for g, b := range w.buffered {
		w.Stats.GaugeAdd(g, b.now-b.told)
		if b.told = b.now; b.now == 0 {
			delete(w.buffered, g)
		} else {
			w.buffered[g] = b
		}
	}
}

// bufferedBytes are a gauge's bytes now and as it was told last.
type bufferedBytes struct{ now, told int64 }

func (w *Worker) setBuffered(g stats.Gauge, b bufferedBytes) {
	if w.buffered == nil {
		w.buffered = map[stats.Gauge]bufferedBytes{}
	}
	w.buffered[g] = b
}
