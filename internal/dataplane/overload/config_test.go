package overload

import (
	"strings"
	"testing"
)

// Partly proves OV-01, OV-02 and OV-03: what is wrong is refused, in Envoy's words,
// with the path of the field; and what is said of it all at once.
func TestFaults(t *testing.T) {
	const (
		mon   = "resource_monitors: [{name: r, typed_config: {@injected, filename: f}}]\n"
		when  = "triggers: [{name: r, threshold: {value: 0.5}}]"
		at    = "envoy.overload_actions."
		first = "actions: [{name: " + at
	)
	for _, c := range []struct{ name, text, want string }{
		{"monitor twice", "resource_monitors: [{name: r, typed_config: {@injected, filename: f}}, {name: r, typed_config: {@injected, filename: f}}]", "resource_monitors[1].name: Duplicate resource monitor r"},
		{"monitor without a type", "resource_monitors: [{name: r}]", "resource_monitors[0].typed_config: a typed_config is needed"},
		{"not a monitor", "resource_monitors: [{name: r, typed_config: {@shrink}}]", "resource_monitors[0].typed_config: Didn't find a registered implementation for 'r' with type URL: 'envoy.config.overload.v3.ShrinkHeapConfig'"},
		{"connections by another name", "resource_monitors: [{name: r, typed_config: {@connections, max_active_downstream_connections: 1}}]", "resource_monitors[0].typed_config: Didn't find a registered implementation for 'r' with type URL: 'envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig': it must be named " + ConnectionsMonitor},
		{"no heap", "resource_monitors: [{name: r, typed_config: {@heap}}]", "resource_monitors[0].typed_config: fixed_heap: max heap size must be greater than 0"},
		{"no heap by the runtime", "resource_monitors: [{name: r, typed_config: {@heap, max_heap_size_bytes_runtime: {runtime_key: k}}}]", "resource_monitors[0].typed_config: fixed_heap: max heap size must be greater than 0"},
		{"two heaps", "resource_monitors: [{name: r, typed_config: {@heap, max_heap_size_bytes: 1, max_heap_size_bytes_runtime: {runtime_key: k, default_value: 1}}}]", "resource_monitors[0].typed_config: fixed_heap: exactly one of max_heap_size_bytes or max_heap_size_bytes_runtime must be set"},
		{"no control group", "resource_monitors: [{name: r, typed_config: {@cgroup}}]", "resource_monitors[0].typed_config: No supported cgroup memory implementation found"},
		{"unknown action", mon + "actions: [{name: x, " + when + "}]", "actions[0].name: Unknown Overload Manager Action x"},
		{"unknown action of Envoy", mon + first + "x, " + when + "}]", "actions[0].name: Unknown Overload Manager Action envoy.overload_actions.x"},
		{"action twice", mon + first + "shrink_heap, " + when + "}, {name: " + at + "shrink_heap, " + when + "}]", "actions[1].name: Duplicate overload action envoy.overload_actions.shrink_heap"},
		{"unknown monitor", mon + first + "shrink_heap, triggers: [{name: x, threshold: {}}]}]", "actions[0].triggers[0].name: Unknown trigger resource x for overload action envoy.overload_actions.shrink_heap"},
		{"trigger twice", mon + first + "shrink_heap, triggers: [{name: r, threshold: {}}, {name: r, threshold: {}}]}]", "actions[0].triggers[1].name: Duplicate trigger resource for overload action envoy.overload_actions.shrink_heap"},
		{"no range", mon + first + "shrink_heap, triggers: [{name: r, scaled: {scaling_threshold: 0.5, saturation_threshold: 0.5}}]}]", "actions[0].triggers[0].scaled: scaling_threshold must be less than saturation_threshold"},
		{"a configuration too many", mon + first + "stop_accepting_requests, " + when + ", typed_config: {@injected, filename: f}}]", `actions[0].typed_config: Overload action "envoy.overload_actions.stop_accepting_requests" has an unexpected value for the typed_config field`},
		{"another's configuration", mon + first + "shrink_heap, " + when + ", typed_config: {@scale}}]", `actions[0].typed_config: Overload action name "envoy.overload_actions.shrink_heap" conflicts with its typed config`},
		{"no timers", mon + first + "reduce_timeouts, " + when + "}]", `actions[0]: Overload action "envoy.overload_actions.reduce_timeouts" requires typed_config`},
		{"reserved name", mon + first + "x, " + when + ", typed_config: {@scale}}]", `actions[0].name: Overload action name "envoy.overload_actions.x" uses reserved prefix "envoy.overload_actions."`},
		{"timer twice", mon + first + "reduce_timeouts, " + when + ", typed_config: {@scale, timer_scale_factors: [{timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 1s}, {timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 1s}]}}]", "actions[0].typed_config.timer_scale_factors[1].timer: Found duplicate entry for timer type HTTP_DOWNSTREAM_STREAM_IDLE"},
		{"timer of two", mon + "actions: [{name: a, " + when + ", typed_config: {@scale, timer_scale_factors: [{timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 1s}]}}, {name: b, " + when + ", typed_config: {@scale, timer_scale_factors: [{timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: 1s}]}}]", `actions[1].typed_config.timer_scale_factors[0].timer: Timer type is configured by both overload actions "a" and "b"`},
		{"negative timer", mon + "actions: [{name: a, " + when + ", typed_config: {@scale, timer_scale_factors: [{timer: HTTP_DOWNSTREAM_STREAM_IDLE, min_timeout: -1s}]}}]", "actions[0].typed_config.timer_scale_factors[0].min_timeout: Invalid duration: Expected positive duration: -1s"},
		{"two faults", mon + "actions: [{name: x, triggers: [{name: y, threshold: {}}]}]", "actions[0].name: Unknown Overload Manager Action x\nactions[0].triggers[0].name: Unknown trigger resource y for overload action x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			env, _ := newEnv(t)
			_, err := New(parse(t, c.text), env)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	env, _ := newEnv(t)
	if _, err := New(parse(t, mon), env); err != nil {
		t.Error(err)
	}
	if got := strings.Join(counted(t, env.Stats), "\n"); strings.Count(got, "overload.r.") != 3 {
		t.Error(got)
	}
}
