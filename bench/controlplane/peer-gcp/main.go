// Command peer-gcp is the server under test built with go-control-plane:
// -cache snapshot or -cache linear.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// store is one of go-control-plane's caches with a way to change it.
type store interface {
	cache() cache.Cache
	prepare(k resources.Kind, i, gen int) (func() error, error)
}

// gcp is the library's server over a store.
type gcp struct {
	ctx context.Context
	store
}

func (g gcp) Register(s *grpc.Server) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(g.ctx, g.cache(), nil))
}

func (g gcp) Prepare(k resources.Kind, i, gen int) (func() error, error) { return g.prepare(k, i, gen) }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peer-gcp:", err)
		os.Exit(1)
	}
}

func run() error {
	var o peer.Options
	o.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := open(o)
	if err != nil {
		return err
	}
	return peer.Run(ctx, o, gcp{ctx: ctx, store: s}, peer.GRPCOptions())
}

func open(o peer.Options) (store, error) {
	switch o.Cache {
	case "snapshot":
		return newSnapshots(o)
	case "linear":
		return newLinear(o), nil
	}
	return nil, fmt.Errorf("-cache %q: want snapshot or linear", o.Cache)
}
