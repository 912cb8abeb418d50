package listener

import (
	"errors"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
)

// discoveredListenerFilter makes a place for a listener filter that is found
// elsewhere (LF-14).
func (b *builder) discoveredListenerFilter(path string, f *listenerv3.ListenerFilter) {
	slot, err := extension.New(extension.Listener, f.GetName(), f.GetConfigDiscovery(), b.env.ListenerExtensions(), func(cfg proto.Message) (filter.ListenerFactory, error) {
		t, ok := b.env.Registry.Listener(fullName(cfg))
		if !ok {
			return nil, extension.NoFactory(fullName(cfg))
		}
		env := *b.env.FilterEnv
		return t.New(cfg, &env)
	})
	if err != nil {
		b.fail(extension.Below(path, err))
		return
	}
	spec := FilterSpec{Name: f.GetName(), Discovered: slot}
	if p := f.GetFilterDisabled(); p != nil {
		spec.Disabled = predicate(p)
	}
	b.l.Filters = append(b.l.Filters, spec)
}

// discoveredNetworkFilter makes a place for a network filter that is found
// elsewhere (NF-21).
func (b *builder) discoveredNetworkFilter(path string, c *Chain, f *listenerv3.Filter, last bool) {
	name := f.GetName()
	slot, err := extension.New(extension.Network, name, f.GetConfigDiscovery(), b.env.NetworkExtensions(), func(cfg proto.Message) (Network, error) {
		n, terminal, err := b.network(name, cfg)
		return n, errors.Join(err, terminalPlace(name, fullName(cfg), terminal, last))
	})
	if err != nil {
		b.fail(extension.Below(path, err))
		return
	}
	c.Filters = append(c.Filters, NetworkSpec{Name: name, Discovered: slot})
}

// network makes what a configuration asks for, and tells whether that ends a
// chain.
func (b *builder) network(name string, cfg proto.Message) (n Network, terminal bool, err error) {
	t, ok, err := b.env.Terminal(name, cfg, b.l)
	if ok || err != nil {
		return Network{Terminal: t}, true, err
	}
	kind, ok := b.env.Registry.Network(fullName(cfg))
	if !ok {
		return Network{}, false, extension.NoFactory(fullName(cfg))
	}
	env := *b.env.FilterEnv
	factory, err := kind.New(cfg, &env)
	return Network{New: factory}, kind.Terminal, err
}

func fullName(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }
