package admin

import (
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// httpStats are the statistics "http.admin." (AD-19): those of a connection
// manager that can happen here.
type httpStats struct {
	CxActive      stats.Gauge     `stat:"downstream_cx_active"`
	CxDestroy     stats.Counter   `stat:"downstream_cx_destroy"`
	CxHTTP1Active stats.Gauge     `stat:"downstream_cx_http1_active"`
	CxHTTP1Total  stats.Counter   `stat:"downstream_cx_http1_total"`
	CxHTTP2Active stats.Gauge     `stat:"downstream_cx_http2_active"`
	CxHTTP2Total  stats.Counter   `stat:"downstream_cx_http2_total"`
	CxLength      stats.Histogram `stat:"downstream_cx_length_ms,ms"`
	CxRxTotal     stats.Counter   `stat:"downstream_cx_rx_bytes_total"`
	CxTotal       stats.Counter   `stat:"downstream_cx_total"`
	CxTxTotal     stats.Counter   `stat:"downstream_cx_tx_bytes_total"`
	RqActive      stats.Gauge     `stat:"downstream_rq_active"`
	RqHTTP1Total  stats.Counter   `stat:"downstream_rq_http1_total"`
	RqHTTP2Total  stats.Counter   `stat:"downstream_rq_http2_total"`
	RqTime        stats.Histogram `stat:"downstream_rq_time,ms"`
	RqTotal       stats.Counter   `stat:"downstream_rq_total"`
	codeStats
}

// codeStats count answers, once below "http.admin." and once below
// "listener.admin.http.admin.".
type codeStats struct {
	Rq1xx     stats.Counter `stat:"downstream_rq_1xx"`
	Rq2xx     stats.Counter `stat:"downstream_rq_2xx"`
	Rq3xx     stats.Counter `stat:"downstream_rq_3xx"`
	Rq4xx     stats.Counter `stat:"downstream_rq_4xx"`
	Rq5xx     stats.Counter `stat:"downstream_rq_5xx"`
	Completed stats.Counter `stat:"downstream_rq_completed"`
}

func (c *codeStats) class(status int) stats.Counter {
	return [...]stats.Counter{c.Rq1xx, c.Rq2xx, c.Rq3xx, c.Rq4xx, c.Rq5xx}[min(max(status/100, 1), 5)-1]
}

// listenerStats are the statistics "listener.admin.".
type listenerStats struct {
	CxActive       stats.Gauge     `stat:"downstream_cx_active"`
	CxDestroy      stats.Counter   `stat:"downstream_cx_destroy"`
	CxLength       stats.Histogram `stat:"downstream_cx_length_ms,ms"`
	CxTotal        stats.Counter   `stat:"downstream_cx_total"`
	MainThreadCx   stats.Gauge     `stat:"main_thread.downstream_cx_active"`
	MainThreadCxes stats.Counter   `stat:"main_thread.downstream_cx_total"`
}

// counts counts on the registry's main side, which any goroutine may.
type counts struct {
	main     *stats.Main
	http     httpStats
	codes    codeStats
	listener listenerStats
}

func newCounts(r *stats.Registry) *counts {
	c := &counts{main: r.Main()}
	h, l := r.Scope("http.admin"), r.Scope("listener.admin")
	h.Fill(&c.http)
	h.Fill(&c.http.codeStats)
	l.Fill(&c.listener)
	l.Scope("http.admin").Fill(&c.codes)
	return c
}

// opened counts a connection.
func (c *counts) opened() {
	m := c.main
	m.Inc(c.http.CxTotal)
	m.GaugeAdd(c.http.CxActive, 1)
	m.Inc(c.listener.CxTotal)
	m.Inc(c.listener.MainThreadCxes)
	m.GaugeAdd(c.listener.CxActive, 1)
	m.GaugeAdd(c.listener.MainThreadCx, 1)
}

// protocol is what a connection speaks, once it has said something.
type protocol int32

const (
	silent protocol = iota
	http1
	http2
)

// spoke counts a connection of a protocol.
func (c *counts) spoke(p protocol) {
	if p == http2 {
		c.main.Inc(c.http.CxHTTP2Total)
		c.main.GaugeAdd(c.http.CxHTTP2Active, 1)
		return
	}
	c.main.Inc(c.http.CxHTTP1Total)
	c.main.GaugeAdd(c.http.CxHTTP1Active, 1)
}

func (c *counts) closed(p protocol, lived time.Duration) {
	m, ms := c.main, uint64(max(lived, 0)/time.Millisecond)
	m.Inc(c.http.CxDestroy)
	m.GaugeAdd(c.http.CxActive, -1)
	switch p {
	case http1:
		m.GaugeAdd(c.http.CxHTTP1Active, -1)
	case http2:
		m.GaugeAdd(c.http.CxHTTP2Active, -1)
	case silent:
	}
	m.Record(c.http.CxLength, ms)
	m.Inc(c.listener.CxDestroy)
	m.GaugeAdd(c.listener.CxActive, -1)
	m.GaugeAdd(c.listener.MainThreadCx, -1)
	m.Record(c.listener.CxLength, ms)
}

func (c *counts) began(r *http.Request) {
	c.main.Inc(c.http.RqTotal)
	if r.ProtoMajor == 2 {
		c.main.Inc(c.http.RqHTTP2Total)
	} else {
		c.main.Inc(c.http.RqHTTP1Total)
	}
	c.main.GaugeAdd(c.http.RqActive, 1)
}

func (c *counts) ended(x *Exchange) {
	m := c.main
	m.GaugeAdd(c.http.RqActive, -1)
	m.Inc(c.http.Completed)
	m.Inc(c.http.class(x.Status))
	m.Inc(c.codes.Completed)
	m.Inc(c.codes.class(x.Status))
	m.Record(c.http.RqTime, uint64(max(x.Duration, 0)/time.Millisecond))
}

// countedListener counts its connections and their bytes.
type countedListener struct {
	net.Listener
	c *counts
}

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // net/http looks at it
	}
	l.c.opened()
	return &countedConn{Conn: conn, c: l.c, began: time.Now()}, nil
}

type countedConn struct {
	net.Conn
	c     *counts
	began time.Time
	spoke atomic.Int32 // a protocol
	ended atomic.Bool
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.c.main.Add(c.c.http.CxRxTotal, uint64(max(n, 0)))
	if n > 0 && c.spoke.Load() == int32(silent) {
		p := http1
		if preface := "PRI "; strings.HasPrefix(preface, string(b[:min(n, len(preface))])) {
			p = http2
		}
		c.spoke.Store(int32(p))
		c.c.spoke(p)
	}
	return n, err //nolint:wrapcheck // net/http looks at it
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.c.main.Add(c.c.http.CxTxTotal, uint64(max(n, 0)))
	return n, err //nolint:wrapcheck // net/http looks at it
}

func (c *countedConn) Close() error {
	if !c.ended.Swap(true) {
		c.c.closed(protocol(c.spoke.Load()), time.Since(c.began))
	}
	return c.Conn.Close() //nolint:wrapcheck // net/http looks at it
}

// Exchange is a request that was answered. It is valid during the call.
type Exchange struct {
	Request *http.Request
	// Local is the address of our end.
	Local net.Addr
	// Status, Header and Sent are the answer's: Sent counts the bytes of its body.
	Status int
	Header http.Header
	Sent   uint64
	// Start is when the request was read, Duration how long the answer took.
	Start    time.Time
	Duration time.Duration
}

// recorder takes note of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	sent   uint64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.sent += uint64(max(n, 0))
	return n, err //nolint:wrapcheck // the handler looks at it
}

// Flush sends what was written; gRPC needs it.
func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
