// Command run takes each xDS client through the same watches and changes, one
// after the other and several times, against the same server, and prints the
// medians and whether the goals that Xebec sets itself were met.
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
)

// options is the command line.
type options struct {
	rounds, clusters, changes int
	only, bin                 string
	limit, settle             time.Duration
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.rounds, "rounds", 3, "`number` of rounds; each has every client once")
	fs.IntVar(&o.clusters, "clusters", 2000, "`number` of clusters to watch")
	fs.IntVar(&o.changes, "changes", 200, "`number` of changes")
	fs.StringVar(&o.only, "only", "", "comma-separated `names` of the clients (default all: "+names()+")")
	fs.StringVar(&o.bin, "bin", "bin", "`directory` for the programs")
	fs.DurationVar(&o.limit, "limit", 150*time.Second, "`time` after which no round is begun")
	fs.DurationVar(&o.settle, "settle", 200*time.Millisecond, "`time` in which a client comes to rest, before and after a measurement")
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
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	if err := build(ctx, o.bin); err != nil {
		return err
	}
	r, err := o.measure(ctx, chosen, progress)
	write(out, o, chosen, r)
	return err
}

// results are the samples of each client, by its name.
type results struct {
	rounds  int
	samples map[string][]sample
	// others is how many cores other processes used in the worst measurement.
	others float64
}

// measure runs all rounds for which there is time. What a client fails at does
// not stop the others.
func (o *options) measure(ctx context.Context, chosen []contender, progress io.Writer) (*results, error) {
	r := &results{samples: map[string][]sample{}}
	var errs error
	start, longest := time.Now(), time.Duration(0)
	for ; r.rounds < o.rounds; r.rounds++ {
		began := time.Now()
		if r.rounds > 0 && began.Sub(start)+longest > o.limit {
			fmt.Fprintf(progress, "%d of %d rounds: no time left (-limit)\n", r.rounds, o.rounds)
			break
		}
		for _, c := range chosen {
			b := bench{bin: o.bin, contender: c, clusters: o.clusters, changes: o.changes, settle: o.settle}
			s, err := b.measure(ctx)
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s: %w", c.name, err))
				continue
			}
			r.samples[c.name] = append(r.samples[c.name], s)
			r.others = max(r.others, s.others)
		}
		longest = max(longest, time.Since(began))
		fmt.Fprintf(progress, "round %d: %.0f s\n", r.rounds+1, time.Since(began).Seconds())
		if ctx.Err() != nil {
			return r, errors.Join(errs, ctx.Err())
		}
	}
	return r, errs
}

// contender is a client under test.
type contender struct {
	name, program string
	args          []string
	// wildcard says that it can only ask for all clusters and for nothing else.
	wildcard bool
	// stream says that it is no client: only its changes are of interest.
	stream bool
	// bare says that it can be told to keep nothing of what resources say.
	bare bool
}

const (
	xebecSotW   = "xebec-sotw"
	xebecDelta  = "xebec-delta"
	dialSotW    = "dial-sotw"
	dialDelta   = "dial-delta"
	streamSotW  = "stream-sotw"
	streamDelta = "stream-delta"
)

func contenders() []contender {
	return []contender{
		{name: xebecSotW, program: "xebec", bare: true},
		{name: xebecDelta, program: "xebec", args: []string{"-delta"}, bare: true},
		{name: dialSotW, program: "xebec", args: []string{"-grpc-go"}, bare: true},
		{name: dialDelta, program: "xebec", args: []string{"-grpc-go", "-delta"}, bare: true},
		{name: "grpc-go", program: "grpcgo", args: []string{"-names", nameFormat}},
		{name: "go-control-plane", program: "gocontrolplane", wildcard: true},
		{name: streamSotW, program: "stream", stream: true},
		{name: streamDelta, program: "stream", args: []string{"-delta"}, stream: true},
	}
}

func names() string {
	var all []string
	for _, c := range contenders() {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

func (o *options) chosen() ([]contender, error) {
	if o.only == "" {
		return contenders(), nil
	}
	var out []contender
	for name := range strings.SplitSeq(o.only, ",") {
		i := slices.IndexFunc(contenders(), func(c contender) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: there are %s", name, names())
		}
		out = append(out, contenders()[i])
	}
	return out, nil
}
