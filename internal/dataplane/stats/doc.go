// Package stats keeps the proxy's statistics: counters, gauges, histograms and
// text readouts under Envoy's dotted names, their tags, the renderings of
// /stats and the statsd sinks.
//
// A [Registry] hands out small numbers for names. A worker counts in its own
// [Shard] by such a number with a plain add: no lock, no atomic, no
// allocation. Goroutines that are not workers count in [Registry.Main].
// [Registry.Snapshot] asks each worker for a copy of its values and adds them
// up; everything that reads (the admin endpoints, the sinks) reads snapshots.
//
//	reg, err := stats.New(bootstrap.GetStatsConfig())
//	total := reg.Scope("http.ingress").Counter("downstream_rq_total")
//	shard := reg.NewShard(loop.Post) // one for each worker
//	shard.Inc(total)                 // on the worker
//	snap, err := reg.Snapshot(ctx)   // anywhere
//	err = stats.Render(w, snap, stats.RenderOptions{})
package stats
