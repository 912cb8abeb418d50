package overload

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	cgroupv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/cgroup_memory/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	injectedv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/injected_resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Env is what a manager is built with.
type Env struct {
	Stats    *stats.Registry
	ReadFile func(name string) ([]byte, error)
	// Integer reads a whole number of the runtime.
	Integer func(key string) (value uint64, ok bool)
	// Unpack decodes a typed configuration.
	Unpack func(*anypb.Any) (proto.Message, error)
	Logger *slog.Logger
	// Connections gets the limit of the monitor for them.
	Connections *Connections
	// Memory tells of the process's memory, and Release gives what is free of it back
	// to the system; the runtime's if nil.
	Memory  func() Memory
	Release func()
}

// ConnectionsMonitor is the name that the monitor of connections must have.
const ConnectionsMonitor = "envoy.resource_monitors.global_downstream_max_connections"

const (
	defaultInterval = time.Second
	leastInterval   = time.Millisecond
	defaultShrink   = 10 * time.Second
	defaultUnfreed  = 100 << 20
)

// New builds the manager of a bootstrap's overload_manager. Nothing runs yet. Every
// error is reported at once, with the path of its field, in Envoy's words.
func New(cfg *overloadv3.OverloadManager, env *Env) (*Manager, error) {
	b := builder{env: env, m: &Manager{env: env, interval: defaultInterval, Levels: &Levels{}, shrinkEach: defaultShrink, unfreed: defaultUnfreed}}
	if d := cfg.GetRefreshInterval(); d != nil {
		b.m.interval = max(d.AsDuration(), leastInterval)
	}
	for i, c := range cfg.GetResourceMonitors() {
		b.resource(fmt.Sprintf("resource_monitors[%d]", i), c)
	}
	for i, c := range cfg.GetActions() {
		b.action(fmt.Sprintf("actions[%d]", i), c)
	}
	for _, r := range b.m.resources {
		if h, ok := r.monitor.(*heap); ok {
			h.lowest = b.m.rules.lowest(r.name)
		}
	}
	if err := errors.Join(b.errs...); err != nil {
		return nil, err
	}
	b.m.register()
	return b.m, nil
}

type builder struct {
	env   *Env
	m     *Manager
	errs  []error
	timer [timers]string // the action that has it
}

func (b *builder) fail(path, format string, a ...any) {
	b.errs = append(b.errs, fmt.Errorf("%s: %w", path, fmt.Errorf(format, a...)))
}

// resource builds a monitor.
func (b *builder) resource(path string, c *overloadv3.ResourceMonitor) {
	for _, r := range b.m.resources {
		if r.name == c.GetName() {
			b.fail(path+".name", "Duplicate resource monitor %s", c.GetName())
			return
		}
	}
	msg, err := b.env.Unpack(c.GetTypedConfig())
	if err != nil {
		b.fail(path+".typed_config", "%w", err)
		return
	}
	m, err := b.monitor(c.GetName(), msg)
	if err != nil {
		b.fail(path+".typed_config", "%w", err)
		return
	}
	b.m.resources = append(b.m.resources, &resource{name: c.GetName(), monitor: m})
}

func (b *builder) monitor(name string, msg proto.Message) (monitor, error) {
	switch c := msg.(type) {
	case *injectedv3.InjectedResourceConfig:
		return &injected{file: c.GetFilename(), read: b.env.ReadFile}, nil
	case *cgroupv3.CgroupMemoryConfig:
		return newCgroup(c.GetMaxMemoryBytes(), b.env.ReadFile)
	case *heapv3.FixedHeapConfig:
		return b.heap(c)
	case *connectionsv3.DownstreamConnectionsConfig:
		if name != ConnectionsMonitor {
			return nil, fmt.Errorf("Didn't find a registered implementation for '%s' with type URL: '%s': it must be named %s", name, msg.ProtoReflect().Descriptor().FullName(), ConnectionsMonitor) //nolint:staticcheck // Envoy's text
		}
		b.env.Connections.most = c.GetMaxActiveDownstreamConnections()
		return limit{b.env.Connections}, nil
	}
	return nil, fmt.Errorf("Didn't find a registered implementation for '%s' with type URL: '%s'", name, msg.ProtoReflect().Descriptor().FullName()) //nolint:staticcheck // Envoy's text
}

// limit is the connections as a monitor.
type limit struct{ *Connections }

func (m limit) pressure() (float64, error) { return m.Connections.pressure(), nil }

func (b *builder) heap(c *heapv3.FixedHeapConfig) (monitor, error) {
	most, rt := c.GetMaxHeapSizeBytes(), c.GetMaxHeapSizeBytesRuntime()
	if most != 0 && rt != nil {
		return nil, errors.New("fixed_heap: exactly one of max_heap_size_bytes or max_heap_size_bytes_runtime must be set")
	}
	if rt != nil {
		most = rt.GetDefaultValue()
	}
	if most == 0 {
		return nil, errors.New("fixed_heap: max heap size must be greater than 0")
	}
	h := &heap{most: func() uint64 { return most }, read: b.env.Memory, now: time.Now}
	if h.read == nil {
		h.read = ReadMemory
	}
	if rt != nil {
		integer := b.env.Integer
		h.most = func() uint64 {
			if n, ok := integer(rt.GetRuntimeKey()); ok && n > 0 {
				return n
			}
			return most
		}
	}
	return h, nil
}

// action builds an action.
func (b *builder) action(path string, c *overloadv3.OverloadAction) {
	name := c.GetName()
	for _, a := range b.m.rules.actions {
		if a.name == name {
			b.fail(path+".name", "Duplicate overload action %s", name)
			return
		}
	}
	a := &action{name: name}
	b.kind(path, a, c)
	for i, t := range c.GetTriggers() {
		b.trigger(fmt.Sprintf("%s.triggers[%d]", path, i), a, t)
	}
	b.m.rules.actions = append(b.m.rules.actions, a)
}

// kind finds out what an action does, and reads its own configuration.
func (b *builder) kind(path string, a *action, c *overloadv3.OverloadAction) {
	var known bool
	a.kind, known = kindOf(a.name)
	var msg proto.Message
	if c.GetTypedConfig() != nil {
		var err error
		if msg, err = b.env.Unpack(c.GetTypedConfig()); err != nil {
			b.fail(path+".typed_config", "%w", err)
			return
		}
	}
	scale, isScale := msg.(*overloadv3.ScaleTimersOverloadActionConfig)
	shrink, isShrink := msg.(*overloadv3.ShrinkHeapConfig)
	switch {
	case !known && !isScale:
		b.fail(path+".name", "Unknown Overload Manager Action %s", a.name)
	case !known && strings.HasPrefix(a.name, reserved):
		b.fail(path+".name", "Overload action name %q uses reserved prefix %q", a.name, reserved)
	case !known || a.kind == reduceTimeouts && isScale:
		a.kind = reduceTimeouts
		b.scale(path+".typed_config", a, scale)
	case a.kind == reduceTimeouts && msg == nil:
		b.fail(path, "Overload action %q requires typed_config", a.name)
	case a.kind == shrinkHeap && isShrink:
		b.shrink(shrink)
	case msg != nil && (isScale || isShrink):
		b.fail(path+".typed_config", "Overload action name %q conflicts with its typed config", a.name)
	case msg != nil:
		b.fail(path+".typed_config", "Overload action %q has an unexpected value for the typed_config field", a.name)
	}
}

func (b *builder) shrink(c *overloadv3.ShrinkHeapConfig) {
	if d := c.GetTimerInterval(); d != nil {
		b.m.shrinkEach = max(d.AsDuration(), time.Second)
	}
	if n := c.GetMaxUnfreedMemoryBytes(); n != nil {
		b.m.unfreed = n.GetValue()
	}
}

// scale reads which timers an action makes shorter.
func (b *builder) scale(path string, a *action, c *overloadv3.ScaleTimersOverloadActionConfig) {
	for i, f := range c.GetTimerScaleFactors() {
		at := fmt.Sprintf("%s.timer_scale_factors[%d]", path, i)
		k, ok := timerOf(f.GetTimer())
		if !ok {
			b.fail(at+".timer", "a timer is needed")
			continue
		}
		switch b.timer[k] {
		case "":
		case a.name:
			b.fail(at+".timer", "Found duplicate entry for timer type %s", f.GetTimer())
			continue
		default:
			b.fail(at+".timer", "Timer type is configured by both overload actions %q and %q", b.timer[k], a.name)
			continue
		}
		b.timer[k] = a.name
		l := &least{time: f.GetMinTimeout().AsDuration()}
		if p := f.GetMinScale(); p != nil {
			l.share = p.GetValue() / 100
		}
		if l.time < 0 {
			b.fail(at+".min_timeout", "Invalid duration: Expected positive duration: %v", l.time)
		}
		b.m.least[k] = l
		b.m.scaledBy[k] = a
	}
}

// trigger builds a trigger of an action.
func (b *builder) trigger(path string, a *action, c *overloadv3.Trigger) {
	known := false
	for _, r := range b.m.resources {
		known = known || r.name == c.GetName()
	}
	for i := range a.triggers {
		if a.triggers[i].monitor == c.GetName() {
			b.fail(path+".name", "Duplicate trigger resource for overload action %s", a.name)
			return
		}
	}
	if !known {
		b.fail(path+".name", "Unknown trigger resource %s for overload action %s", c.GetName(), a.name)
	}
	t := trigger{monitor: c.GetName()}
	if s := c.GetScaled(); s != nil {
		t.scaling, t.saturation = s.GetScalingThreshold(), s.GetSaturationThreshold()
		if t.scaling >= t.saturation {
			b.fail(path+".scaled", "scaling_threshold must be less than saturation_threshold")
		}
	} else {
		t.scaling = c.GetThreshold().GetValue()
		t.saturation = t.scaling
	}
	if math.IsNaN(t.scaling) || math.IsNaN(t.saturation) {
		b.fail(path, "a threshold is no number")
	}
	a.triggers = append(a.triggers, t)
}
