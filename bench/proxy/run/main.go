// Command run takes nginx, HAProxy, Envoy and Xebec through the same load in
// turn, several times, and prints the medians of what each did per second of
// its CPU time, their ratios, and whether the goals that Xebec sets itself were
// met. Then it measures what some features cost Xebec.
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

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// options is the command line.
type options struct {
	quick, list         bool
	only, proxies       string
	rawFile, from, bin  string
	xebec, before       string
	profile             string
	rounds              int
	seconds             float64
	proxyCore, loadCore int
	limit               time.Duration
	disturbed           float64
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.BoolVar(&o.quick, "quick", false, "one very short round, in less than a minute: does everything work?")
	fs.BoolVar(&o.list, "list", false, "list the suites and exit")
	fs.StringVar(&o.only, "only", "", "comma-separated `names` of the suites to run (default all)")
	fs.StringVar(&o.proxies, "proxies", "", "comma-separated `names` of the proxies to run: nginx, haproxy, envoy, xebec (default all)")
	fs.StringVar(&o.rawFile, "raw", "", "also write every measurement, a line each, to a `file`")
	fs.StringVar(&o.from, "from", "", "measure nothing: make the tables of such a `file`")
	fs.StringVar(&o.bin, "bin", "bin", "`directory` for the programs")
	fs.StringVar(&o.xebec, "xebec", "", "`program` to measure as Xebec (default: built from this repository)")
	fs.StringVar(&o.before, "before", "", "another build of Xebec, a `program`, to compare with; many short rounds tell most: -proxies xebec -rounds 20 -seconds 0.5")
	fs.StringVar(&o.profile, "profile", "", "write a CPU profile of Xebec, over all suites that it serves by its plain bootstrap, to a `file`")
	fs.IntVar(&o.rounds, "rounds", 5, "`number` of rounds")
	fs.Float64Var(&o.seconds, "seconds", 3, "`seconds` of each measurement")
	fs.IntVar(&o.proxyCore, "proxy-core", 1, "`core` of the proxies")
	fs.IntVar(&o.loadCore, "load-core", 0, "`core` of the load and of the upstreams")
	fs.DurationVar(&o.limit, "limit", 25*time.Minute, "`time` after which nothing more is begun")
	fs.Float64Var(&o.disturbed, "disturbed", 0.1, "repeat a measurement once if others used more than so many `cores` meanwhile")
}

func main() {
	var o options
	o.flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := o.run(ctx, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context, out, progress io.Writer) error {
	chosen, compared, err := o.chosen()
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range chosen {
			fmt.Fprintf(out, "%-16s %s\n", s.name, s.rows[0].title)
		}
		for _, c := range compared {
			fmt.Fprintf(out, "%-16s Xebec: %s\n", c.name, c.title)
		}
		if wanted(o.only, changing) {
			fmt.Fprintf(out, "%-16s Envoy and Xebec: %d requests/s while the configuration changes %d times a second\n", changing, liveRate, changesPerSecond)
		}
		return nil
	}
	lines, err := o.lines(ctx, chosen, compared, progress)
	if len(lines) > 0 {
		writeTable(out, chosen, lines)
		writeBefore(out, chosen, lines)
		writeComparisons(out, compared, lines)
		writeChanges(out, lines)
	}
	return err
}

// lines are the measurements: those of a file, or new ones.
func (o *options) lines(ctx context.Context, chosen []suite, compared []comparison, progress io.Writer) ([]raw.Line, error) {
	if o.from != "" {
		f, err := os.Open(o.from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return raw.Read(f)
	}
	record := progress
	if o.rawFile != "" {
		f, err := os.Create(o.rawFile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		record = io.MultiWriter(progress, f)
	}
	r, err := o.prepare(ctx, progress, record)
	if err != nil {
		return nil, err
	}
	lines, err := r.all(ctx, chosen, compared)
	if err == nil && wanted(o.only, changing) {
		err = r.changes(ctx)
		lines = r.lines
	}
	r.close()
	if err == nil && r.profile != "" {
		err = finishProfile(r.profile) // the proxy wrote it as it ended
	}
	return lines, err
}

// prepare finds and builds the programs.
func (o *options) prepare(ctx context.Context, progress, record io.Writer) (*runner, error) {
	if err := raiseOpenFiles(); err != nil {
		return nil, err
	}
	found, wrk, missing, err := o.find(ctx)
	for _, m := range missing {
		fmt.Fprintln(progress, "# missing:", m)
	}
	if err != nil {
		return nil, err
	}
	load, err := build(ctx, ".", "./load", o.bin+"/load")
	if err != nil {
		return nil, err
	}
	m, err := newMachine(o, load, wrk, o.pace())
	if err == nil && wanted(o.only, changing) {
		m.source, err = build(ctx, ".", "./source", o.bin+"/source")
	}
	if err != nil {
		return nil, err
	}
	return newRunner(o, m, found, progress, record), nil
}

func (o *options) pace() pace {
	if o.quick {
		return pace{rounds: 1, time: 200 * time.Millisecond, warm: 100 * time.Millisecond, connections: 200, settle: 100 * time.Millisecond}
	}
	return pace{
		rounds: o.rounds, time: time.Duration(o.seconds * float64(time.Second)), warm: 300 * time.Millisecond,
		connections: 6000, settle: 3 * time.Second, quiet: 2 * time.Second,
	}
}

// chosen are the suites and comparisons that -only names.
func (o *options) chosen() (s []suite, c []comparison, err error) {
	s = slices.DeleteFunc(suites(), func(s suite) bool { return !wanted(o.only, s.name) })
	c = slices.DeleteFunc(comparisons(), func(c comparison) bool { return !wanted(o.only, c.name) })
	if len(s)+len(c) == 0 && !wanted(o.only, changing) {
		err = fmt.Errorf("-only %s: no such suite; -list names them", o.only)
	}
	if o.rounds < 1 || o.seconds <= 0 {
		err = errors.Join(err, errors.New("-rounds and -seconds must be positive"))
	}
	return s, c, err
}

func wanted(list, name string) bool {
	return list == "" || slices.Contains(strings.Split(list, ","), name)
}
