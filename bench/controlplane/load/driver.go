package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/client"
	"github.com/xebec-proxy/xebec/bench/controlplane/clock"
	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/report"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// driver carries out the steps of a run.
type driver struct {
	options
	fleet   *client.Fleet
	control control
	gen     int
}

func (d *driver) run(ctx context.Context) (r report.Load, err error) {
	r = d.result()
	if r.First, err = d.first(ctx); err != nil {
		return r, fmt.Errorf("first state: %w", err)
	}
	for _, k := range d.kinds() {
		if d.rounds == 0 {
			break
		}
		if r.Changes[k.String()], err = d.change(ctx, k, d.rounds); err != nil {
			return r, fmt.Errorf("%s change: %w", k, err)
		}
	}
	s, err := d.control.stats(ctx)
	if err != nil {
		return r, err
	}
	r.PeakMB = mb(s.PeakRSS)
	if d.restart {
		if r.Restart, err = d.restarted(ctx, s); err != nil {
			return r, fmt.Errorf("restart: %w", err)
		}
		r.PeakMB = max(r.PeakMB, r.Restart.PeakMB)
	}
	if err := d.control.post(ctx, "/gc"); err != nil {
		return r, err
	}
	s, err = d.control.stats(ctx)
	r.IdleMB = mb(s.RSS)
	return r, err
}

// first connects everything.
func (d *driver) first(ctx context.Context) (f report.First, err error) {
	if err := d.control.post(ctx, "/gc"); err != nil {
		return f, err
	}
	m, err := d.meter(ctx)
	if err != nil {
		return f, err
	}
	start := clock.Now()
	w := d.fleet.Connect()
	if err := d.wait(ctx, w); err != nil {
		return f, err
	}
	f.Milliseconds = since(start, slices.Max(w.Arrivals))
	f.Megabytes = mb(d.fleet.Counts().Bytes)
	f.Cost, f.PeakMB, err = m.stop(ctx, 1)
	return f, err
}

// change changes one resource after the other.
func (d *driver) change(ctx context.Context, k resources.Kind, rounds int) (c report.Change, err error) {
	m, err := d.meter(ctx)
	if err != nil {
		return c, err
	}
	before, brought := d.fleet.Counts(), 0
	for range rounds {
		w, b, err := d.bump(ctx, k)
		if err != nil {
			return c, err
		}
		slices.Sort(w.Arrivals)
		n := len(w.Arrivals)
		c.Last = append(c.Last, since(b.Published, w.Arrivals[n-1]))
		c.Median = append(c.Median, since(b.Published, w.Arrivals[n/2]))
		c.Publish = append(c.Publish, since(b.Published, b.Returned))
		brought += w.Resources
		if err := m.settle(ctx); err != nil {
			return c, err
		}
	}
	got := d.fleet.Counts().Sub(before)
	each := float64(rounds * (d.plan.Streams - d.plan.Stuck))
	c.Resources, c.Responses, c.Bytes = float64(brought)/each, float64(got.Responses)/each, float64(got.Bytes)/each
	c.Cost, _, err = m.stop(ctx, rounds)
	return c, err
}

// stride spreads the changed resources; it is prime.
const stride = 7919

func (d *driver) bump(ctx context.Context, k resources.Kind) (*client.Wave, peer.Bumped, error) {
	d.gen++
	i := d.gen * stride % d.plan.Clusters
	w := d.fleet.Expect(k, i, d.gen)
	b, err := d.control.bump(ctx, k, i, d.gen)
	if err != nil {
		return nil, b, err
	}
	return w, b, d.wait(ctx, w)
}

// restarted restarts the server, has every stream come back holding
// everything, and changes one cluster to prove that they are served.
func (d *driver) restarted(ctx context.Context, old peer.Stats) (*report.Restart, error) {
	d.fleet.AllowClose()
	if err := d.control.post(ctx, "/restart"); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	if _, err := d.control.awaitRestart(waiting, old); err != nil {
		return nil, err
	}
	if err := d.control.post(ctx, "/gc"); err != nil {
		return nil, err
	}
	m, err := d.meter(ctx)
	if err != nil {
		return nil, err
	}
	before, start := d.fleet.Counts(), clock.Now()
	if err := d.control.post(ctx, "/open"); err != nil {
		return nil, err
	}
	w := d.fleet.Reconnect()
	if err := d.wait(ctx, w); err != nil {
		return nil, err
	}
	r := &report.Restart{Milliseconds: since(start, slices.Max(w.Arrivals))}
	if r.Cost, r.PeakMB, err = m.stop(ctx, 1); err != nil {
		return nil, err
	}
	resent := d.fleet.Counts().Sub(before).Resources
	r.Resent = float64(resent[resources.CDS]+resent[resources.EDS]) / float64(d.plan.Streams)
	r.Change, err = d.change(ctx, resources.CDS, 1)
	return r, err
}

func (d *driver) wait(ctx context.Context, w *client.Wave) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return w.Wait(ctx)
}

func since(from, to int64) float64 { return float64(to-from) / float64(time.Millisecond) }

func mb[N int64 | uint64](bytes N) float64 { return float64(bytes) / 1e6 }
