// Command xebec is the client under test built on Xebec's xdsclient.
package main

import (
	"context"
	"io"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/bench/client/client"
	"github.com/xebec-proxy/xebec/bench/client/resources"
	"github.com/xebec-proxy/xebec/xdsclient"
)

func main() { client.Main("xebec", run) }

func run(ctx context.Context, o client.Options, in io.Reader, out io.Writer) error {
	transport, err := transportTo(o)
	if err != nil {
		return err
	}
	source, err := xdsclient.NewSource(ctx, xdsclient.Config{
		Node:  &corev3.Node{Id: "bench"},
		Delta: o.Delta,
		Servers: []xdsclient.Server{{
			Name: "bench", Transport: transport,
		}},
	})
	if err != nil {
		return err
	}
	defer source.Close()
	var seen client.Seen
	return o.Run(ctx, in, out, xebec{source, o.Bare, &seen}, &seen)
}

// transportTo is the library's own transport, or the one over grpc-go.
func transportTo(o client.Options) (xdsclient.Transport, error) {
	if o.GRPCGo {
		return xdsclient.Dial(o.Address, grpc.WithTransportCredentials(insecure.NewCredentials())), nil
	}
	return xdsclient.NewDirect(xdsclient.DirectConfig{Address: o.Address})
}

type xebec struct {
	source *xdsclient.Source
	bare   bool
	seen   *client.Seen
}

func (x xebec) Watch(from, to int, assignments bool) error {
	for i := from; i < to; i++ {
		if x.bare {
			follow(x, bare(xdsclient.Clusters()), bare(xdsclient.Endpoints()), resources.Name(i), assignments)
		} else {
			follow(x, xdsclient.Clusters(), xdsclient.Endpoints(), resources.Name(i), assignments)
		}
	}
	return nil
}

func follow[C, A any](x xebec, clusters xdsclient.Type[C], endpoints xdsclient.Type[A], name string, assignments bool) {
	xdsclient.Watch(x.source, clusters, name, watcher[C]{x.seen})
	if assignments {
		xdsclient.Watch(x.source, endpoints, name, watcher[A]{x.seen})
	}
}

// bare decodes resources of a type and keeps nothing of them.
func bare[T any](t xdsclient.Type[T]) xdsclient.Type[struct{}] {
	return xdsclient.Type[struct{}]{Type: t.Type, Decode: func(name string, body []byte) (struct{}, error) {
		_, err := t.Decode(name, body)
		return struct{}{}, err
	}}
}

// watcher counts the values of a watch.
type watcher[T any] struct{ seen *client.Seen }

func (w watcher[T]) OnChange(xdsclient.Update[T])       { w.seen.Add() }
func (w watcher[T]) OnError(_ string, err error)        { w.seen.Fail(err) }
func (w watcher[T]) OnAmbientError(_ string, err error) { w.seen.Fail(err) }
