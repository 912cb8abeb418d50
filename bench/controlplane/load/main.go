// Command load opens many ADS streams on a server under test, each on its own
// connection, and measures how long and at what cost they receive the first
// state, changes of one resource each, and a restart of the server. It prints
// one JSON object (package report) and fails if any stream is told anything
// wrong.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/client"
	"github.com/xebec-proxy/xebec/bench/controlplane/report"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// options is the command line.
type options struct {
	plan    client.Plan
	control string
	rounds  int
	restart bool
	timeout time.Duration
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.plan.Address, "addr", "127.0.0.1:28700", "xDS `address`, numeric")
	fs.StringVar(&o.control, "ctl", "127.0.0.1:28701", "control `address`")
	fs.IntVar(&o.plan.Streams, "streams", 100, "`number` of streams, each on its own connection")
	fs.IntVar(&o.plan.Clusters, "clusters", 1000, "`number` of clusters the server holds")
	fs.BoolVar(&o.plan.EDS, "eds", false, "subscribe to every assignment by name")
	fs.BoolVar(&o.plan.Delta, "delta", false, "incremental variant")
	fs.IntVar(&o.plan.Stuck, "stuck", 0, "`number` of the streams that never take what they are sent")
	fs.IntVar(&o.plan.Window, "window", 1<<20, "flow-control window of a stream in `bytes`; all together must fit into the kernel's tcp_mem")
	fs.IntVar(&o.plan.Dials, "dials", 256, "`number` of connections in the making at a time")
	fs.IntVar(&o.plan.PerSource, "per-source", 20000, "`number` of connections from one loopback address")
	fs.IntVar(&o.rounds, "rounds", 10, "`number` of changes of each kind")
	fs.BoolVar(&o.restart, "restart", false, "restart the server while all streams hold everything")
	fs.DurationVar(&o.timeout, "timeout", 2*time.Minute, "`time` for any one step")
}

// collect is how little the load program collects its garbage: it is small.
const collect = 400

func main() {
	debug.SetGCPercent(collect)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	var o options
	o.flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o.plan.Hold = o.restart
	if o.restart && !o.plan.Delta {
		return fmt.Errorf("-restart needs -delta: only there a client says what it holds")
	}
	if err := client.RaiseFileLimit(o.plan.Streams + 50); err != nil {
		return err
	}
	fleet, err := client.New(o.plan)
	if err != nil {
		return err
	}
	defer fleet.Close()
	r, err := (&driver{options: o, fleet: fleet, control: control{addr: o.control}}).run(ctx)
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// kinds lists the kinds of resources that are changed.
func (o *options) kinds() []resources.Kind {
	if o.plan.EDS {
		return []resources.Kind{resources.CDS, resources.EDS}
	}
	return []resources.Kind{resources.CDS}
}

func (o *options) result() report.Load {
	variant := "sotw"
	if o.plan.Delta {
		variant = "delta"
	}
	return report.Load{
		Variant: variant, Streams: o.plan.Streams, Clusters: o.plan.Clusters, EDS: o.plan.EDS, Stuck: o.plan.Stuck,
		Changes: map[string]report.Change{},
	}
}
