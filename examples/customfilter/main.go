// Command customfilter is a proxy with an HTTP filter of its own: package proxy
// embedded in another program. See README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/proxy"
)

func main() {
	path := flag.String("c", "envoy.yaml", "the bootstrap")
	flag.Parse()
	if err := run(*path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until the program is told to stop.
func run(path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b, err := load(path)
	if err != nil {
		return err
	}
	return serve(ctx, b, os.Stderr, nil)
}

// load reads a bootstrap in YAML.
func load(path string) (*bootstrapv3.Bootstrap, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the bootstrap: %w", err)
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(asJSON, &b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &b, nil
}

// serve runs a proxy with the filter until ctx ends. Ready, if not nil, is
// called when it accepts connections.
func serve(ctx context.Context, b *bootstrapv3.Bootstrap, log io.Writer, ready func(*proxy.Proxy)) error {
	p, err := proxy.New(b, proxy.Options{ //nolint:contextcheck // New starts nothing that would need one
		Logger:           slog.New(slog.NewTextHandler(log, nil)),
		LogFlushInterval: time.Second,
		Register:         func(r *filter.Registry) error { return r.AddHTTP(customers()) },
	})
	if err != nil {
		return fmt.Errorf("the configuration: %w", err)
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-p.Ready():
			for name, addresses := range p.Listeners() {
				fmt.Fprintf(log, "%s listens on %v\n", name, addresses)
			}
			if ready != nil {
				ready(p)
			}
		}
	}()
	if err := p.Run(ctx); err != nil {
		return fmt.Errorf("the proxy: %w", err)
	}
	return nil
}
