// Command peer-xebec is the server under test built with Xebec's public
// packages.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// xebec is the server over one group for all nodes.
type xebec struct{ server *xdsserver.Server }

func (x xebec) Register(s *grpc.Server) { x.server.Register(s) }

func (x xebec) Prepare(k resources.Kind, i, gen int) (func() error, error) {
	m := resources.New(k, i, gen)
	return func() error {
		r, err := xds.Marshal(resources.Name(i), m)
		if err != nil {
			return err
		}
		return x.apply(false, r)
	}, nil
}

func (x xebec) apply(all bool, set ...*xds.Resource) error {
	return x.server.Apply(snapshot.Batch{Full: all, Groups: map[string]snapshot.Changes{
		xdsserver.DefaultGroup: {Replace: all, Set: set},
	}})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peer-xebec:", err)
		os.Exit(1)
	}
}

func run() error {
	var o peer.Options
	o.Flags(flag.CommandLine)
	flag.Parse()
	if o.Cache != "" {
		return fmt.Errorf("-cache %q: this server has only one", o.Cache)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := xdsserver.New(xdsserver.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	x := xebec{server}
	var all []*xds.Resource
	for _, k := range o.Kinds() {
		for i := range o.Clusters {
			r, err := xds.Marshal(resources.Name(i), resources.New(k, i, 0))
			if err != nil {
				return err
			}
			all = append(all, r)
		}
	}
	if err := x.apply(true, all...); err != nil {
		return err
	}
	return peer.Run(ctx, o, x, server.GRPCOptions())
}
