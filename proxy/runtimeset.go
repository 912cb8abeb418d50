package proxy

import (
	"errors"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
)

// runtimeState is a layer of the runtime that is discovered (BS-38). The layers
// are the bootstrap's: they stay.
type runtimeState struct {
	index  int // of the layer
	name   string
	source *corev3.ConfigSource
	has    bool // origin is of what is in force
	origin
	wait
}

// rtdsStats are those of all discovered layers together, "runtime.".
type rtdsStats struct {
	subscriptionStats
}

// buildRuntime notes the layers that are discovered.
func (p *Proxy) buildRuntime() error {
	var errs []error
	for i, l := range p.cfg.GetLayeredRuntime().GetLayers() {
		d := l.GetRtdsLayer()
		if d == nil {
			continue
		}
		at := fmt.Sprintf("layered_runtime.layers[%d].rtds_layer", i)
		switch {
		case d.GetName() == "":
			errs = append(errs, fmt.Errorf("%s.name: a name is needed: the resource is asked for by it", at))
		case d.GetRtdsConfig() == nil:
			errs = append(errs, fmt.Errorf("%s.rtds_config: a config source is needed", at))
		default:
			errs = append(errs, p.checkSource(at+".rtds_config", d.GetRtdsConfig(), RuntimeType))
		}
		p.res.runtime = append(p.res.runtime, &runtimeState{index: i, name: d.GetName(), source: d.GetRtdsConfig()})
	}
	if len(p.res.runtime) > 0 {
		p.stat.Scope("runtime").Fill(&p.res.rtds)
	}
	return errors.Join(errs...)
}

// startRuntime asks for the layers that are discovered. r.mu is held.
func (r *Resources) startRuntime() {
	for _, s := range r.runtime {
		r.tell.add(true, RuntimeType, s.name, s.source)
		r.startWait(&s.wait, s.source, func() {
			r.p.component("runtime").Warn("no runtime layer came within initial_fetch_timeout", "layer", s.name)
			r.p.stat.Main().Inc(r.rtds.InitFetchTimeout)
		})
	}
}

// hasRuntime reports whether no layer is waited for any more. r.mu is held.
func (r *Resources) hasRuntime() bool {
	return !slices.ContainsFunc(r.runtime, func(s *runtimeState) bool { return !s.over })
}

// SetRuntime makes a resource the values of the runtime's layers that refer to
// its name and source (BS-38); a nil source is any. Requests see it from now
// on. One that no layer refers to is ignored.
func (r *Resources) SetRuntime(source *corev3.ConfigSource, rt *runtimev3.Runtime, version string) error {
	from, err := newOrigin(rt, version)
	if err == nil {
		_, err = checkAs(r, rt)
	}
	if err == nil {
		err = r.changeRuntime(source, rt.GetName(), rt, &from)
	}
	if err != nil && !errors.Is(err, ErrStopped) {
		err = fmt.Errorf("runtime %q: %w", rt.GetName(), err)
	}
	return err
}

// noRuntime empties the layers of a resource that does not exist.
func (r *Resources) noRuntime(source *corev3.ConfigSource, name string) {
	_ = r.changeRuntime(source, name, nil, nil) // nothing is never wrong
}

// changeRuntime puts new values in force, if they are others. What is wrong does
// not keep the proxy waiting, as in Envoy.
func (r *Resources) changeRuntime(source *corev3.ConfigSource, name string, rt *runtimev3.Runtime, from *origin) error {
	r.p.mu.Lock() // changes of the runtime, before what is configured
	defer r.p.mu.Unlock()
	next := r.p.rt.Load()
	changed := false
	r.mu.Lock() // not lock, since who is told of what is wanted may answer at once
	if r.stopped {
		r.mu.Unlock()
		return ErrStopped
	}
	var err error
	for _, s := range r.runtime {
		if s.name != name || !sameSource(s.source, source) {
			continue
		}
		s.end()
		if from != nil && s.has && s.same(from) || from == nil && !s.has {
			continue
		}
		if next, err = next.With(s.index, rt.GetLayer()); err != nil {
			err = fmt.Errorf("layer: %w", err)
			break
		}
		if s.has, changed = from != nil, true; s.has {
			s.origin = *from
		}
	}
	r.note()
	r.mu.Unlock()
	if err == nil && changed {
		r.p.setRuntime(next)
		r.p.component("runtime").Debug("the runtime has changed", "layer", name)
	}
	return err
}
