package main

import (
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/internal/stats"
	"google.golang.org/grpc/internal/xds/bootstrap"
	"google.golang.org/grpc/internal/xds/xdsclient"
	"google.golang.org/grpc/internal/xds/xdsclient/xdsresource"

	_ "google.golang.org/grpc/balancer/roundrobin"               // the policies that the clusters name:
	_ "google.golang.org/grpc/internal/xds/balancer/wrrlocality" // without them they are refused
)

// watches is grpc-go's xDS client and what it has told.
type watches struct {
	client xdsclient.XDSClient
	names  string
	seen   seen
}

// connect makes a client; it dials with the first watch.
func connect(address, names string) (*watches, func(), error) {
	type object map[string]any
	contents, err := json.Marshal(object{
		"xds_servers": []object{{"server_uri": address, "channel_creds": []object{{"type": "insecure"}}}},
		"node":        object{"id": "bench"},
	})
	if err != nil {
		return nil, nil, err
	}
	config, err := bootstrap.NewConfigFromContents(contents)
	if err != nil {
		return nil, nil, fmt.Errorf("bootstrap: %w", err)
	}
	client, stop, err := xdsclient.NewPool(config).NewClient("bench", stats.NewMetricsRecorderList(nil))
	if err != nil {
		return nil, nil, err
	}
	return &watches{client: client, names: names}, stop, nil
}

func (w *watches) start(from, to int, assignments bool) {
	for i := from; i < to; i++ {
		name := fmt.Sprintf(w.names, i)
		xdsresource.WatchCluster(w.client, name, watcher[xdsresource.ClusterUpdate]{&w.seen})
		if assignments {
			xdsresource.WatchEndpoints(w.client, name, watcher[xdsresource.EndpointsUpdate]{&w.seen})
		}
	}
}

// watcher counts the values of a watch.
type watcher[T any] struct{ seen *seen }

func (w watcher[T]) ResourceChanged(_ *T, done func())    { w.seen.add(); done() }
func (w watcher[T]) ResourceError(err error, done func()) { w.seen.fail(err); done() }
func (w watcher[T]) AmbientError(err error, done func())  { w.seen.fail(err); done() }
