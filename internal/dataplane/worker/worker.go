// Package worker is what the parts of the request path share on one worker:
// its loop, its statistics and its memory for reuse.
package worker

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Worker is one worker of the proxy. Everything is confined to its loop.
type Worker struct {
	Loop  *loop.Loop
	Stats *stats.Shard
	// ID counts workers from 0.
	ID int
	// Streams are the HTTP/2 streams of all connections, for reuse.
	Streams http2.Pool
	// Scratch is a header map for what is needed during one call.
	Scratch header.Map
	// Counts implements filter.Stats.
	Counts Counts
	// Log is the worker's access-log buffers.
	Log *accesslog.Worker
	// Timeouts are how long is waited while the proxy is overloaded; nil if that
	// changes nothing.
	Timeouts *overload.Timeouts

	ids     *IDs
	date    string
	dateFor int64
	buf     []byte
	// buffered are the gauges that CountBuffered has set.
	buffered map[stats.Gauge]bufferedBytes
}

// IDs hands out numbers of connections and streams for the whole process.
type IDs struct{ conn atomic.Uint64 }

// New makes a worker on a loop.
func New(id int, l *loop.Loop, s *stats.Shard, ids *IDs) *Worker {
	return &Worker{Loop: l, Stats: s, ID: id, Counts: Counts{s}, ids: ids}
}

// ConnectionID is a new connection's number.
func (w *Worker) ConnectionID() uint64 { return w.ids.conn.Add(1) }

// StreamID is a random number for a stream.
func (w *Worker) StreamID() uint64 { return w.Loop.Random() }

// Date is the present time for a Date header. It is made once a second.
func (w *Worker) Date() string {
	now := w.Loop.Wall()
	if s := now.Unix(); s != w.dateFor {
		w.dateFor, w.date = s, now.UTC().Format(http.TimeFormat)
	}
	return w.date
}

// Itoa is a number as a string that lives as long as the map it is kept in.
func (w *Worker) Itoa(n int64, in *header.Map) string {
	if n >= 0 && n < int64(len(smallNumbers)) {
		return smallNumbers[n]
	}
	w.buf = strconv.AppendInt(w.buf[:0], n, 10)
	return in.Keep(w.buf)
}

// smallNumbers are the texts of small numbers.
//
//nolint:gochecknoglobals // a table of constants
var smallNumbers = func() (s [128]string) {
	for i := range s {
		s[i] = strconv.Itoa(i)
	}
	return s
}()

// Millis is a time in whole milliseconds, for histograms.
func Millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

// Counts counts on a shard for filters.
type Counts struct{ shard *stats.Shard }

// Inc implements filter.Stats.
func (c Counts) Inc(counter uint32) { c.shard.Inc(stats.Counter(counter)) }

// Add implements filter.Stats.
func (c Counts) Add(counter uint32, n uint64) { c.shard.Add(stats.Counter(counter), n) }

// GaugeAdd implements filter.Stats.
func (c Counts) GaugeAdd(gauge uint32, n int64) { c.shard.GaugeAdd(stats.Gauge(gauge), n) }

// Record implements filter.Stats.
func (c Counts) Record(h uint32, v uint64) { c.shard.Record(stats.Histogram(h), v) }
