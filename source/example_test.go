package source_test

import (
	"context"
	"fmt"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source"
	"github.com/xebec-proxy/xebec/xds"
)

// once is the smallest source there can be: it delivers one cluster.
type once struct{}

func (once) Run(ctx context.Context, sink source.Sink) error {
	cluster := xds.NewResource(xds.ClusterType, "web", []byte{})
	err := sink.Apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{
		"default": {Set: []*xds.Resource{cluster}},
	}})
	if err != nil {
		return err
	}
	<-ctx.Done() // a source runs until it is told to stop
	return nil
}

func (once) Health() source.Health { return source.Health{Loaded: true} }

// printer is a sink that says what it is given. A server of package xdsserver
// is a sink too.
type printer struct{ stop func() }

func (p printer) Apply(b snapshot.Batch) error {
	for group, c := range b.Groups {
		for _, r := range c.Set {
			fmt.Println(group, r.Name())
		}
	}
	p.stop()
	return nil
}

// A source of one's own needs two methods.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	var s source.Source = once{}
	fmt.Println(s.Run(ctx, printer{stop}))
	// Output:
	// default web
	// <nil>
}
