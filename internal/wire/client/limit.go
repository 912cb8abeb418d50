package client

import "time"

// bucket is a token bucket. The zero value has no limit.
type bucket struct {
	on      bool
	burst   float64
	rate    float64 // tokens in a second
	tokens  float64
	at      time.Duration
	refused bool
	// enforced counts how often a request began to wait.
	enforced uint64
}

func newBucket(l *Limit) bucket {
	if l == nil {
		return bucket{}
	}
	b := bucket{on: true, burst: float64(l.Burst), rate: l.PerSecond}
	if b.burst <= 0 {
		b.burst = defaultBurst
	}
	if b.rate <= 0 {
		b.rate = defaultPerSecond
	}
	b.tokens = b.burst
	return b
}

// take takes a token if there is one.
func (b *bucket) take(now time.Duration) bool {
	if !b.on {
		return true
	}
	if now > b.at {
		b.tokens = min(b.burst, b.tokens+b.rate*(now-b.at).Seconds())
		b.at = now
	}
	if b.tokens < 1 {
		if !b.refused {
			b.refused = true
			b.enforced++
		}
		return false
	}
	b.tokens--
	b.refused = false
	return true
}

// next is when there will be a token; ok is false if there is one now.
func (b *bucket) next() (at time.Duration, ok bool) {
	if !b.on || b.tokens >= 1 {
		return 0, false
	}
	wait := (1 - b.tokens) / b.rate * float64(time.Second)
	return b.at + time.Duration(wait) + 1, true
}
