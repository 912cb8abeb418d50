package stats

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Proves ST-01.
func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"0.0.0.0:443": "0.0.0.0_443", "[::1]:80": "[__1]_80", "cluster.a": "cluster.a", "a.": "a", ".a": "a",
		"http://h/p": "http_h/p", "unix:/tmp/x": "unix_tmp/x", "a\x00b": "a_b", "": "",
	} {
		if got := Sanitize(in); got != want {
			t.Errorf("Sanitize(%q) = %q, want %q", in, got, want)
		}
	}
}

// Proves ST-01: a name is one statistic, however it is reached.
func TestNamesAreIdempotent(t *testing.T) {
	r := registry(t, `{}`)
	listener := r.Scope("listener").Scope("[::1]:80")
	if listener.Prefix() != "listener.[__1]_80." {
		t.Errorf("prefix %q", listener.Prefix())
	}
	if a, b := listener.Counter("x"), r.Scope("listener.[__1]_80").Counter("x"); a != b || a == 0 {
		t.Errorf("counters %d and %d", a, b)
	}
	if a, b := r.Scope("vhost").RawScope("a:b").Gauge("g"), r.Scope("").Gauge("vhost.a:b.g"); a != b {
		t.Errorf("gauges %d and %d", a, b)
	}
	if a, b := r.Scope("h").Histogram("x", Bytes), r.Scope("h").Histogram("x", Milliseconds); a != b {
		t.Errorf("histograms %d and %d", a, b)
	}
	if a, b := r.Scope("h").Text("x"), r.Scope("h").Text("x"); a != b || a == nil {
		t.Errorf("texts %p and %p", a, b)
	}
}

// Proves ST-10: what is rejected costs nothing and does not appear.
func TestMatcher(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		keep   []string
	}{
		"none":      {`{}`, []string{"cluster.a.x", "cluster.B.x", "http.a.y", "server.live"}},
		"all":       {`{"stats_matcher":{"reject_all":true}}`, nil},
		"not all":   {`{"stats_matcher":{"reject_all":false}}`, []string{"cluster.a.x", "cluster.B.x", "http.a.y", "server.live"}},
		"prefix":    {`{"stats_matcher":{"inclusion_list":{"patterns":[{"prefix":"cluster.a"},{"exact":"server.live"}]}}}`, []string{"cluster.a.x", "server.live"}},
		"suffix":    {`{"stats_matcher":{"exclusion_list":{"patterns":[{"suffix":".x"}]}}}`, []string{"http.a.y", "server.live"}},
		"contains":  {`{"stats_matcher":{"inclusion_list":{"patterns":[{"contains":".b.","ignore_case":true}]}}}`, []string{"cluster.B.x"}},
		"case":      {`{"stats_matcher":{"inclusion_list":{"patterns":[{"contains":".b."}]}}}`, nil},
		"whole re":  {`{"stats_matcher":{"inclusion_list":{"patterns":[{"safe_regex":{"regex":"cluster"}}]}}}`, nil},
		"regex alt": {`{"stats_matcher":{"inclusion_list":{"patterns":[{"safe_regex":{"regex":"http.*|server.*"}}]}}}`, []string{"http.a.y", "server.live"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry(t, tc.config)
			s := r.NewShard(func(func()) bool { return false })
			for _, n := range []string{"cluster.a.x", "cluster.B.x", "http.a.y", "server.live"} {
				c, h, g := r.Scope("").Counter(n), r.Scope("").Histogram(n, Bytes), r.Scope("").Gauge(n)
				if kept := slices.Contains(tc.keep, n); (c != 0) != kept || (h != 0) != kept || (g != 0) != kept {
					t.Errorf("%s: numbers %d, %d, %d", n, c, h, g)
				}
				s.Inc(c)
				s.Add(c, 2)
				s.Record(h, 3)
				s.GaugeAdd(g, 4)
				r.Main().Inc(c)
				r.Main().Record(h, 3)
				r.Scope("").Text(n).Set("v")
			}
			s.Close()
			snap := snapshot(t, r)
			if got := len(snap.byName().scalars) + len(snap.byName().histograms) + len(snap.byName().texts); got != 4*len(tc.keep) {
				t.Errorf("%d statistics, want %d", got, 4*len(tc.keep))
			}
			if snap.Counter(0) != 0 || snap.Gauge(0) != 0 {
				t.Error("a rejected statistic has a value")
			}
			for _, n := range tc.keep {
				if v := snap.Counter(r.Scope("").Counter(n)); v != 4 {
					t.Errorf("%s is %d, want 4", n, v)
				}
			}
		})
	}
}

// model is what the registry should say.
type model struct {
	counters map[Counter]uint64
	gauges   map[Gauge]int64
	samples  map[Histogram]uint64
	sums     map[Histogram]uint64
}

// Proves ST-17 and ST-01: whatever interleaving of workers that come and go,
// of new names and of snapshots, sums are those of a plain map.
func TestSumsEqualAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		m := model{map[Counter]uint64{}, map[Gauge]int64{}, map[Histogram]uint64{}, map[Histogram]uint64{}}
		var workers []*worker
		var shards []*Shard
		defer func() {
			for _, w := range workers {
				w.close()
			}
		}()
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("n%d", rapid.IntRange(0, 40).Draw(t, "n")) })
		// on runs the operation on a worker or, without one, on main.
		on := func(shard func(*Shard), main func(*Main)) {
			if i := rapid.IntRange(-1, len(shards)-1).Draw(t, "shard"); i >= 0 {
				workers[i].do(func() { shard(shards[i]) })
				return
			}
			main(r.Main())
		}
		t.Repeat(map[string]func(*rapid.T){
			"start": func(*rapid.T) {
				w := newWorker()
				workers, shards = append(workers, w), append(shards, r.NewShard(w.post))
			},
			"stop": func(t *rapid.T) {
				if len(shards) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(shards)-1).Draw(t, "stop")
				workers[i].do(shards[i].Close)
				workers[i].close()
				workers, shards = slices.Delete(workers, i, i+1), slices.Delete(shards, i, i+1)
			},
			"counter": func(t *rapid.T) {
				c, n := r.Scope("s").Counter(name.Draw(t, "name")), rapid.Uint64Range(0, 9).Draw(t, "n")
				on(func(s *Shard) { s.Add(c, n); s.Inc(c) }, func(m *Main) { m.Add(c, n); m.Inc(c) })
				m.counters[c] += n + 1
			},
			"gauge": func(t *rapid.T) {
				g, d := r.Scope("s").Gauge(name.Draw(t, "name")), rapid.Int64Range(-5, 5).Draw(t, "d")
				on(func(s *Shard) { s.GaugeAdd(g, d) }, func(m *Main) { m.GaugeAdd(g, d) })
				m.gauges[g] += d
			},
			"histogram": func(t *rapid.T) {
				h, v := r.Scope("s").Histogram(name.Draw(t, "name"), Bytes), rapid.Uint64Range(0, 1e9).Draw(t, "v")
				on(func(s *Shard) { s.Record(h, v) }, func(m *Main) { m.Record(h, v) })
				m.samples[h]++
				m.sums[h] += v
			},
			"reset": func(t *rapid.T) {
				if err := r.ResetCounters(context.Background()); err != nil {
					t.Fatal(err)
				}
				clear(m.counters)
			},
			"": func(t *rapid.T) { m.check(t, r) },
		})
	})
}

func (m *model) check(t *rapid.T, r *Registry) {
	s, err := r.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(s.blocks[kindCounter]) << pageBits {
		if c := Counter(i); s.Counter(c) != m.counters[c] {
			t.Fatalf("counter %d is %d, want %d", c, s.Counter(c), m.counters[c])
		}
	}
	for i := range len(s.blocks[kindGauge]) << pageBits {
		if g := Gauge(i); s.Gauge(g) != uint64(max(0, m.gauges[g])) {
			t.Fatalf("gauge %d is %d, want %d", g, s.Gauge(g), m.gauges[g])
		}
	}
	for i := range len(s.blocks[kindHistogram]) << pageBits {
		h := Histogram(i)
		if n, sum := s.HistogramCount(h); n != m.samples[h] || sum != m.sums[h] {
			t.Fatalf("histogram %d: %d samples, sum %d; want %d, %d", h, n, sum, m.samples[h], m.sums[h])
		}
	}
}

// Proves ST-17 under the race detector: snapshots while workers count,
// register names and stop.
func TestSnapshotsWhileWorkersCount(t *testing.T) {
	r := registry(t, `{}`)
	total := r.Scope("s").Counter("total")
	const each = 20000
	var wg sync.WaitGroup
	for i := range 4 {
		w := newWorker()
		s := r.NewShard(w.post)
		wg.Go(func() {
			for range each / 100 {
				w.do(func() {
					for range 100 {
						s.Inc(total)
					}
					s.Record(r.Scope("s").Histogram(fmt.Sprint("h", i), Bytes), 12345)
				})
			}
			w.do(s.Close)
			w.close()
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for last := uint64(0); ; {
		s := snapshot(t, r)
		if n := s.Counter(total); n < last {
			t.Fatalf("a counter went back from %d to %d", last, n)
		} else {
			last = n
		}
		select {
		case <-done:
			if n := snapshot(t, r).Counter(total); n != 4*each {
				t.Errorf("total %d, want %d", n, 4*each)
			}
			return
		default:
			runtime.Gosched()
		}
	}
}

// A worker that hangs must not hang its observers.
func TestSnapshotIsBounded(t *testing.T) {
	r := registry(t, `{}`)
	s := r.NewShard(func(func()) bool { return true }) // takes work and never does it
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := r.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a deadline error", err)
	}
	if err := r.ResetCounters(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("reset: got %v", err)
	}
	if _, _, err := r.Hidden().Sum(ctx, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sum: got %v", err)
	}
	s.Close()
	s.Close() // harmless
	snapshot(t, r)
}

// A worker may stop between being asked and answering.
func TestShardClosesDuringSnapshot(t *testing.T) {
	r := registry(t, `{}`)
	c := r.Scope("").Counter("c")
	var s *Shard
	s = r.NewShard(func(f func()) bool {
		s.Close()
		f() // too late: the values are with the registry
		return true
	})
	s.Add(c, 7)
	if n := snapshot(t, r).Counter(c); n != 7 {
		t.Errorf("got %d, want 7", n)
	}
	if n := snapshot(t, r).Counter(c); n != 7 {
		t.Errorf("afterwards got %d, want 7", n)
	}
}

func TestMainGauges(t *testing.T) {
	r := registry(t, `{}`)
	g, v := r.Scope("").Gauge("g"), r.Scope("").Gauge("version")
	r.Main().GaugeSet(g, 5)
	r.Main().GaugeSet(g, 3)
	r.Main().GaugeAdd(g, 1)
	r.Main().GaugeSetUint(v, 17241709254077376921)
	s := snapshot(t, r)
	if s.Gauge(g) != 4 || s.Gauge(v) != 17241709254077376921 {
		t.Errorf("gauges are %d and %d", s.Gauge(g), s.Gauge(v))
	}
}

// Statistics of hosts count, are not listed, and give their numbers back.
func TestHidden(t *testing.T) {
	r := registry(t, `{}`)
	w := newWorker()
	defer w.close()
	s := r.NewShard(w.post)
	c, g := r.Hidden().Counter(), r.Hidden().Gauge()
	w.do(func() { s.Add(c, 3); s.GaugeAdd(g, 2) })
	r.Main().Inc(c)
	r.Main().GaugeAdd(g, -1)
	cs, gs, err := r.Hidden().Sum(t.Context(), []Counter{c}, []Gauge{g})
	if err != nil || cs[0] != 4 || gs[0] != 1 {
		t.Fatalf("sums %v, %v, %v", cs, gs, err)
	}
	if out := render(t, snapshot(t, r), ""); out != "" {
		t.Errorf("listed: %s", out)
	}
	if err := r.ResetCounters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := snapshot(t, r).Counter(c); n != 4 {
		t.Errorf("a reset changed a hidden counter to %d", n)
	}
	if err := r.Hidden().Release(t.Context(), []Counter{c}, []Gauge{g}); err != nil {
		t.Fatal(err)
	}
	c2, g2 := r.Hidden().Counter(), r.Hidden().Gauge()
	if c2 != c || g2 != g {
		t.Errorf("numbers %d, %d are not used again: %d, %d", c, g, c2, g2)
	}
	if cs, gs, err = r.Hidden().Sum(t.Context(), []Counter{c2}, []Gauge{g2}); err != nil || cs[0] != 0 || gs[0] != 0 {
		t.Errorf("not zero after release: %v, %v, %v", cs, gs, err)
	}
}
