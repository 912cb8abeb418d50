package main

import (
	"context"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/clock"
	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/report"
)

// meter measures the cost of a step.
type meter struct {
	driver  *driver
	start   time.Time
	stats   peer.Stats
	load    time.Duration
	machine time.Duration
}

func (d *driver) meter(ctx context.Context) (*meter, error) {
	m := &meter{driver: d}
	var err error
	if m.stats, err = d.control.stats(ctx); err != nil {
		return nil, err
	}
	if m.machine, err = machineCPU(); err != nil {
		return nil, err
	}
	m.start, m.load = time.Now(), clock.CPU()
	return m, nil
}

const (
	// settleStep is how long the server and the streams must be at rest for a
	// step to be over; restful is how much the server may run in that time.
	settleStep = 40 * time.Millisecond
	restful    = time.Millisecond
)

// settle waits until nothing arrives any more and the server has come to rest:
// handling the ACKs of a change is part of its cost.
func (m *meter) settle(ctx context.Context) error {
	d := m.driver
	deadline := time.Now().Add(d.timeout)
	received := d.fleet.Counts().Bytes
	ran, err := processCPU(m.stats.PID)
	step := time.NewTicker(settleStep)
	defer step.Stop()
	for err == nil && time.Now().Before(deadline) {
		select {
		case <-step.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		var r time.Duration
		r, err = processCPU(m.stats.PID)
		b := d.fleet.Counts().Bytes
		if b == received && r-ran < restful {
			return d.fleet.Err()
		}
		received, ran = b, r
	}
	return err
}

// stop ends the step, which was done so many times, and also returns the
// server's peak of memory.
func (m *meter) stop(ctx context.Context, times int) (report.Cost, float64, error) {
	if err := m.settle(ctx); err != nil {
		return report.Cost{}, 0, err
	}
	s, err := m.driver.control.stats(ctx)
	if err != nil {
		return report.Cost{}, 0, err
	}
	machine, err := machineCPU()
	if err != nil {
		return report.Cost{}, 0, err
	}
	n := float64(times)
	server := time.Duration(s.CPUMicros-m.stats.CPUMicros) * time.Microsecond
	load := clock.CPU() - m.load
	others := machine - m.machine - server - load
	return report.Cost{
		ServerCPU: milliseconds(server) / n,
		LoadCPU:   milliseconds(load) / n,
		OtherCPU:  max(0, others.Seconds()/time.Since(m.start).Seconds()),
		AllocMB:   mb(s.TotalAlloc-m.stats.TotalAlloc) / n,
		Mallocs:   float64(s.Mallocs-m.stats.Mallocs) / n,
	}, mb(s.PeakRSS), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
