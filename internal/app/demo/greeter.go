package demo

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The service is small enough to be described by hand: a string in, a string
// out.
const (
	greeterService = "xebec.demo.Greeter"
	greetMethod    = "/" + greeterService + "/Greet"
)

// greeter is one server of the service.
type greeter struct {
	name     string
	listener net.Listener
	server   *grpc.Server
}

func newGreeter(name string, l net.Listener) *greeter {
	g := &greeter{name: name, listener: l, server: grpc.NewServer()}
	g.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: greeterService,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Greet", Handler: g.greet}},
	}, g)
	return g
}

// greet answers with the server's name, so that callers see who they reached.
//
//nolint:revive // the order of the arguments is gRPC's
func (g *greeter) greet(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var in wrapperspb.StringValue
	if err := dec(&in); err != nil {
		return nil, err
	}
	return wrapperspb.String(g.name), nil
}

// run serves until the context ends.
func (g *greeter) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, g.server.Stop)
	defer stop()
	if err := g.server.Serve(g.listener); err != nil {
		return fmt.Errorf("the server %s: %w", g.name, err)
	}
	return nil
}
