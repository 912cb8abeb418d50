package main

import (
	"fmt"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// linear is one LinearCache for each type, joined by a MuxCache.
type linear map[resources.Kind]*cache.LinearCache

func newLinear(o peer.Options) linear {
	l := linear{}
	for _, k := range o.Kinds() {
		all := make(map[string]types.Resource, o.Clusters)
		for i := range o.Clusters {
			all[resources.Name(i)] = resources.New(k, i, 0)
		}
		l[k] = cache.NewLinearCache(k.TypeURL(), cache.WithInitialResources(all))
	}
	return l
}

func (l linear) cache() cache.Cache {
	m := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{},
	}
	for k, c := range l {
		m.Caches[k.TypeURL()] = c
	}
	return m
}

func (l linear) prepare(k resources.Kind, i, gen int) (func() error, error) {
	c, ok := l[k]
	if !ok {
		return nil, fmt.Errorf("no cache of kind %s", k)
	}
	name, r := resources.Name(i), resources.New(k, i, gen)
	return func() error { return c.UpdateResource(name, r) }, nil
}
