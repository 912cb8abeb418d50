package proxy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/validate"
)

// extensionState is a filter's configuration of one source, and the places that
// have it.
type extensionState struct {
	kind   extension.Kind
	name   string
	source *corev3.ConfigSource
	users  []*extensionUser
	last   *corev3.TypedExtensionConfig // in force, or nil
	gone   bool                         // the source does not have it any more
	origin
	rejected *failure
	scope    *stats.Scope
	stats    extensionStats
	late     bool // it did not come in time
	refused  bool // it was, once: nobody waits for the first any more, nor who comes later
}

// extensionUser is a place of a filter.
type extensionUser struct {
	*extension.Place
	state *extensionState // nil until it is attached
	wait
}

// extensionStats are "extension_config_discovery.<kind>.<name>." (BS-31).
type extensionStats struct {
	subscription
	ConfigConflict stats.Counter `stat:"config_conflict"`
	ConfigFail     stats.Counter `stat:"config_fail"`
	ConfigReload   stats.Counter `stat:"config_reload"`
}

// knownHTTP refuses types that no HTTP filter has.
func (p *Proxy) knownHTTP(full string) error {
	if _, ok := p.reg.HTTP(full); ok || full == fullName((*routerv3.Router)(nil)) {
		return nil
	}
	return extension.NoFactory(full)
}

// knownNetwork refuses types that no network filter has.
func (p *Proxy) knownNetwork(full string) error {
	if _, ok := p.reg.Network(full); ok || full == fullName((*tcpv3.TcpProxy)(nil)) {
		return nil
	}
	if full == fullName((*hcmv3.HttpConnectionManager)(nil)) {
		return errors.New("known but not built: a connection manager that is discovered alone: write typed_config, or let the listener be discovered")
	}
	return extension.NoFactory(full)
}

// knownListener refuses types that no listener filter has.
func (p *Proxy) knownListener(full string) error {
	if _, ok := p.reg.Listener(full); ok {
		return nil
	}
	return extension.NoFactory(full)
}

func fullName(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// extensions is what places of filters of a chain are made with.
func (p *Proxy) extensions(d *chainDeps, known func(full string) error) *extension.Env {
	return &extension.Env{
		Workers: d.workers, Known: known, Unpack: unpack,
		CheckSource: func(path string, c *corev3.ConfigSource) error { return p.checkSource(path, c, ExtensionType) },
		Add:         func(place *extension.Place) { d.extensions = append(d.extensions, &extensionUser{Place: place}) },
	}
}

func (r *Resources) attachExtension(u *extensionUser) {
	source := u.Source.GetConfigSource()
	var s *extensionState
	for _, x := range r.extensions[u.Name] {
		if x.kind == u.Kind && sameSource(x.source, source) {
			s = x
		}
	}
	m := r.p.stat.Main()
	if s == nil {
		s = &extensionState{kind: u.Kind, name: u.Name, source: source, scope: r.p.stat.Scope("extension_config_discovery." + string(u.Kind) + "." + u.Name)}
		s.scope.Fill(&s.stats)
		s.stats.text = s.scope.Text("version_text")
		r.extensions[u.Name] = append(r.extensions[u.Name], s)
		r.tell.add(true, ExtensionType, u.Name, source)
		s.stats.asked(m, source)
	}
	s.users = append(s.users, u)
	u.state = s
	if u.Source.GetApplyDefaultConfigWithoutWarming() {
		u.end()
	}
	if s.gone && (s.last == nil || u.Default != nil) {
		u.end()
		return
	}
	if s.last == nil {
		u.over = u.over || s.late || s.refused
		return
	}
	// It was checked when it came.
	cfg, err := unpack(s.last.GetTypedConfig())
	if err == nil {
		var install func(int)
		if install, err = u.Try(cfg); err == nil {
			u.take(r, install)
		}
	}
	if err != nil {
		m.Inc(s.stats.ConfigConflict)
		r.p.component("config").Warn("the configuration in force does not suit another filter of this name", "filter", u.Name, "error", err)
	}
	u.end()
}

// take puts a configuration in force.
func (u *extensionUser) take(r *Resources, install func(worker int)) {
	for i := range r.p.o.Workers {
		if i >= len(r.p.workers) {
			install(i) // that worker does not run yet
			continue
		}
		r.p.workers[i].w.Loop.PostUnhurried(func() { install(i) })
	}
	u.end()
}

// startExtension begins to count the time that is waited.
func (r *Resources) startExtension(u *extensionUser) {
	r.startWait(&u.wait, u.Source.GetConfigSource(), func() {
		r.p.component("config").Warn("no configuration came within initial_fetch_timeout", "filter", u.Name)
		if s := u.state; s != nil && !s.late {
			s.late = true
			r.p.stat.Main().Inc(s.stats.InitFetchTimeout)
		}
	})
}

func (r *Resources) detachExtension(u *extensionUser) {
	s := u.state
	u.halt()
	if s == nil {
		return
	}
	u.state = nil
	s.users = slices.DeleteFunc(s.users, func(x *extensionUser) bool { return x == u })
	if len(s.users) > 0 {
		return
	}
	r.tell.add(false, ExtensionType, s.name, s.source)
	forget(r.extensions, s.name, s)
}

// SetExtension gives a configuration to the filters that refer to its name and
// source by config_discovery (BS-31); a nil source is any. Streams and
// connections under way keep what they began with. One that no filter refers to
// is ignored.
func (r *Resources) SetExtension(source *corev3.ConfigSource, c *corev3.TypedExtensionConfig, version string) error {
	return setOfSource(r, func() []*extensionState { return r.extensions[c.GetName()] }, source, func(s *extensionState) error { return r.reconfigure(s, c, version) })
}

func (r *Resources) reconfigure(s *extensionState, c *corev3.TypedExtensionConfig, version string) error {
	m, begun := r.p.stat.Main(), time.Now()
	from, err := newOrigin(c, version)
	if err == nil && s.last != nil && !s.gone && s.same(&from) {
		s.rejected = nil
		s.version = version
		s.stats.accepted(m, begun, version)
		return nil
	}
	for _, u := range s.users {
		if err == nil {
			err = u.Expect(string(c.GetTypedConfig().MessageName()))
		}
	}
	var cfg proto.Message
	if err == nil {
		cfg, err = r.checkExtension(s.kind, c)
	}
	installs := make([]func(int), len(s.users))
	for i, u := range s.users {
		if err == nil {
			installs[i], err = u.Try(cfg)
		}
	}
	if err != nil {
		s.stats.rejected(m)
		m.Inc(s.stats.ConfigFail)
		s.rejected = &failure{c, version, time.Now(), err}
		r.extensionRefused(s)
		return fmt.Errorf("filter %q: %w", c.GetName(), err)
	}
	s.last, s.gone, s.origin, s.rejected = c, false, from, nil
	s.stats.accepted(m, begun, version)
	m.Inc(s.stats.ConfigReload)
	for i, u := range s.users {
		u.take(r, installs[i])
	}
	r.settleListeners()
	return nil
}

// extensionRefused ends the waiting for a configuration that is wrong, as in Envoy.
func (r *Resources) extensionRefused(s *extensionState) {
	s.refused = true
	for _, u := range s.users {
		u.end()
	}
	r.settleListeners()
}

// checkExtension refuses what is not valid or not built, as a filter of a kind.
func (r *Resources) checkExtension(kind extension.Kind, c *corev3.TypedExtensionConfig) (proto.Message, error) {
	var errs []error
	for _, f := range validate.Message(c, "", nil) {
		if f.Severity == validate.Error {
			errs = append(errs, fmt.Errorf("%s: %s", f.Path, f.Message))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	a := c.GetTypedConfig()
	switch kind {
	case extension.HTTP:
		f, err := checkAs(r, &hcmv3.HttpFilter{Name: c.GetName(), ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: a}})
		if err != nil {
			return nil, err
		}
		a = f.GetTypedConfig()
	case extension.Network:
		f, err := checkAs(r, &listenerv3.Filter{Name: c.GetName(), ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: a}})
		if err != nil {
			return nil, err
		}
		a = f.GetTypedConfig()
	case extension.Listener:
		f, err := checkAs(r, &listenerv3.ListenerFilter{Name: c.GetName(), ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: a}})
		if err != nil {
			return nil, err
		}
		a = f.GetTypedConfig()
	}
	return unpack(a)
}

// noExtension is what happens when a source does not have a configuration, or
// not any more: filters with a default_config go back to it, others keep what
// they have (XS-66).
func (r *Resources) noExtension(s *extensionState) {
	s.gone = true
	kept := false
	for _, u := range s.users {
		if u.Default != nil {
			u.take(r, u.Default)
		}
		kept = kept || u.Default == nil
		u.end()
	}
	if !kept {
		s.last = nil
	}
	r.settleListeners()
}
