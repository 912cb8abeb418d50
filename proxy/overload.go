package proxy

import (
	"context"

	"github.com/xebec-proxy/xebec/internal/dataplane/overload"
)

// buildOverload builds the overload manager, if the bootstrap has one (OV-01).
func (p *Proxy) buildOverload() error {
	cfg := p.cfg.GetOverloadManager()
	if cfg == nil {
		return nil
	}
	m, err := overload.New(cfg, &overload.Env{
		Stats: p.stat, ReadFile: p.o.ReadFile, Integer: p.integer, Unpack: unpack, Logger: p.component("main"), Connections: p.downstream,
	})
	if err != nil {
		return prefixed("overload_manager", err)
	}
	p.overload = m
	return nil
}

// levels are what the overload manager tells listeners; nil without one.
func (p *Proxy) levels() *overload.Levels {
	if p.overload == nil {
		return nil
	}
	return p.overload.Levels
}

// runOverload runs the overload manager until ctx ends.
func (p *Proxy) runOverload(ctx context.Context) error {
	if p.overload == nil {
		return nil
	}
	each := func(f func(r *running)) {
		for _, r := range p.workers {
			r.w.Loop.Post(func() { f(r) })
		}
	}
	return p.overload.Run(ctx, overload.Hooks{ //nolint:wrapcheck // it has no error of its own
		StopConnections: func(stop bool) { each(func(r *running) { r.w.Deafen(stop) }) },
		Timeouts:        func(to overload.Factors) { each(func(r *running) { r.w.Rewait(to) }) },
	})
}

// limitConnections puts the runtime's limit of all connections in force (OV-06).
func (p *Proxy) limitConnections() {
	most, ok := p.integer(overload.RuntimeKey)
	p.downstream.SetRuntime(most, ok)
}
