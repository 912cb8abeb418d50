package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// runner measures everything in turn.
type runner struct {
	*machine
	options  *options
	found    []program
	progress io.Writer // for people
	record   io.Writer // for measurements
	begun    time.Time
	lines    []raw.Line
	// running are the proxies that serve several suites, by the name of program
	// or set-up.
	running map[string]*instance
}

func newRunner(o *options, m *machine, found []program, progress, record io.Writer) *runner {
	return &runner{
		machine: m, options: o, found: found, progress: progress, record: record,
		begun: time.Now(), running: map[string]*instance{},
	}
}

// close stops what runs and removes its files.
func (r *runner) close() {
	for _, in := range r.running {
		in.stop()
	}
	_ = os.RemoveAll(r.dir)
}

// idleRounds is how many rounds the idle suites have at most: memory varies
// less than time, and they take longest.
const idleRounds = 3

// turn is one measurement to make.
type turn struct {
	suite   string // name in the results
	proxy   string
	program program
	setup   setup
	drive   suite
	round   int
}

// turns puts everything in order: all suites once, the proxies taking turns,
// before anything again, so that too little time costs rounds and not suites.
func (r *runner) turns(chosen []suite, compared []comparison) []turn {
	var all []turn
	for round := 1; round <= r.pace.rounds; round++ {
		for _, s := range chosen {
			if s.tool == byWrk && r.wrk == "" || s.tool == byIdle && round > idleRounds {
				continue
			}
			found := slices.Clone(r.found)
			if round%2 == 0 {
				slices.Reverse(found) // nobody is always first
			}
			for _, p := range found {
				all = append(all, turn{s.name, p.name, p, plainSetup(), s, round})
			}
		}
		for _, p := range r.found {
			if p.name != xebec {
				continue
			}
			for _, c := range compared {
				all = append(all, turn{c.name, c.plain.name, p, c.plain, c.suite, round}, turn{c.name, c.with.name, p, c.with, c.suite, round})
			}
		}
	}
	return all
}

// all measures everything. A failure does not stop it: that a proxy cannot do
// something is a result too.
func (r *runner) all(ctx context.Context, chosen []suite, compared []comparison) ([]raw.Line, error) {
	var errs error
	turns := r.turns(chosen, compared)
	for i, t := range turns {
		if time.Since(r.begun) > r.options.limit {
			fmt.Fprintf(r.progress, "# no time left for %d of %d measurements (-limit)\n", len(turns)-i, len(turns))
			break
		}
		v, err := r.calm(ctx, t)
		if ctx.Err() != nil {
			return r.lines, errors.Join(errs, ctx.Err())
		}
		if err != nil {
			err = fmt.Errorf("%s: %s: %w", t.suite, t.proxy, err)
			fmt.Fprintln(r.record, "# failed:", oneLine(err))
			errs = errors.Join(errs, err)
			continue
		}
		l := raw.Line{Suite: t.suite, Round: t.round, Proxy: t.proxy, Values: v}
		fmt.Fprintln(r.record, l)
		r.lines = append(r.lines, l)
	}
	return r.lines, errs
}

// calm measures once more if something else used the cores meanwhile, and
// keeps the less disturbed measurement.
func (r *runner) calm(ctx context.Context, t turn) (raw.Values, error) {
	v, err := r.take(ctx, t)
	if err != nil || r.options.quick || v[other] <= r.options.disturbed {
		return v, err
	}
	again, err := r.take(ctx, t)
	if err != nil || again[other] > v[other] {
		return v, nil //nolint:nilerr // the first one stands
	}
	return again, nil
}

func (r *runner) take(ctx context.Context, t turn) (raw.Values, error) {
	in, err := r.instance(ctx, t)
	if err != nil {
		return nil, err
	}
	if t.drive.tool == byIdle {
		defer in.stop()
	}
	if err := r.quiet(ctx); err != nil {
		return nil, err
	}
	v, err := r.measure(ctx, t.drive, in)
	if err == nil && t.setup.variant.Log {
		err = in.checkLog(v["n"])
	}
	return v, err
}

// instance is the proxy for a turn: one that runs already, or a new one if it
// is its memory that is to be measured, or if the old one has ended.
func (r *runner) instance(ctx context.Context, t turn) (*instance, error) {
	if t.drive.tool == byIdle {
		return r.launch(ctx, t.program, t.setup)
	}
	key := t.program.name + " " + t.setup.name
	if in := r.running[key]; in != nil {
		if _, err := in.pids(); err == nil {
			return in, nil
		}
	}
	in, err := r.launch(ctx, t.program, t.setup)
	if err == nil {
		r.running[key] = in
	}
	return in, err
}

// oneLine shortens an error to one line of the record.
func oneLine(err error) string {
	const most = 300
	b := []byte(err.Error())
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
	return string(b[:min(len(b), most)])
}
