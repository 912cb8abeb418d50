package proxy

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of tidying: below quiet bytes allocated in a second nothing much is
// going on, and a collection pays that has worthwhile bytes and a worthwhile
// part of what is live to give back: it looks through all of that.
const (
	tidyInterval   = time.Second
	quietBytes     = 256 << 10
	worthwhile     = 4 << 20
	worthwhilePart = 4
)

// tidy gives memory back when load has gone: the collector runs by allocation,
// and a proxy at rest does not allocate, so that it would hold what its busiest
// moment needed.
func tidy(ctx context.Context) error {
	t := time.NewTicker(tidyInterval)
	defer t.Stop()
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	var last, atCycle, cycle uint64
	pace := newPace()
	pace.adjust()
	collected := collections(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
			// Now, not at the next tick: while ten thousand clusters are loaded what is
			// live grows tenfold within one.
			pace.adjust()
			continue
		case <-t.C:
		}
		metrics.Read(s)
		now := s[0].Value.Uint64()
		if n := s[1].Value.Uint64(); n != cycle {
			cycle, atCycle = n, last
			pace.adjust()
		}
		// Garbage there may be since the last collection, and what that one freed
		// and the runtime still holds.
		spare := now - atCycle + s[2].Value.Uint64()
		if now-last < quietBytes && spare > max(worthwhile, s[3].Value.Uint64()/worthwhilePart) {
			debug.FreeOSMemory()
			metrics.Read(s)
			cycle, atCycle = s[1].Value.Uint64(), now
		}
		last = now
	}
}

// collections tells of each collection of garbage that has ended, or of several at
// once, until ctx ends.
func collections(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	var arm func()
	arm = func() {
		garbage := &struct{ self *int }{}
		runtime.AddCleanup(garbage, func(c chan struct{}) {
			if ctx.Err() != nil {
				return
			}
			select {
			case c <- struct{}{}:
			default:
			}
			arm()
		}, c)
	}
	arm()
	return c
}

// minCycle is how much is allocated at least between two collections. What a
// small proxy holds is mostly its configuration, which the collector would look
// through again and again for the garbage of a few hundred handshakes.
const minCycle = 64 << 20

// pace sets the collector's pace by what is live, unless the environment has
// set it: a percentage of little is little.
type pace struct{ percent uint64 }

const standardPercent = 100

func newPace() *pace {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	if s[0].Value.Uint64() != standardPercent {
		return &pace{}
	}
	return &pace{standardPercent}
}

func (p *pace) adjust() {
	if p.percent == 0 {
		return
	}
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	live := max(s[0].Value.Uint64(), 8<<20)
	if n := max(minCycle*standardPercent/live, standardPercent); n != p.percent {
		p.percent = n
		debug.SetGCPercent(int(n)) //nolint:gosec // at most 800
	}
}
