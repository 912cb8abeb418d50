// Package ondemand is the HTTP filter envoy.filters.http.on_demand: it holds a
// request while the virtual host or the cluster that it needs is discovered.
package ondemand

import (
	"errors"
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/demand"
)

// Type is the kind of filter
// (envoy/extensions/filters/http/on_demand/v3/on_demand.proto; spec HF-38). A
// request without a route is held until its host was asked for, if the route
// table's virtual hosts are discovered (RT-12); one whose cluster there is not,
// for as long as odcds says (CM-33). Then the request goes on with what there is,
// through the filters that it began with, as in Envoy 1.40: that its new route
// turns some of them off or on has no effect. Bodies are held back meanwhile, up
// to the stream's limit.
func Type() filter.HTTPType {
	return filter.HTTPType{
		Config: (*ondemandv3.OnDemand)(nil), New: build,
		RouteConfig: (*ondemandv3.PerRouteConfig)(nil), ParseRoute: parseRoute,
	}
}

// Host is what the filter needs of its stream.
type Host interface {
	// Waits is what the worker's requests wait for; nil if nothing can be.
	Waits() *demand.Waits
	// UnknownHost is what the request's virtual host is asked for by.
	UnknownHost() (demand.Key, bool)
	// UnknownCluster is the cluster that the request's route leads to and that is
	// not there, or "".
	UnknownCluster() string
	// Rematch forgets the request's route.
	Rematch()
}

const defaultTimeout = 5 * time.Second

// odcds is where clusters are discovered on demand; nil if they are not.
type odcds struct {
	source  *corev3.ConfigSource
	timeout time.Duration
}

func build(cfg proto.Message, env *filter.Env) (filter.HTTPFactory, error) {
	c, ok := cfg.(*ondemandv3.OnDemand)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not an OnDemand", cfg)
	}
	own, err := read(c.GetOdcds(), env)
	if err != nil {
		return nil, err
	}
	pool := &sync.Pool{New: func() any { return new(stream) }}
	return func(cb filter.Callbacks) filter.HTTPFilter {
		f, _ := pool.Get().(*stream)
		f.pool, f.cb, f.odcds = pool, cb, own
		if f.resume == nil {
			f.resume, f.late = f.onAnswer, f.onTimeout
		}
		return filter.HTTPFilter{Decoder: f}
	}, nil
}

// perRoute replaces the filter's odcds.
type perRoute struct{ odcds *odcds }

func parseRoute(cfg proto.Message, env *filter.Env) (any, error) {
	c, ok := cfg.(*ondemandv3.PerRouteConfig)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a PerRouteConfig", cfg)
	}
	o, err := read(c.GetOdcds(), env)
	if err != nil {
		return nil, err
	}
	return &perRoute{o}, nil
}

func read(c *ondemandv3.OnDemandCds, env *filter.Env) (*odcds, error) {
	switch {
	case c == nil:
		return nil, nil //nolint:nilnil // no clusters on demand
	case c.GetResourcesLocator() != "":
		return nil, errors.New("odcds.resources_locator: collections are known but not built: write source only")
	case c.GetSource() == nil:
		return nil, errors.New("odcds.source: it is missing: say where clusters are to be had")
	}
	o := &odcds{source: c.GetSource(), timeout: defaultTimeout}
	if d := c.GetTimeout(); d != nil {
		if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
			return nil, errors.New("odcds.timeout: must be a duration of 0 or more")
		}
		o.timeout = d.AsDuration()
	}
	if env != nil && env.CheckClusterSource != nil {
		if err := env.CheckClusterSource("odcds.source", o.source); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// stream is the filter of one stream.
type stream struct {
	pool  *sync.Pool
	cb    filter.Callbacks
	host  Host
	odcds *odcds

	asked bool // for the virtual host
	wait  demand.Wait
	timer filter.Timer
	// Bound once, since binding a method allocates.
	resume, late func()
}

// DecodeHeaders implements filter.Decoder.
func (f *stream) DecodeHeaders(*header.Map, bool) filter.HeadersStatus {
	o, _ := f.cb.(interface{ Owner() chain.Owner })
	if o == nil {
		return filter.Continue
	}
	f.host, _ = o.Owner().(Host)
	if f.host == nil || f.host.Waits() == nil || !f.holds() {
		return filter.Continue
	}
	return filter.StopAllIterationAndWatermark
}

// holds tells whether the request has to wait, which begins.
func (f *stream) holds() bool {
	if f.cb.Route() == nil {
		k, ok := f.host.UnknownHost()
		if !ok || f.asked {
			return false
		}
		f.asked = true
		f.host.Waits().Add(&f.wait, k, f.resume)
		return true
	}
	o := f.odcds
	if r, ok := f.cb.RouteConfig().(*perRoute); ok {
		o = r.odcds
	}
	if o == nil {
		return false
	}
	name := f.host.UnknownCluster()
	if name == "" {
		return false
	}
	f.timer = f.cb.After(o.timeout, f.late)
	f.host.Waits().Add(&f.wait, demand.Key{Kind: demand.Cluster, Name: name, Source: o.source}, f.resume)
	return true
}

// onAnswer goes on with what there is now.
func (f *stream) onAnswer() {
	waitedForCluster := f.timer != nil
	f.stop()
	f.host.Rematch()
	if waitedForCluster || !f.holds() {
		f.cb.ContinueDecoding() // the router knows what to answer if there is none
	}
}

// onTimeout goes on without the cluster.
func (f *stream) onTimeout() {
	f.stop()
	f.cb.ContinueDecoding()
}

func (f *stream) stop() {
	f.wait.Cancel()
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
}

// DecodeData implements filter.Decoder.
func (f *stream) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

// DecodeTrailers implements filter.Decoder.
func (f *stream) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

// OnDestroy implements filter.Destroyer.
func (f *stream) OnDestroy() {
	f.stop()
	p := f.pool
	*f = stream{resume: f.resume, late: f.late}
	p.Put(f)
}
