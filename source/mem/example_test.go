package mem_test

import (
	"context"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/mem"
	"github.com/xebec-proxy/xebec/xds"
)

// printer is a sink, where a program would have its server. It says when it has
// had its first batch.
type printer struct{ ready chan struct{} }

func (p printer) Apply(b snapshot.Batch) error {
	if b.Full {
		defer close(p.ready)
	}
	for name, c := range b.Groups {
		for _, r := range c.Set {
			fmt.Println("group", name, "now has", xds.Kind(r.TypeURL()), r.Name())
		}
		for _, k := range c.Remove {
			fmt.Println("group", name, "no longer has", xds.Kind(k.Type), k.Name)
		}
	}
	return nil
}

func Example() {
	src := mem.New()
	if err := src.Set(mem.DefaultGroup, &clusterv3.Cluster{Name: "backend"}); err != nil {
		fmt.Println(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error)
	go func() { done <- src.Run(ctx, printer{ready}) }()
	<-ready

	// Once it runs, a change is at the sink when the call returns.
	err := src.Update(func(tx *mem.Tx) error {
		tx.Remove(mem.DefaultGroup, xds.Key{Type: xds.ClusterType, Name: "backend"})
		return tx.Set(mem.DefaultGroup, &clusterv3.Cluster{Name: "canary"})
	})
	if err != nil {
		fmt.Println(err)
	}
	cancel()
	fmt.Println("stopped:", <-done)
	// Output:
	// group default now has Cluster backend
	// group default now has Cluster canary
	// group default no longer has Cluster backend
	// stopped: <nil>
}
