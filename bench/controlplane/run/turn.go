package main

import "time"

// turn is one run of a server through a scenario.
type turn struct {
	scenario scenario
	server   server
}

// turns lists all runs in order: the servers alternate, and everything is run
// once before anything is run again.
func turns(chosen []scenario, only string) []turn {
	var out []turn
	for rep, more := 0, true; more; rep++ {
		more = false
		for _, s := range chosen {
			for _, v := range servers() {
				if rep < s.reps[v.name] && wanted(only, v.name) {
					out = append(out, turn{scenario: s, server: v})
					more = true
				}
			}
		}
	}
	return out
}

// The time for the whole suite if -limit does not say.
const (
	fullLimit  = 10 * time.Minute
	quickLimit = 2 * time.Minute
)

func (o *options) budget() time.Duration {
	switch {
	case o.limit > 0:
		return o.limit
	case o.quick:
		return quickLimit
	}
	return fullLimit
}

// budget is the time that is left, and what the turns so far have taken.
type budget struct {
	start, end time.Time
	last       map[[2]string]time.Duration
}

func newBudget(d time.Duration) *budget {
	now := time.Now()
	return &budget{start: now, end: now.Add(d), last: map[[2]string]time.Duration{}}
}

// allows says whether there is time for a turn, which will take as long as the
// last time.
func (b *budget) allows(t turn) bool {
	return time.Now().Add(b.last[t.key()]).Before(b.end)
}

// forMore says whether there is time to repeat what was disturbed: in the
// first half.
func (b *budget) forMore() bool { return time.Since(b.start) < b.end.Sub(b.start)/2 }

func (b *budget) took(t turn, d time.Duration) { b.last[t.key()] = d }

func (t turn) key() [2]string { return [2]string{t.scenario.name, t.server.name} }
