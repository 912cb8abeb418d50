// Command xebec is a management server for xDS clients, a proxy that runs
// Envoy's configuration, and the tools around them. See `xebec --help`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/internal/app/serveproxy"
	"github.com/xebec-proxy/xebec/internal/cli"
)

func main() {
	ctx, stop := interruptible(context.Background())
	code := cli.Main(ctx, cli.Process{
		Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr, LookupEnv: os.LookupEnv,
		BuildProxy: serveproxy.Builder(serveproxy.Environment{LookupEnv: os.LookupEnv}),
	})
	stop()
	os.Exit(code)
}

// sameSignal is how soon a second signal is taken for the first: tools such as
// timeout signal a process and its group, and so some processes twice.
const sameSignal = 100 * time.Millisecond

// interruptible returns a context that the first SIGINT or SIGTERM ends. The
// second one ends the process, whatever it is waiting for.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		first := time.Now()
		for s := range signals {
			if time.Since(first) > sameSignal {
				fmt.Fprintf(os.Stderr, "xebec: second signal (%v), exiting at once\n", s)
				os.Exit(cli.ExitFailed)
			}
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}
