// Command run takes each server under test through each scenario, in turn and
// several times, and prints the medians, their ratios, and whether the goals
// that Xebec sets itself were met.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/report"
)

// options is the command line.
type options struct {
	quick, list        bool
	only, servers, out string
	bin                string
	reps               int
	limit              time.Duration
	disturbed          float64
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.quick, "quick", false, "one short repetition each, for two minutes at most")
	fs.BoolVar(&o.list, "list", false, "list the scenarios and exit")
	fs.StringVar(&o.only, "only", "", "comma-separated `names` of the scenarios to run (default all)")
	fs.StringVar(&o.servers, "servers", "", "comma-separated `names` of the servers to run (default all)")
	fs.StringVar(&o.out, "json", "", "also write every measurement to a `file`")
	fs.StringVar(&o.bin, "bin", "bin", "`directory` for the programs")
	fs.IntVar(&o.reps, "reps", 0, "`number` of repetitions instead of each scenario's own")
	fs.DurationVar(&o.limit, "limit", 0, "`time` after which nothing more is begun (default 10m, with -quick 2m)")
	fs.Float64Var(&o.disturbed, "disturbed", 0.25, "repeat a run once if others used more than so many `cores` meanwhile")
}

// measurement is one run of the load program.
type measurement struct {
	Scenario string      `json:"scenario"`
	Server   string      `json:"server"`
	Load     report.Load `json:"load"`
}

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func command() error {
	var o options
	o.flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return o.run(ctx, os.Stdout, os.Stderr)
}

func (o *options) run(ctx context.Context, out, progress io.Writer) error {
	chosen, err := o.scenarios()
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range chosen {
			fmt.Fprintf(out, "%-15s %s\n", s.name, s.title)
		}
		return nil
	}
	if err := build(ctx, o.bin); err != nil {
		return err
	}
	all, err := o.measure(ctx, chosen, progress)
	if o.out != "" {
		err = errors.Join(err, writeJSON(o.out, all))
	}
	writeTables(out, chosen, all)
	writeGoals(out, all)
	return err
}

// measure runs everything: all scenarios once, then again as often as each
// asks for, so that too little time costs repetitions and not scenarios. A
// failure does not stop it: that a server cannot do something is a result too.
func (o *options) measure(ctx context.Context, chosen []scenario, progress io.Writer) ([]measurement, error) {
	var all []measurement
	var errs error
	left := newBudget(o.budget())
	for _, t := range turns(chosen, o.servers) {
		if ctx.Err() != nil {
			return all, errors.Join(errs, ctx.Err())
		}
		if !left.allows(t) {
			fmt.Fprintf(progress, "%-15s %-13s skipped: no time left (-limit)\n", t.scenario.name, t.server.name)
			continue
		}
		start := time.Now()
		r, err := o.calm(ctx, t, left)
		left.took(t, time.Since(start))
		fmt.Fprintf(progress, "%-15s %-13s %5.1f s\n", t.scenario.name, t.server.name, time.Since(start).Seconds())
		if err != nil {
			errs = errors.Join(errs, fmt.Errorf("%s: %w", t.scenario.name, err))
			continue
		}
		all = append(all, measurement{Scenario: t.scenario.name, Server: t.server.name, Load: r})
	}
	return all, errs
}

// calm measures once more if the machine was busy with something else, and
// keeps the less disturbed run.
func (o *options) calm(ctx context.Context, t turn, left *budget) (report.Load, error) {
	b := bench{bin: o.bin}
	r, err := b.measure(ctx, t.scenario, t.server)
	if err != nil || o.quick || disturbance(r) <= o.disturbed || !left.forMore() {
		return r, err
	}
	again, err := b.measure(ctx, t.scenario, t.server)
	if err != nil || disturbance(again) > disturbance(r) {
		return r, nil //nolint:nilerr // the first run stands
	}
	return again, nil
}

// disturbance is the most that others used of the machine during any step.
func disturbance(r report.Load) float64 {
	d := r.First.OtherCPU
	for _, c := range r.Changes {
		d = max(d, c.OtherCPU)
	}
	if r.Restart != nil {
		d = max(d, r.Restart.OtherCPU)
	}
	return d
}

func (o *options) scenarios() ([]scenario, error) {
	var out []scenario
	for _, s := range scenarios() {
		if !wanted(o.only, s.name) {
			continue
		}
		if o.quick {
			s = s.quick()
		}
		if o.reps > 0 {
			for name := range s.reps {
				s.reps[name] = o.reps
			}
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("-only %s: no such scenario; -list names them", o.only)
	}
	return out, nil
}

func wanted(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}
