package route

import (
	"errors"
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// perFilter is one level's configuration of filters, by the names they have in
// the connection manager (HF-10, HF-11).
type perFilter map[string]filterConfig

type filterConfig struct {
	cfg      any // nil if there is none
	disabled bool
}

const filterConfigType = "envoy.config.route.v3.FilterConfig"

func (b *builder) perFilter(path string, m map[string]*anypb.Any) perFilter {
	if len(m) == 0 {
		return nil
	}
	out := perFilter{}
	for name, a := range m {
		p := fmt.Sprintf("%s[%q]", path, name)
		if b.env.FilterNames != nil {
			if _, ok := b.env.FilterNames[name]; !ok {
				b.warn("no filter has this name: the configuration has no effect", p)
			}
		}
		if c, ok := b.filterConfig(p, name, a); ok {
			out[name] = c
		}
	}
	return out
}

func (b *builder) filterConfig(path, name string, a *anypb.Any) (filterConfig, bool) {
	optional := false
	if string(a.MessageName()) == filterConfigType {
		var f routev3.FilterConfig
		if err := proto.Unmarshal(a.GetValue(), &f); err != nil {
			b.fail(path, fmt.Errorf("it cannot be decoded: %w", err))
			return filterConfig{}, false
		}
		if f.GetDisabled() {
			return filterConfig{disabled: true}, true
		}
		if f.GetConfig() == nil {
			b.fail(path, fmt.Errorf("Empty route/virtual host per filter configuration for %s filter", name)) //nolint:staticcheck // Envoy's text
			return filterConfig{}, false
		}
		if f.GetConfig().GetTypeUrl() == "" {
			return filterConfig{}, true // it only turns the filter on
		}
		a, optional = f.GetConfig(), f.GetIsOptional()
		path += ".config"
	}
	cfg, err := b.routeConfig(name, a)
	if errors.Is(err, errUnknownFilter) && optional {
		b.warn("the optional configuration is of an unknown type and has no effect", path)
		return filterConfig{}, false
	}
	b.fail(path, err)
	return filterConfig{cfg: cfg}, err == nil
}

var errUnknownFilter = errors.New("no filter takes it in a route")

func (b *builder) routeConfig(name string, a *anypb.Any) (any, error) {
	full := string(a.MessageName())
	unknown := fmt.Errorf("Didn't find a registered implementation for '%s' with type URL: '%s': %w", name, full, errUnknownFilter) //nolint:staticcheck // Envoy's text
	if b.env.Registry == nil {
		return nil, unknown
	}
	t, ok := b.env.Registry.HTTPByRoute(full)
	if !ok {
		if _, is := b.env.Registry.HTTP(full); is {
			return nil, fmt.Errorf("The filter %s doesn't support virtual host or route specific configurations", name) //nolint:staticcheck // Envoy's text
		}
		return nil, unknown
	}
	want := string(t.Config.ProtoReflect().Descriptor().FullName())
	if have := b.env.FilterNames[name]; have != "" && have != want {
		return nil, fmt.Errorf("%s belongs to the filter %s, but %q is a %s", full, want, name, have)
	}
	m := t.RouteConfig.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(a.GetValue(), m); err != nil {
		return nil, fmt.Errorf("it cannot be decoded: %w", err)
	}
	return t.ParseRoute(m, b.forFilters())
}

// FilterConfig is the most specific configuration of a filter: of the weighted
// cluster, the route, its virtual host or the route configuration; nil if there
// is none.
func (e *Entry) FilterConfig(t Target, filterName string) any {
	for _, level := range e.levels(t) {
		if c, ok := level[filterName]; ok && c.cfg != nil {
			return c.cfg
		}
	}
	return nil
}

// FilterConfigs yields the configurations of a filter of all levels, the most
// general first.
func (e *Entry) FilterConfigs(t Target, filterName string, yield func(cfg any) bool) {
	levels := e.levels(t)
	for i := range levels {
		if c, ok := levels[len(levels)-1-i][filterName]; ok && c.cfg != nil && !yield(c.cfg) {
			return
		}
	}
}

// FilterDisabled tells whether the route turns a filter off or, being
// configured for it, on; set is false if it says nothing (HF-11).
func (e *Entry) FilterDisabled(filterName string) (disabled, set bool) {
	return e.FilterDisabledFor(Target{}, filterName)
}

// FilterDisabledFor is FilterDisabled with the word of the weighted cluster.
func (e *Entry) FilterDisabledFor(t Target, filterName string) (disabled, set bool) {
	if e == e.vh.toTLS {
		return false, false
	}
	if w := t.Weighted; w != nil {
		if disabled, set = w.filters.disabled(filterName); set {
			return disabled, true
		}
	}
	if disabled, set = e.filters.disabled(filterName); set {
		return disabled, true
	}
	if disabled, set = e.vh.filters.disabled(filterName); set {
		return disabled, true
	}
	return e.vh.level.filters.disabled(filterName)
}

func (p perFilter) disabled(filterName string) (disabled, set bool) {
	if len(p) == 0 {
		return false, false // as most, for every filter of every request
	}
	c, ok := p[filterName]
	return c.disabled, ok
}

// levels are the levels of configuration, the most specific first. A redirect
// by require_tls has none, as in Envoy.
func (e *Entry) levels(t Target) [4]perFilter {
	if e == e.vh.toTLS {
		return [4]perFilter{}
	}
	levels := [4]perFilter{nil, e.filters, e.vh.filters, e.vh.level.filters}
	if t.Weighted != nil {
		levels[0] = t.Weighted.filters
	}
	return levels
}
