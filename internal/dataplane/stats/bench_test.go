package stats

import (
	"fmt"
	"io"
	"runtime"
	"testing"
)

func inline(func()) bool { return true }

// Proves ST-17: counting does not allocate.
func TestCountingDoesNotAllocate(t *testing.T) {
	r := registry(t, `{}`)
	s := r.NewShard(inline)
	c, g, h := r.Scope("").Counter("c"), r.Scope("").Gauge("g"), r.Scope("").Histogram("h", Milliseconds)
	for v := uint64(1); v < 1e9; v *= 10 {
		s.Record(h, v)
	}
	s.Inc(c)
	s.GaugeAdd(g, 1)
	v := uint64(1)
	if n := testing.AllocsPerRun(1000, func() {
		s.Inc(c)
		s.Add(c, 3)
		s.Inc(0)
		s.GaugeAdd(g, -1)
		s.Record(h, v)
		s.Record(0, v)
		v = v * 7 % 1e9
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// many registers n names as a proxy with many clusters has them.
func many(t testing.TB, n int) *Registry {
	r := registry(t, `{}`)
	for i := range n / 100 {
		s := r.Scope("cluster").Scope(fmt.Sprintf("outbound|8080||service-%d.namespace-%d.svc.cluster.local", i, i%50))
		for j := range 70 {
			s.Counter(fmt.Sprintf("upstream_rq_something_%d", j))
		}
		for j := range 25 {
			s.Gauge(fmt.Sprintf("upstream_cx_active_%d", j))
		}
		for j := range 5 {
			s.Histogram(fmt.Sprintf("upstream_rq_time_%d", j), Milliseconds)
		}
	}
	return r
}

func histogramsOf(r *Registry) (out []Histogram) {
	for i, b := range r.ids[kindHistogram].blocks {
		if b != nil {
			for j := range b.names.Load().leaves[kindHistogram] {
				out = append(out, Histogram(i<<pageBits+j)) //nolint:gosec // not negative
			}
		}
	}
	return out
}

// Proves ST-17: 100k names, with two workers that use all of them and both
// orders listed, are below 100 MiB.
func TestMemoryOf100kNames(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := many(t, 100_000)
	var shards []*Shard
	for range 2 {
		s := r.NewShard(inline)
		for i := range len(r.ids[kindCounter].blocks) << pageBits {
			s.Inc(Counter(i))
		}
		for _, h := range histogramsOf(r) {
			s.Record(h, 3)
			s.Record(h, 42)
		}
		shards = append(shards, s)
	}
	for _, s := range shards {
		s.Close()
	}
	for _, q := range []string{"", "format=prometheus"} {
		if err := Render(io.Discard, snapshot(t, r), options(t, q)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := (after.HeapAlloc - before.HeapAlloc) >> 20
	t.Logf("%s: %d MiB", r, used)
	if used >= 100 {
		t.Errorf("%d MiB", used)
	}
	runtime.KeepAlive(shards)
}

// Proves ST-17: answers stream, they are not built in memory first.
func TestRenderingStreams(t *testing.T) {
	snap := snapshot(t, many(t, 10_000))
	for _, q := range []string{"", "format=json", "format=prometheus"} {
		o := options(t, q)
		if err := Render(io.Discard, snap, o); err != nil { // orders the names
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(3, func() {
			if err := Render(io.Discard, snap, o); err != nil {
				t.Fatal(err)
			}
		})
		if n > 50 {
			t.Errorf("%q: %v allocations for 10k names", q, n)
		}
	}
}

func BenchmarkInc(b *testing.B) {
	r := registry(b, `{}`)
	s, c := r.NewShard(inline), r.Scope("").Counter("c")
	s.Inc(c)
	for b.Loop() {
		s.Inc(c)
	}
}

func BenchmarkGaugeAdd(b *testing.B) {
	r := registry(b, `{}`)
	s, g := r.NewShard(inline), r.Scope("").Gauge("g")
	s.GaugeAdd(g, 1)
	for b.Loop() {
		s.GaugeAdd(g, 1)
	}
}

func BenchmarkRecord(b *testing.B) {
	r := registry(b, `{}`)
	s, h := r.NewShard(inline), r.Scope("").Histogram("h", Milliseconds)
	for v := uint64(0); b.Loop(); v++ {
		s.Record(h, v&0xffff)
	}
}

func BenchmarkRegister(b *testing.B) {
	r := registry(b, `{}`)
	s := r.Scope("cluster.c1")
	for i := 0; b.Loop(); i++ {
		s.Counter(fmt.Sprint("upstream_rq_", i))
	}
}

func BenchmarkSnapshot100k(b *testing.B) {
	r := many(b, 100_000)
	w := newWorker()
	defer w.close()
	s := r.NewShard(w.post)
	w.do(func() {
		for _, h := range histogramsOf(r) {
			s.Record(h, 42)
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		snapshot(b, r)
	}
}

// How long a worker with 100k names is kept from its work by a snapshot, when
// all its 5000 histograms are busy or just some.
func BenchmarkShardCopy100k(b *testing.B) {
	for _, busy := range []int{5000, 200, 0} {
		b.Run(fmt.Sprint(busy, "-busy"), func(b *testing.B) { benchmarkCopy(b, busy) })
	}
}

func benchmarkCopy(b *testing.B, busy int) {
	r := many(b, 100_000)
	s := r.NewShard(inline)
	all := histogramsOf(r)
	for _, h := range all {
		s.Record(h, 42)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, h := range all[:busy] {
			s.Record(h, 42)
		}
		s.copy()
	}
}

func BenchmarkRender100k(b *testing.B) {
	snap := snapshot(b, many(b, 100_000))
	for _, q := range []string{"format=text", "format=json", "format=prometheus", "format=prometheus&usedonly"} {
		b.Run(q, func(b *testing.B) {
			o := options(b, q)
			b.ReportAllocs()
			for b.Loop() {
				if err := Render(io.Discard, snap, o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// rqStats is about what a request counts.
type rqStats struct {
	A Counter   `stat:"downstream_rq_total"`
	B Counter   `stat:"downstream_rq_http1_total"`
	C Counter   `stat:"downstream_rq_2xx"`
	D Counter   `stat:"downstream_cx_rx_bytes_total"`
	E Counter   `stat:"downstream_cx_tx_bytes_total"`
	F Counter   `stat:"upstream_rq_total"`
	G Counter   `stat:"upstream_rq_200"`
	H Counter   `stat:"upstream_rq_2xx"`
	I Counter   `stat:"upstream_cx_rx_bytes_total"`
	J Counter   `stat:"upstream_cx_tx_bytes_total"`
	K Counter   `stat:"upstream_rq_completed"`
	L Counter   `stat:"rq_total"`
	M Gauge     `stat:"downstream_rq_active"`
	N Gauge     `stat:"upstream_rq_active"`
	O Histogram `stat:"downstream_rq_time,ms"`
	P Histogram `stat:"upstream_rq_time,ms"`
}

// What a request costs that counts for one of a hundred clusters.
func BenchmarkRequest(b *testing.B) {
	r := registry(b, `{}`)
	s := r.NewShard(inline)
	all := make([]rqStats, 100)
	for i := range all {
		r.Scope(fmt.Sprint("cluster.c", i)).Fill(&all[i])
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		x := &all[i]
		if i++; i == len(all) {
			i = 0
		}
		s.GaugeAdd(x.M, 1)
		s.Inc(x.A)
		s.Inc(x.B)
		s.Add(x.D, 400)
		s.GaugeAdd(x.N, 1)
		s.Inc(x.F)
		s.Add(x.J, 400)
		s.Add(x.I, 800)
		s.Inc(x.G)
		s.Inc(x.H)
		s.Inc(x.K)
		s.Inc(x.L)
		s.Record(x.P, 2)
		s.GaugeAdd(x.N, -1)
		s.Inc(x.C)
		s.Add(x.E, 800)
		s.Record(x.O, 2)
		s.GaugeAdd(x.M, -1)
	}
}
