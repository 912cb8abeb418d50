package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/xebec-proxy/xebec/bench/client/resources"
	"github.com/xebec-proxy/xebec/bench/client/talk"
)

const nameFormat = resources.NameFormat

// pause is the time between a change's acknowledgement and the next change.
const pause = 3 * time.Millisecond

// sample is what one round has measured of a client. A value that the client
// has none of is absent.
type sample struct {
	values map[measure]float64
	others float64
}

// bench measures a client.
type bench struct {
	bin string
	contender
	clusters, changes int
	// settle is how long a client has to come to rest, so that what it does
	// after the last value (an acknowledgement, say) is counted too.
	settle time.Duration
}

// measure takes a client through all scenarios, each with a new server and a
// new client.
func (b bench) measure(ctx context.Context) (sample, error) {
	s := sample{values: map[measure]float64{}}
	if err := b.scenario(ctx, &s, nil, b.watchAndChange); err != nil {
		return s, fmt.Errorf("watches and changes: %w", err)
	}
	if b.stream {
		return s, nil
	}
	for _, r := range []rest{
		{heap: heapCluster, changed: heapChanged},
		{heap: heapPair, assignments: true, goroutines: true},
		{heap: heapBare, assignments: true, bare: true},
	} {
		if r.assignments && b.wildcard || r.bare && !b.bare {
			continue
		}
		var args []string
		if r.bare {
			args = []string{"-bare"}
		}
		if err := b.scenario(ctx, &s, args, func(p pair, s *sample) error { return b.idle(p, s, r) }); err != nil {
			return s, fmt.Errorf("at rest: %w", err)
		}
	}
	return s, nil
}

// rest is a scenario of a client at rest, and which figures it gives: heap, and
// unless it is 0, the heap after changes.
type rest struct {
	heap, changed                 measure
	assignments, bare, goroutines bool
}

// pair is a server and a client that run.
type pair struct{ server, client *process }

// scenario runs f with a new server and client.
func (b bench) scenario(ctx context.Context, s *sample, args []string, f func(pair, *sample) error) (err error) {
	server, err := start(ctx, filepath.Join(b.bin, "server"), "-clusters", strconv.Itoa(b.clusters))
	if err != nil {
		return err
	}
	defer func() { err = server.stop(err) }()
	var t talk.Traffic
	if err := server.hear(&t); err != nil {
		return err
	}
	client, err := start(ctx, filepath.Join(b.bin, b.program), slices.Concat([]string{"-addr", t.Address}, b.args, args)...)
	if err != nil {
		return err
	}
	defer func() { err = client.stop(err) }()
	p := pair{server, client}
	if _, err := p.tell(talk.Ask{Do: talk.Count}); err != nil { // it is ready
		return err
	}
	before, err := outside(p)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f(p, s); err != nil {
		return err
	}
	after, err := outside(p)
	s.others = max(s.others, (after-before).Seconds()/time.Since(began).Seconds())
	return err
}

// outside is how long processes that are no part of this have been busy.
func outside(p pair) (time.Duration, error) {
	all, err := busy()
	for _, pid := range []int{os.Getpid(), p.server.cmd.Process.Pid, p.client.cmd.Process.Pid} {
		used, failed := cpuOf(pid)
		all -= used
		err = errors.Join(err, failed)
	}
	return all, err
}

// tell asks the client.
func (p pair) tell(q talk.Ask) (a talk.Answer, err error) {
	if err := p.client.exchange(q, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// order asks the server.
func (p pair) order(q talk.Ask) (t talk.Traffic, err error) {
	if err := p.server.exchange(q, &t); err != nil {
		return t, err
	}
	if t.Error != "" {
		return t, errors.New(t.Error)
	}
	return t, nil
}

// cost is what a step has cost.
type cost struct {
	cpu time.Duration
	talk.Traffic
}

// step runs f, lets the client come to rest, and says what it has cost.
func (b bench) step(p pair, f func() error) (c cost, err error) {
	traffic, err := p.order(talk.Ask{Do: talk.Counts})
	if err != nil {
		return c, err
	}
	cpu, err := p.client.cpu()
	if err != nil {
		return c, err
	}
	if err := f(); err != nil {
		return c, err
	}
	time.Sleep(b.settle)
	if c.cpu, err = p.client.cpu(); err != nil {
		return c, err
	}
	c.cpu -= cpu
	if c.Traffic, err = p.order(talk.Ask{Do: talk.Counts}); err != nil {
		return c, err
	}
	c.Requests -= traffic.Requests
	c.Sent -= traffic.Sent
	c.Received -= traffic.Received
	return c, nil
}

func (b bench) watchAndChange(p pair, s *sample) error {
	var a talk.Answer
	c, err := b.step(p, func() (err error) {
		a, err = p.tell(talk.Ask{Do: talk.Watch, To: b.clusters})
		return err
	})
	if err != nil {
		return err
	}
	if !b.wildcard && !b.stream { // these have not watched one by one
		s.values[watchRequests] = float64(c.Requests)
		s.values[watchSent] = float64(c.Sent) / 1e6
		s.values[watchReceived] = float64(c.Received) / 1e6
		s.values[watchTime] = milliseconds(a.Took)
		s.values[watchCPU] = milliseconds(c.cpu)
	}
	if c, err = b.step(p, func() error { return b.change(p, b.clusters) }); err != nil {
		return err
	}
	n := float64(b.changes)
	s.values[changeCPU] = milliseconds(c.cpu) / n
	s.values[changeSent] = float64(c.Sent) / 1e3 / n
	s.values[changeReceived] = float64(c.Received) / 1e3 / n
	return nil
}

// change has the server change clusters and makes sure that the client, which
// has had so many values, has seen each change.
func (b bench) change(p pair, had int) error {
	if _, err := p.order(talk.Ask{Do: talk.Change, Times: b.changes, Pause: pause}); err != nil {
		return err
	}
	time.Sleep(b.settle) // an acknowledgement may leave before the watchers know
	a, err := p.tell(talk.Ask{Do: talk.Count})
	if err == nil && a.Values != had+b.changes {
		err = fmt.Errorf("the client has seen %d of %d changes", a.Values-had, b.changes)
	}
	return err
}

// idle measures what a watched cluster needs while nothing happens. What does
// not depend on the number is there before: a connection and one cluster.
func (b bench) idle(p pair, s *sample, r rest) error {
	first := 1
	if b.wildcard {
		first = 0
	} else if _, err := p.tell(talk.Ask{Do: talk.Watch, To: first, Assignments: r.assignments}); err != nil {
		return err
	}
	before, err := b.rest(p)
	if err != nil {
		return err
	}
	if _, err := p.tell(talk.Ask{Do: talk.Watch, From: first, To: b.clusters, Assignments: r.assignments}); err != nil {
		return err
	}
	after, err := b.rest(p)
	if err != nil {
		return err
	}
	n := float64(b.clusters - first)
	s.values[r.heap] = float64(after.Heap-before.Heap) / 1e3 / n
	if r.goroutines {
		s.values[goroutines] = float64(after.Goroutines - before.Goroutines)
	}
	if r.changed == 0 {
		return nil
	}
	if err := b.change(p, after.Values); err != nil {
		return err
	}
	if after, err = b.rest(p); err == nil {
		s.values[r.changed] = float64(after.Heap-before.Heap) / 1e3 / n
	}
	return err
}

func (b bench) rest(p pair) (talk.Answer, error) {
	time.Sleep(b.settle)
	return p.tell(talk.Ask{Do: talk.Rest})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
