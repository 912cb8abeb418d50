package hcm

import (
	"errors"
	"fmt"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
)

// filters builds a list of HTTP filters, which the router or another terminal
// filter ends.
func (b *builder) filters(path string, list []*hcmv3.HttpFilter) []chain.Spec {
	var out []chain.Spec
	names := map[string]bool{}
	for i, f := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if names[f.GetName()] {
			b.fail(at+".name", fmt.Errorf("two HTTP filters are named %q: per-route configuration could not tell them apart", f.GetName()))
		}
		names[f.GetName()] = true
		if spec, ok := b.filter(at, f, i == len(list)-1); ok {
			out = append(out, spec)
		}
	}
	if len(list) == 0 {
		b.fail(path, errors.New("a terminal filter is needed: add envoy.filters.http.router"))
	}
	return out
}

func (b *builder) filter(at string, f *hcmv3.HttpFilter, last bool) (chain.Spec, bool) {
	if f.GetConfigDiscovery() != nil {
		return b.discoveredFilter(at, f, last)
	}
	msg, err := b.env.Unpack(f.GetTypedConfig())
	if err != nil {
		b.fail(at+".typed_config", err)
		return chain.Spec{}, false
	}
	factory, terminal, err := b.factory(msg)
	switch {
	case errors.Is(err, errNoFilter):
		b.fail(at, fmt.Errorf("Didn't find a registered implementation for '%s' with type URL: '%s'", f.GetName(), f.GetTypedConfig().GetTypeUrl())) //nolint:staticcheck // Envoy's text
		return chain.Spec{}, false
	case err != nil:
		b.fail(at+".typed_config", err)
		return chain.Spec{}, false
	}
	b.fail(at, placeOf(f.GetName(), f.GetName(), terminal, last))
	if terminal && f.GetDisabled() {
		b.fail(at+".disabled", errors.New("a terminal filter cannot be disabled"))
	}
	return chain.Spec{Name: f.GetName(), New: factory, Disabled: f.GetDisabled()}, true
}

var errNoFilter = errors.New("there is no filter of this type")

// factory makes what a configuration asks for, and tells whether that ends a
// chain.
func (b *builder) factory(msg proto.Message) (f filter.HTTPFactory, terminal bool, err error) {
	if f, terminal, err = b.env.Router(msg, b.out.Stats); f != nil || err != nil {
		return f, terminal, err
	}
	t, ok := b.env.Registry.HTTP(string(msg.ProtoReflect().Descriptor().FullName()))
	if !ok {
		return nil, false, errNoFilter
	}
	f, err = t.New(msg, &b.env.FilterEnv)
	return f, t.Terminal, err
}

// discoveredFilter makes a place for a filter that is found elsewhere (BS-31).
// What came is built by the goroutine that brings it, while streams use what is
// in force.
func (b *builder) discoveredFilter(at string, f *hcmv3.HttpFilter, last bool) (chain.Spec, bool) {
	name := f.GetName()
	slot, err := extension.New(extension.HTTP, name, f.GetConfigDiscovery(), b.env.Extensions, func(cfg proto.Message) (filter.HTTPFactory, error) {
		factory, terminal, err := b.factory(cfg)
		if err == nil {
			err = placeOf(name, string(cfg.ProtoReflect().Descriptor().FullName()), terminal, last)
		}
		if err == nil && terminal && f.GetDisabled() {
			err = errors.New("a terminal filter cannot be disabled")
		}
		return factory, err
	})
	if err != nil {
		b.fail("", extension.Below(at, err))
		return chain.Spec{}, false
	}
	return chain.Spec{Name: name, Discovered: slot, Disabled: f.GetDisabled()}, true
}

func placeOf(name, kind string, terminal, last bool) error {
	switch {
	case terminal && !last:
		return fmt.Errorf("Error: terminal filter named %s of type %s must be the last filter in a http filter chain.", name, kind) //nolint:staticcheck,revive // Envoy's text
	case !terminal && last:
		return fmt.Errorf("Error: non-terminal filter named %s of type %s is the last filter in a http filter chain.", name, kind) //nolint:staticcheck,revive // Envoy's text
	}
	return nil
}

// unfound answers a request whose chain has a filter that nothing came for.
type unfound struct{ cb filter.Callbacks }

// missing is the factory of unfound (BS-31).
func missing(cb filter.Callbacks) filter.HTTPFilter {
	return filter.HTTPFilter{Decoder: unfound{cb}}
}

// DecodeHeaders implements filter.Decoder.
func (f unfound) DecodeHeaders(*header.Map, bool) filter.HeadersStatus {
	f.cb.Info().Flags |= filter.FlagNoFilterConfigFound
	f.cb.SendLocalReply(filter.LocalReply{Status: 500})
	return filter.StopIteration
}

// DecodeData implements filter.Decoder.
func (unfound) DecodeData(*filter.Buffer, bool) filter.DataStatus {
	return filter.DataStopIterationNoBuffer
}

// DecodeTrailers implements filter.Decoder.
func (unfound) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersStop }
