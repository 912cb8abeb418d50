package xdsclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// A program follows the clusters of a management server.
func Example() {
	address, update, stop := exampleServer()
	defer stop()

	transport, err := xdsclient.NewDirect(xdsclient.DirectConfig{Address: address}) // on loopback, so without TLS
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := xdsclient.NewSource(context.Background(), xdsclient.Config{
		Node:    &corev3.Node{Id: "example"},
		Servers: []xdsclient.Server{{Name: "main", Transport: transport}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()

	news := make(chan string)
	cancel := xdsclient.Watch(source, xdsclient.Clusters(), xdsclient.Wildcard, xdsclient.Funcs[*clusterv3.Cluster]{
		Change: func(u xdsclient.Update[*clusterv3.Cluster]) {
			news <- u.Name + " is of type " + u.Value.GetType().String()
		},
		Error: func(name string, err error) {
			news <- name + " is gone: " + fmt.Sprint(errors.Is(err, xdsclient.ErrMissing))
		},
	})
	defer cancel()

	fmt.Println(<-news)
	update(snapshot.Changes{Set: []*xds.Resource{exampleCluster(clusterv3.Cluster_STRICT_DNS)}})
	fmt.Println(<-news)
	update(snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "backend"}}})
	fmt.Println(<-news)
	// Output:
	// backend is of type STATIC
	// backend is of type STRICT_DNS
	// backend is gone: true
}

// Fetch reads once, and says which names it did not get and why.
func ExampleFetch() {
	address, _, stop := exampleServer()
	defer stop()
	source, err := xdsclient.NewSource(context.Background(), xdsclient.Config{
		Node: &corev3.Node{Id: "example"}, Delta: true, // with delta a server says at once what does not exist
		Servers: []xdsclient.Server{{Name: "main", Transport: xdsclient.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	found, err := xdsclient.Fetch(context.Background(), source, xdsclient.Clusters(), "backend", "nobody")
	fmt.Println(found["backend"].GetName())
	fmt.Println(err)
	// Output:
	// backend
	// Cluster "nobody": the resource does not exist: the server says that it does not exist (server "main", node "example")
}

// limits is a type of one's own: what is watched need not be a message of Envoy's,
// nor a message at all once it is decoded.
type limits struct{ Requests int }

// Proves GC-57, XC-42: a type of one's own is decoded and validated by functions
// of one's own.
func ExampleType() {
	limitType := xdsclient.Type[limits]{
		Type: xds.Type{URL: xds.TypePrefix + "example.Limits", API: "limits", Kind: "Limits"},
		Decode: func(_ string, body []byte) (l limits, err error) {
			var text wrapperspb.StringValue // any encoding will do
			if err := proto.Unmarshal(body, &text); err != nil {
				return l, err
			}
			return l, json.Unmarshal([]byte(text.GetValue()), &l)
		},
		Validate: func(_, _ string, l limits) error {
			if l.Requests <= 0 {
				return errors.New("Requests: must be larger than 0")
			}
			return nil
		},
		// Only needed for state of the world, where a resource has to say itself
		// what it is called.
		NameOf: func([]byte) (string, error) { return "mine", nil },
	}

	address, update, stop := exampleServer(xdsserver.WithTypes(limitType.Type))
	defer stop()
	limit := func(json string) *xds.Resource {
		body, _ := proto.Marshal(wrapperspb.String(json))
		return xds.NewResource(limitType.URL, "mine", body)
	}
	update(snapshot.Changes{Set: []*xds.Resource{limit(`{"Requests": 10}`)}})

	source, err := xdsclient.NewSource(context.Background(), xdsclient.Config{
		Node:    &corev3.Node{Id: "example"},
		Servers: []xdsclient.Server{{Name: "main", Transport: xdsclient.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()
	news := make(chan string)
	defer xdsclient.Watch(source, limitType, "mine", xdsclient.Funcs[limits]{
		Change:       func(u xdsclient.Update[limits]) { news <- fmt.Sprint("at most ", u.Value.Requests) },
		AmbientError: func(_ string, err error) { news <- fmt.Sprint("keeping it: ", err) },
	})()
	fmt.Println(<-news)
	update(snapshot.Changes{Set: []*xds.Resource{limit(`{"Requests": -1}`)}})
	fmt.Println(<-news)
	// Output:
	// at most 10
	// keeping it: example.Limits "mine": the resource is not valid: Requests: must be larger than 0 (server "main", node "example")
}

func exampleCluster(kind clusterv3.Cluster_DiscoveryType) *xds.Resource {
	r, err := xds.Marshal("backend", &clusterv3.Cluster{Name: "backend", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind}})
	if err != nil {
		panic(err)
	}
	return r
}

// exampleServer serves one cluster on loopback.
func exampleServer(opts ...xdsserver.Option) (address string, update func(snapshot.Changes), stop func()) {
	server, err := xdsserver.New(opts...)
	if err != nil {
		panic(err)
	}
	update = func(c snapshot.Changes) {
		if err := server.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: c}}); err != nil {
			panic(err)
		}
	}
	update(snapshot.Changes{Set: []*xds.Resource{exampleCluster(clusterv3.Cluster_STATIC)}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	g := grpc.NewServer(server.GRPCOptions()...)
	server.Register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(listener) }()
	return listener.Addr().String(), update, func() { g.Stop(); <-done }
}
