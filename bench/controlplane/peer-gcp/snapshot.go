package main

import (
	"context"
	"maps"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// everyone is the group that all nodes share.
const everyone = "all"

type oneGroup struct{}

func (oneGroup) ID(*corev3.Node) string { return everyone }

// snapshots is a SnapshotCache with one snapshot for all nodes. Of a change it
// copies only the map of the type that changes.
type snapshots struct {
	snapshotCache cache.SnapshotCache
	current       cache.Snapshot
	version       int
}

func newSnapshots(o peer.Options) (*snapshots, error) {
	s := &snapshots{snapshotCache: cache.NewSnapshotCache(false, oneGroup{}, nil)}
	for _, k := range o.Kinds() {
		all := make([]types.Resource, o.Clusters)
		for i := range all {
			all[i] = resources.New(k, i, 0)
		}
		s.current.Resources[responseType(k)] = cache.NewResources("0", all)
	}
	return s, s.set(s.current)
}

func (s *snapshots) cache() cache.Cache { return s.snapshotCache }

func (s *snapshots) prepare(k resources.Kind, i, gen int) (func() error, error) {
	name, r := resources.Name(i), resources.New(k, i, gen)
	return func() error {
		s.version++
		next := cache.Snapshot{Resources: s.current.Resources}
		items := maps.Clone(s.current.Resources[responseType(k)].Items)
		items[name] = types.ResourceWithTTL{Resource: r}
		next.Resources[responseType(k)] = cache.Resources{Version: strconv.Itoa(s.version), Items: items}
		return s.set(next)
	}, nil
}

func (s *snapshots) set(next cache.Snapshot) error {
	s.current = next
	return s.snapshotCache.SetSnapshot(context.Background(), everyone, &next)
}

func responseType(k resources.Kind) types.ResponseType {
	if k == resources.CDS {
		return types.Cluster
	}
	return types.Endpoint
}
