package stats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"
)

// lines is a LineSink that keeps what it gets, unless it is full.
type lines struct {
	mu     sync.Mutex
	got    []string
	chunks int
	full   bool
}

func (l *lines) Send(b []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return false
	}
	l.chunks++
	for s := range strings.Lines(string(b)) {
		l.got = append(l.got, s)
	}
	return true
}

// take returns the lines since the last call, sorted.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	slices.Sort(got)
	return got
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Proves ST-13, ST-14 and RQ-06: a batch each interval, counters as deltas,
// gauges as values, each sample as a line, and a last batch at the end.
func TestFlusher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, `{"stats_matcher": {"exclusion_list": {"patterns": [{"prefix": "server."}]}}}`)
		out := &lines{}
		ctx, cancel := context.WithCancel(t.Context())
		before := 0
		f := NewFlusher(r, FlusherOptions{
			Interval: 5 * time.Second, Sinks: []Sink{NewStatsdTCP("", false, out)}, Before: func() { before++ }, Logger: discard(),
		})
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		w := newWorker()
		s := r.NewShard(w.post)
		c, g, h := r.Scope("a").Counter("c"), r.Scope("a").Gauge("g"), r.Scope("a").Histogram("h", Milliseconds)
		r.Scope("a").Counter("never")
		r.Hidden().Counter()

		w.do(func() { s.Add(c, 3); s.GaugeAdd(g, 2); s.Record(h, 15); s.Record(h, 15); s.Record(h, 0) })
		time.Sleep(4999 * time.Millisecond)
		synctest.Wait()
		check(t, "too early", out)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		check(t, "first", out, "envoy.a.c:3|c", "envoy.a.g:2|g", "envoy.a.h:0|ms", "envoy.a.h:15|ms", "envoy.a.h:15|ms")

		w.do(func() { s.GaugeAdd(g, -2) })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		check(t, "second: nothing but a gauge moved", out, "envoy.a.c:0|c", "envoy.a.g:0|g")

		if err := r.ResetCounters(ctx); err != nil {
			t.Fatal(err)
		}
		w.do(func() { s.Inc(c); s.Record(h, 1234); s.Close() })
		w.close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		check(t, "last", out, "envoy.a.c:1|c", "envoy.a.g:0|g", "envoy.a.h:1250|ms")
		if before != 3 {
			t.Errorf("Before was called %d times, want 3", before)
		}
	})
}

func check(t *testing.T, when string, out *lines, want ...string) {
	t.Helper()
	for i := range want {
		want[i] += "\n"
	}
	if diff := cmp.Diff(want, out.take()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// Proves ST-13: a sink that stalls is counted and neither blocks nor loses the
// next batch.
func TestSlowSink(t *testing.T) {
	r := registry(t, `{}`)
	c := r.Scope("a").Counter("c")
	out, other := &lines{full: true}, &lines{}
	var log bytes.Buffer
	f := NewFlusher(r, FlusherOptions{
		Sinks:  []Sink{NewStatsdTCP("p", false, out), NewStatsdTCP("q", false, other)},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for range 3 {
		r.Main().Inc(c)
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := snapshot(t, r).Counter(f.dropped); n != 3 {
		t.Errorf("server.dropped_stat_flushes is %d, want 3", n)
	}
	if n := strings.Count(log.String(), "drops lines"); n != 1 {
		t.Errorf("%d log lines for one stall:\n%s", n, &log)
	}
	if got := other.take(); !slices.Contains(got, "q.a.c:1|c\n") || len(got) < 3 {
		t.Errorf("the other sink got %q", got)
	}
	out.full = false
	r.Main().Inc(c)
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := out.take(); !slices.Contains(got, "p.a.c:1|c\n") {
		t.Errorf("after the stall: %q", got)
	}
	if !strings.Contains(log.String(), "takes lines again") {
		t.Errorf("the recovery is not logged:\n%s", &log)
	}
}

// stuckSink blocks in Flush until told.
type stuckSink struct{ entered, leave chan struct{} }

func (s stuckSink) Flush(*Batch) error { s.entered <- struct{}{}; <-s.leave; return nil }
func (s stuckSink) Close() error       { return nil }

// Proves ST-13: a flush during a flush is dropped and counted.
func TestFlushesDoNotQueue(t *testing.T) {
	r := registry(t, `{}`)
	s := stuckSink{make(chan struct{}), make(chan struct{})}
	f := NewFlusher(r, FlusherOptions{Sinks: []Sink{s}, Logger: discard()})
	ended := make(chan error)
	go func() { ended <- f.Flush(t.Context()) }()
	<-s.entered
	if err := f.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	close(s.leave)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := snapshot(t, r).Counter(f.dropped); n != 1 {
		t.Errorf("dropped %d, want 1", n)
	}
}

// Proves ST-13: a worker that does not answer costs a flush, not the flusher.
func TestFlushWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry(t, `{}`)
		var log bytes.Buffer
		f := NewFlusher(r, FlusherOptions{Interval: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		r.NewShard(func(func()) bool { return true })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		time.Sleep(2*time.Minute + 30*time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !strings.Contains(log.String(), "did not answer in time") {
			t.Errorf("log: %s", &log)
		}
	})
}

// batch flushes once what set does.
func batch(t *testing.T, config string, s *Statsd, set func(r *Registry)) {
	t.Helper()
	r := registry(t, config)
	f := NewFlusher(r, FlusherOptions{Sinks: []Sink{s}, Logger: discard()})
	set(r)
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Proves ST-14: names, many samples, units.
func TestStatsdLines(t *testing.T) {
	out := &lines{}
	batch(t, `{}`, NewStatsdTCP("pre", false, out), func(r *Registry) {
		r.Main().Inc(r.Scope("vhost").RawScope("v.h:1|@\n").Counter("upstream_rq_200"))
		h := r.Scope("").Histogram("h", Microseconds)
		for range sampleLines + 4 {
			r.Main().Record(h, 7)
		}
		r.Main().Record(h, 1500)
	})
	check(t, "lines", out, "pre.h:1550|ms", "pre.h:7|ms|@0.05", "pre.vhost.v.h_1___.upstream_rq_200:1|c")

	batch(t, `{}`, NewStatsdTCP("pre", true, out), func(r *Registry) {
		r.Main().Record(r.Scope("").Histogram("us", Microseconds), 1500)
		r.Main().Record(r.Scope("").Histogram("us", Microseconds), 7)
		r.Main().Record(r.Scope("").Histogram("ms", Milliseconds), 1500)
	})
	check(t, "scaled", out, "pre.ms:1550|ms", "pre.us:0.007|ms", "pre.us:1.55|ms")
}

// Proves ST-14: a batch for TCP goes out in few pieces of whole lines.
func TestStatsdChunks(t *testing.T) {
	out := &lines{}
	batch(t, `{}`, NewStatsdTCP("", false, out), func(r *Registry) {
		for i := range 2000 {
			r.Main().Inc(r.Scope("cluster.some_service").Counter("upstream_rq_" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)))
		}
	})
	size := 0
	for _, l := range out.got {
		size += len(l)
		if !strings.HasSuffix(l, "|c\n") {
			t.Fatalf("not a whole line: %q", l)
		}
	}
	if len(out.got) != 2000 || out.chunks < size/tcpChunk || out.chunks > size/tcpChunk*11/10+1 {
		t.Errorf("%d lines, %d bytes in %d pieces", len(out.got), size, out.chunks)
	}
}

// udp is a receiver of datagrams.
func udp(t *testing.T) (addr *net.UDPAddr, read func(n int) []string) {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().(*net.UDPAddr), func(n int) []string {
		t.Helper()
		var got []string
		buf := make([]byte, 65536)
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for range n {
			k, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("after %q: %v", got, err)
			}
			got = append(got, string(buf[:k]))
		}
		slices.Sort(got)
		return got
	}
}

func sinkConfig(t *testing.T, js string) *metricsv3.StatsSink {
	t.Helper()
	cfg := &metricsv3.StatsSink{}
	if err := protojson.Unmarshal([]byte(js), cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func udpSink(t *testing.T, typ string, addr *net.UDPAddr, more string) *Statsd {
	t.Helper()
	s, err := NewSink(t.Context(), sinkConfig(t, `{"name": "s", "typed_config": {"@type": "type.googleapis.com/envoy.config.metrics.v3.`+typ+`",
		"address": {"socket_address": {"address": "127.0.0.1", "port_value": `+strconv.Itoa(addr.Port)+`}}`+more+`}}`), SinkDeps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*Statsd)
}

// Proves ST-14: one line in each datagram.
func TestStatsdUDP(t *testing.T) {
	addr, read := udp(t)
	batch(t, `{}`, udpSink(t, "StatsdSink", addr, `, "prefix": "p"`), func(r *Registry) {
		r.Main().Add(r.Scope("cluster.c").Counter("upstream_rq_200"), 2)
		r.Main().GaugeSet(r.Scope("server").Gauge("live"), 1)
	})
	if diff := cmp.Diff([]string{"p.cluster.c.upstream_rq_200:2|c", "p.server.live:1|g"}, read(2)); diff != "" {
		t.Error(diff)
	}
	s, err := NewStatsdUDP(t.Context(), addr.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	batch(t, `{}`, s, func(r *Registry) { r.Main().Inc(r.Scope("").Counter("x")) })
	if got := read(1); got[0] != "envoy.x:1|c" {
		t.Errorf("got %q", got)
	}
}

// Proves ST-14: that nobody listens is not a fault of the flush.
func TestStatsdUDPWithoutReceiver(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	addr := conn.LocalAddr().(*net.UDPAddr)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	s := udpSink(t, "StatsdSink", addr, "")
	r := registry(t, `{}`)
	f := NewFlusher(r, FlusherOptions{Sinks: []Sink{s}, Logger: discard()})
	for range 5 {
		r.Main().Inc(r.Scope("").Counter("x"))
		if err := f.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := snapshot(t, r).Counter(f.dropped); n != 0 {
		t.Errorf("dropped %d", n)
	}
}

// Proves ST-15 as far as dog_statsd goes: tags, and full datagrams.
func TestDogStatsd(t *testing.T) {
	tags := `{"stats_tags": [{"tag_name": "fixed.one", "fixed_value": "v"}]}`
	set := func(r *Registry) {
		r.Main().Add(r.Scope("cluster.c").Counter("upstream_rq_200"), 2)
		r.Main().GaugeSet(r.Scope("server").Gauge("live"), 1)
		h := r.Scope("http.in").Histogram("downstream_rq_time", Milliseconds)
		for range 20 {
			r.Main().Record(h, 5)
		}
	}
	want := []string{
		"d.cluster.upstream_rq:2|c|#envoy.response_code:200,fixed.one:v,envoy.cluster_name:c",
		"d.http.downstream_rq_time:5|ms|@0.05|#fixed.one:v,envoy.http_conn_manager_prefix:in",
		"d.server.live:1|g|#fixed.one:v",
	}
	addr, read := udp(t)
	batch(t, tags, udpSink(t, "DogStatsdSink", addr, `, "prefix": "d"`), set)
	if diff := cmp.Diff(want, read(3)); diff != "" {
		t.Error(diff)
	}
	batch(t, tags, udpSink(t, "DogStatsdSink", addr, `, "prefix": "d", "max_bytes_per_datagram": 120`), set)
	if diff := cmp.Diff([]string{want[0] + "\n" + want[2], want[1]}, read(2)); diff != "" {
		t.Error(diff)
	}
	batch(t, tags, udpSink(t, "DogStatsdSink", addr, `, "prefix": "d", "max_bytes_per_datagram": 1`), set)
	if diff := cmp.Diff(want, read(3)); diff != "" {
		t.Errorf("lines longer than a datagram go alone: %s", diff)
	}
}

// Proves ST-14 and BS-44: what sinks cannot do is refused by name.
func TestNewSink(t *testing.T) {
	out := &lines{}
	deps := SinkDeps{Cluster: func(name string) (LineSink, error) {
		if name != "some_statsd_sink" {
			return nil, errors.New("unknown cluster '" + name + "'")
		}
		return out, nil
	}}
	const typ = `"@type": "type.googleapis.com/envoy.config.metrics.v3.`
	s, err := NewSink(t.Context(), sinkConfig(t, `{"name": "envoy.stat_sinks.statsd", "typed_config": {`+typ+`StatsdSink", "tcp_cluster_name": "some_statsd_sink"}}`), deps)
	if err != nil {
		t.Fatal(err)
	}
	batch(t, `{}`, s.(*Statsd), func(r *Registry) { r.Main().Inc(r.Scope("").Counter("x")) })
	check(t, "TCP", out, "envoy.x:1|c")
	for js, want := range map[string]string{
		`{"name": "a"}`: `stats sink "a": typed_config: value is required`,
		`{"name": "a", "typed_config": {` + typ + `HystrixSink"}}`:                                                                                     "envoy.config.metrics.v3.HystrixSink is not built",
		`{"name": "a", "typed_config": {` + typ + `StatsdSink"}}`:                                                                                      "statsd_specifier",
		`{"name": "a", "typed_config": {` + typ + `StatsdSink", "tcp_cluster_name": "nope"}}`:                                                          "tcp_cluster_name: unknown cluster 'nope'",
		`{"name": "a", "typed_config": {` + typ + `StatsdSink", "address": {"pipe": {"path": "/x"}}}}`:                                                 "only socket_address is built",
		`{"name": "a", "typed_config": {` + typ + `StatsdSink", "address": {"socket_address": {"address": "host", "port_value": 1}}}}`:                 "malformed IP address: host",
		`{"name": "a", "typed_config": {` + typ + `StatsdSink", "address": {"socket_address": {"address": "127.0.0.1", "named_port": "x"}}}}`:          "port_value is required",
		`{"name": "a", "typed_config": {` + typ + `DogStatsdSink"}}`:                                                                                   "dog_statsd_specifier",
		`{"name": "a", "typed_config": {` + typ + `DogStatsdSink", "address": {"socket_address": {"address": "::1"}}, "max_bytes_per_datagram": "0"}}`: "max_bytes_per_datagram",
		`{"name": "a", "typed_config": {"@type": "type.googleapis.com/envoy.config.core.v3.Node", "id": "x"}}`:                                         "envoy.config.core.v3.Node is not built",
	} {
		if _, err := NewSink(t.Context(), sinkConfig(t, js), deps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", js, err, want)
		}
	}
}

// Proves BS-44.
func TestFlushInterval(t *testing.T) {
	for js, want := range map[string]string{
		`{}`:                                 "5s false",
		`{"stats_flush_interval": "0.001s"}`: "1ms false",
		`{"stats_flush_interval": "299.9s"}`: "4m59.9s false",
		`{"stats_flush_on_admin": true}`:     "5s true",
		`{"stats_flush_interval": "300s"}`:   "stats_flush_interval: 5m0s: value must be inside range [1ms, 5m0s)",
		`{"stats_flush_interval": "0s"}`:     "stats_flush_interval: 0s: value must be inside range [1ms, 5m0s)",
		`{"stats_flush_interval": "-1s"}`:    "stats_flush_interval: -1s: value must be inside range [1ms, 5m0s)",
	} {
		b := &bootstrapv3.Bootstrap{}
		if err := protojson.Unmarshal([]byte(js), b); err != nil {
			t.Fatal(err)
		}
		d, admin, err := FlushInterval(b)
		got := d.String() + " false"
		if admin {
			got = d.String() + " true"
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", js, got, want)
		}
	}
}

// A flush without sinks ends the intervals of histograms all the same, as one with
// sinks does, and asks for nothing else.
func TestFlushWithoutSinks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		with, without := registry(t, `{}`), registry(t, `{}`)
		both := []*Registry{with, without}
		flushers := []*Flusher{
			NewFlusher(with, FlusherOptions{Sinks: []Sink{NewStatsdTCP("", false, &lines{})}, Logger: discard()}),
			NewFlusher(without, FlusherOptions{Before: func() { rt.Error("gauges were set for nobody") }, Logger: discard()}),
		}
		var shards [][]*Shard
		for range 2 {
			shards = append(shards, []*Shard{with.NewShard(here), without.NewShard(here)})
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			what, who := rapid.IntRange(0, 9).Draw(rt, "what"), rapid.IntRange(0, 2).Draw(rt, "who")
			name, v := fmt.Sprint("h", rapid.IntRange(0, 20).Draw(rt, "h")), rapid.Uint64Range(0, 500).Draw(rt, "v")
			for i, r := range both {
				h := r.Scope("x").Histogram(name, Milliseconds)
				switch {
				case what == 0:
					if err := flushers[i].Flush(t.Context()); err != nil {
						rt.Fatal(err)
					}
				case who < 2:
					shards[who][i].Record(h, v)
				default:
					r.Main().Record(h, v)
				}
			}
			if want, got := render(t, snapshot(t, with), "type=Histograms"), render(t, snapshot(t, without), "type=Histograms"); got != want {
				rt.Fatalf("without sinks:\n%s\nwith:\n%s", got, want)
			}
		}
	})
}
