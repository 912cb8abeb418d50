// Package peer is everything that the servers under test have in common: the
// flags, the gRPC listener, and the control endpoint through which the load
// program changes resources and reads what they cost.
//
// The control endpoint, on an address of its own, answers
//
//	POST /bump?type=cds|eds&i=N&gen=G  changes one resource; returns a Bumped
//	GET  /stats                        returns a Stats
//	POST /gc                           collects garbage, gives memory back and
//	                                   forgets the peak of memory
//	POST /restart                      replaces the process by a new one that
//	                                   waits, everything loaded, for /open
//	POST /open                         begins to serve, if started with -hold
//	GET  /debug/pprof/                 Go's profiles
package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// Options is what the command line asks of a server under test.
type Options struct {
	// Address serves xDS, Control the control endpoint.
	Address, Control string
	// Clusters is how many clusters there are.
	Clusters int
	// EDS says that each cluster has an assignment.
	EDS bool
	// Hold delays the xDS listener until POST /open.
	Hold bool
	// Cache is the peer's own choice of an implementation.
	Cache string
}

// Kinds lists the kinds of resources that the options ask for.
func (o Options) Kinds() []resources.Kind {
	if o.EDS {
		return []resources.Kind{resources.CDS, resources.EDS}
	}
	return []resources.Kind{resources.CDS}
}

// Server is an xDS server under test. It holds all resources at generation 0
// when it is handed over.
type Server interface {
	// Register adds the server's services.
	Register(*grpc.Server)
	// Prepare readies resource i of a kind at a generation and returns the
	// function that publishes it. Only the latter is measured. Calls do not
	// overlap.
	Prepare(k resources.Kind, i, gen int) (publish func() error, err error)
}

const (
	connBuffer   = 16 << 10
	streamWindow = 256 << 10
)

// GRPCOptions are the settings for a server that recommends none of its own:
// enough streams, clients may ping, and the buffers and windows that Xebec
// recommends, so that these are no part of the difference.
func GRPCOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ReadBufferSize(connBuffer),
		grpc.WriteBufferSize(connBuffer),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(2 * streamWindow),
		grpc.MaxConcurrentStreams(1 << 20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
}

// Flags declares the options' flags.
func (o *Options) Flags(fs *flag.FlagSet) {
	fs.StringVar(&o.Address, "addr", "127.0.0.1:28700", "xDS `address`")
	fs.StringVar(&o.Control, "ctl", "127.0.0.1:28701", "control `address`")
	fs.IntVar(&o.Clusters, "clusters", 1000, "`number` of clusters")
	fs.BoolVar(&o.EDS, "eds", false, "hold an assignment for each cluster")
	fs.BoolVar(&o.Hold, "hold", false, "serve xDS only after POST /open on the control address")
	fs.StringVar(&o.Cache, "cache", "", "`variant` of the server, if it has several")
}

// Run serves until the context ends.
func Run(ctx context.Context, o Options, s Server, opts []grpc.ServerOption) error {
	gs := grpc.NewServer(opts...)
	s.Register(gs)
	fail := make(chan error, 2)
	c := &control{server: s, options: o, open: func() error { return serve(gs, o.Address, fail) }}
	l, err := net.Listen("tcp", o.Control)
	if err != nil {
		return fmt.Errorf("control address: %w", err)
	}
	if !o.Hold {
		if err := c.open(); err != nil {
			return err
		}
	}
	hs := &http.Server{Handler: c.routes(), ReadHeaderTimeout: time.Minute}
	go func() { fail <- hs.Serve(l) }()
	defer gs.Stop()
	defer hs.Close()
	select {
	case err := <-fail:
		return err
	case <-ctx.Done():
		return nil
	}
}

func serve(gs *grpc.Server, addr string, fail chan<- error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("xDS address: %w", err)
	}
	go func() {
		err := gs.Serve(l)
		if errors.Is(err, grpc.ErrServerStopped) {
			err = nil
		}
		fail <- err
	}()
	return nil
}
