package overload

import (
	"math"
	"sync/atomic"
)

// Level is how far an action is taken, for workers to read: one atomic load. The
// zero value is not at all. Safe for concurrent use.
type Level struct{ share atomic.Uint64 }

const saturated = math.MaxUint64

// Set makes the action be taken for a share of the cases: 0 for none, 1 for all.
func (l *Level) Set(share float64) {
	switch {
	case share >= 1:
		l.share.Store(saturated)
	case share <= 0:
		l.share.Store(0)
	default:
		l.share.Store(uint64(share * (1 << 64)))
	}
}

// Random is a source of random bits, such as a loop.
type Random interface{ Random() uint64 }

// Takes decides whether the action is taken this time, with the probability that
// is the action's level (OV-03).
func (l *Level) Takes(r Random) bool {
	n := l.share.Load()
	return n != 0 && (n == saturated || r.Random() < n)
}

// Levels are the levels of the actions that workers look at.
type Levels struct {
	StopRequests      Level
	DisableKeepalive  Level
	RejectConnections Level
}
