package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/bench/proxy/engine"
	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// gcPercent keeps the collector out of the way: there is next to no garbage.
const gcPercent = 1000

// drive measures load by the engine.
func drive(_ context.Context, o *options) (raw.Values, error) {
	runtime.LockOSThread()
	debug.SetGCPercent(gcPercent)
	l, err := engine.New(o.Options)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	// The end of a sleep is not put off to let others end with it.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("timer slack: %w", err)
	}
	if err := l.Connect(); err != nil {
		return nil, err
	}
	if _, err := l.Run(o.warm); err != nil {
		return nil, err
	}
	span, err := o.span()
	if err != nil {
		return nil, err
	}
	r, err := l.Run(o.time)
	if err != nil {
		return nil, err
	}
	used, err := span.End(0)
	if err != nil {
		return nil, err
	}
	v, err := cost(used, r.Requests, r.Wrong)
	if err != nil {
		return nil, err
	}
	v["mbps"] = round(float64(r.Bytes)/r.Time.Seconds()/1e6, 1)
	for name, q := range map[string]float64{"p50": .5, "p90": .9, "p99": .99, "p999": .999, "max": 1} {
		v[name] = round(float64(r.Latency.Quantile(q))/float64(time.Microsecond), 1)
	}
	return v, nil
}

// upstream answers until the program is told to end.
func upstream(ctx context.Context, o *options) (raw.Values, error) {
	runtime.LockOSThread()
	l, err := engine.New(o.Options)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return nil, l.Serve(ctx)
}

// round rounds to so many decimal places.
func round(x float64, places int) float64 {
	p := math.Pow10(places)
	return math.Round(x*p) / p
}
