package xdsclient

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait before a stream that had no response is opened
// again. A stream that had one is opened again at once, though no sooner than
// Base after it was opened last (XC-28, GC-50).
type Backoff struct {
	// Base is the first delay, Max the longest.
	Base, Max time.Duration
	// Factor is what a delay is multiplied by to give the next.
	Factor float64
	// Jitter is by which part a delay is made longer or shorter by chance: 0.2
	// for ±20 %.
	Jitter float64
}

// DefaultBackoff is 500 ms, doubled up to 30 s, ±50 % (XC-28).
func DefaultBackoff() Backoff {
	return Backoff{Base: 500 * time.Millisecond, Max: 30 * time.Second, Factor: 2, Jitter: 0.5}
}

// GRPCBackoff is that of gRPC's connections: 1 s, ×1.6 up to 120 s, ±20 %
// (GC-50).
func GRPCBackoff() Backoff {
	return Backoff{Base: time.Second, Max: 120 * time.Second, Factor: 1.6, Jitter: 0.2}
}

func (b Backoff) check() error {
	if b.Base <= 0 || b.Max < b.Base || b.Factor < 1 || b.Jitter < 0 || b.Jitter > 1 {
		return errors.New("xdsclient: Config.Backoff needs 0 < Base ≤ Max, Factor ≥ 1 and Jitter between 0 and 1; leave it zero for the default")
	}
	return nil
}

// delay is the wait after a number of failures in a row, at most Max.
func (b Backoff) delay(failures int) time.Duration {
	d := math.Min(float64(b.Base)*math.Pow(b.Factor, float64(max(failures-1, 0))), float64(b.Max))
	d *= 1 + b.Jitter*(2*rand.Float64()-1) //nolint:gosec // spreads clients, guards nothing
	return min(time.Duration(d), b.Max)
}
