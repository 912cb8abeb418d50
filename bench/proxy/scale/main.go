// Command scale starts Envoy and Xebec's proxy, one after the other, on the same
// bootstrap: many clusters with an assignment each, from a management server
// over delta ADS. It prints what loading them costs in time, CPU and memory,
// what the proxy holds afterwards, and what it costs that one endpoint changes.
//
// Run it in bench/proxy: go run ./scale
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// options is the command line.
type options struct {
	clusters, endpoints, changes, spans, rounds, workers int
	settle, every                                        time.Duration
	xebec                                                string
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.clusters, "clusters", 10_000, "`number` of clusters, each with an assignment")
	fs.IntVar(&o.endpoints, "endpoints", 5, "`number` of endpoints of each")
	fs.IntVar(&o.changes, "changes", 20, "`number` of changes of one endpoint in a span")
	fs.IntVar(&o.spans, "spans", 7, "`number` of spans with changes, each after one as long without")
	fs.IntVar(&o.rounds, "rounds", 3, "`number` of rounds; each has every proxy once")
	fs.IntVar(&o.workers, "workers", 2, "`number` of workers of each proxy")
	fs.DurationVar(&o.settle, "settle", 12*time.Second, "`time` to come to rest after loading; two flushes of statistics and more")
	fs.DurationVar(&o.every, "every", 250*time.Millisecond, "`time` between changes; the server gathers what comes faster")
	fs.StringVar(&o.xebec, "xebec", "", "xebec `program` (default: built from this repository)")
}

func main() {
	if err := command(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
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

func (o *options) run(ctx context.Context, out, progress io.Writer) (err error) {
	if o.clusters < 1 || o.endpoints < 1 || o.endpoints > maxEndpoints || o.changes < 1 || o.spans < 1 || o.rounds < 1 {
		return fmt.Errorf("-clusters, -endpoints (up to %d), -changes, -spans and -rounds are at least 1", maxEndpoints)
	}
	dir, err := os.MkdirTemp("", "xebec-scale-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	xebec, err := o.program(ctx, dir)
	if err != nil {
		return err
	}
	proxies := []contender{{"Xebec", xebec, []string{"proxy"}}}
	if envoy := findEnvoy(); envoy != "" {
		proxies = append([]contender{{"Envoy", envoy, nil}}, proxies...)
	} else {
		fmt.Fprintln(progress, "envoy is not in PATH (bash e2e/setup.sh fetches it, or set $ENVOY): its column stays empty")
	}
	samples := map[string][]sample{}
	for round := range o.rounds {
		for _, p := range proxies {
			s, err := o.measure(ctx, filepath.Join(dir, fmt.Sprint(p.name, round)), xebec, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			samples[p.name] = append(samples[p.name], s)
			fmt.Fprintf(progress, "round %d, %s: %s\n", round+1, p.name, s)
		}
	}
	write(out, o, samples)
	return nil
}

// program takes what -xebec names, else builds it.
func (o *options) program(ctx context.Context, dir string) (string, error) {
	if o.xebec != "" {
		path, err := exec.LookPath(o.xebec)
		if err != nil {
			return "", fmt.Errorf("-xebec: %w", err)
		}
		return filepath.Abs(path)
	}
	to := filepath.Join(dir, "xebec")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-pgo=cmd/xebec/proxy.pgo", "-o", to, "./cmd/xebec")
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/xebec (run this in bench/proxy): %w\n%s", err, out)
	}
	return to, nil
}

// repository is where Xebec's own module is, seen from bench/proxy.
const repository = "../.."

// findEnvoy takes $ENVOY, else what is in PATH, else what the interoperability
// tests fetch.
func findEnvoy() string {
	candidates := []string{"envoy", filepath.Join(repository, ".tmp/e2e/python/bin/envoy")}
	if v := os.Getenv("ENVOY"); v != "" {
		candidates = []string{v}
	}
	for _, c := range candidates {
		if path, err := exec.LookPath(c); err == nil {
			if abs, err := filepath.Abs(path); err == nil {
				return abs
			}
		}
	}
	return ""
}

var errChanges = errors.New("the proxy has not had all changes")
