package route

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
)

// filterEnv knows a filter "buffer" whose per-route configuration is read as
// its limit, and the router, which has none.
func filterEnv(t *testing.T, log *bytes.Buffer) *Env {
	t.Helper()
	var r filter.Registry
	for _, typ := range []filter.HTTPType{
		{
			Config: &bufferv3.Buffer{}, RouteConfig: &bufferv3.BufferPerRoute{},
			ParseRoute: func(m proto.Message, _ *filter.Env) (any, error) {
				return int(m.(*bufferv3.BufferPerRoute).GetBuffer().GetMaxRequestBytes().GetValue()), nil
			},
		},
		{Config: &routerv3.Router{}},
	} {
		if err := r.AddHTTP(typ); err != nil {
			t.Fatal(err)
		}
	}
	env := testEnv()
	env.Registry, env.FilterEnv = &r, &filter.Env{}
	env.FilterNames = map[string]string{
		"one": "envoy.extensions.filters.http.buffer.v3.Buffer", "two": "envoy.extensions.filters.http.buffer.v3.Buffer",
		"router": "envoy.extensions.filters.http.router.v3.Router",
	}
	if log != nil {
		env.Logger = slog.New(slog.NewTextHandler(log, nil))
	}
	return env
}

const perRoute = "{'@type': type.googleapis.com/envoy.extensions.filters.http.buffer.v3.BufferPerRoute, buffer: {max_request_bytes: "

func limit(n string) string { return perRoute + n + "}}" }

func filterCfg(s string) string {
	return "{'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, " + s + "}"
}

// Proves HF-10.
func TestFilterConfigOfFourLevels(t *testing.T) {
	tab := newTableIn(t, `
typed_per_filter_config: {one: `+limit("1")+`, two: `+limit("10")+`}
virtual_hosts:
- name: v
  domains: ['*']
  typed_per_filter_config: {one: `+limit("2")+`}
  routes:
  - match: {path: /all}
    typed_per_filter_config: {one: `+filterCfg("config: "+limit("3"))+`}
    route: {weighted_clusters: {clusters: [{name: c, weight: 1, typed_per_filter_config: {one: `+limit("4")+`}}]}}
  - {match: {path: /host}, route: {cluster: c}}
`, filterEnv(t, nil))
	for _, tc := range []struct {
		path, name string
		target     bool
		want       any
		all        []any
	}{
		{"/all", "one", true, 4, []any{1, 2, 3, 4}},
		{"/all", "one", false, 3, []any{1, 2, 3}},
		{"/host", "one", true, 2, []any{1, 2}},
		{"/host", "two", true, 10, []any{10}},
		{"/host", "three", true, nil, nil},
	} {
		c := context(request("h", tc.path))
		e := tab.Match(c)
		var target Target
		if tc.target {
			target = e.PickCluster(c)
		}
		if got := e.FilterConfig(target, tc.name); got != tc.want {
			t.Errorf("%s %s: %v, want %v", tc.path, tc.name, got, tc.want)
		}
		var all []any
		e.FilterConfigs(target, tc.name, func(cfg any) bool { all = append(all, cfg); return true })
		if !slices.Equal(all, tc.all) {
			t.Errorf("%s %s: all are %v, want %v", tc.path, tc.name, all, tc.all)
		}
		e.FilterConfigs(target, tc.name, func(any) bool { all = nil; return false })
		if all != nil {
			t.Error("the walk does not end")
		}
	}
}

// Proves HF-11.
func TestFilterDisabled(t *testing.T) {
	tab := newTableIn(t, `
typed_per_filter_config: {two: `+filterCfg("disabled: true")+`}
virtual_hosts:
- name: v
  domains: ['*']
  typed_per_filter_config: {one: `+filterCfg("disabled: true")+`}
  routes:
  - {match: {path: /on}, typed_per_filter_config: {one: `+limit("3")+`}, route: {cluster: c}}
  - {match: {path: /configured}, typed_per_filter_config: {two: `+filterCfg("config: "+limit("3"))+`}, route: {cluster: c}}
  - {match: {path: /host}, route: {weighted_clusters: {clusters: [{name: c, weight: 1, typed_per_filter_config: {one: `+limit("4")+`}}]}}}
`, filterEnv(t, nil))
	for _, tc := range []struct {
		path, name    string
		disabled, set bool
	}{
		{"/on", "one", false, true},
		{"/on", "two", true, true},
		{"/configured", "two", false, true},
		{"/configured", "one", true, true},
		{"/host", "one", true, true},
		{"/host", "three", false, false},
	} {
		c := context(request("h", tc.path))
		e := tab.Match(c)
		if d, set := e.FilterDisabled(tc.name); d != tc.disabled || set != tc.set {
			t.Errorf("%s %s: %t %t", tc.path, tc.name, d, set)
		}
		if tc.path == "/host" && tc.name == "one" {
			if d, set := e.FilterDisabledFor(e.PickCluster(c), "one"); d || !set {
				t.Error("the weighted cluster has no say")
			}
		}
	}
}

// Proves HF-10. The texts are Envoy's.
func TestFilterConfigErrors(t *testing.T) {
	const unknown = "{'@type': type.googleapis.com/google.protobuf.Struct, value: {}}"
	for _, tc := range []struct{ name, cfg, want string }{
		{"one", unknown, "Didn't find a registered implementation for 'one' with type URL: 'google.protobuf.Struct'"},
		{"one", filterCfg("config: " + unknown), "Didn't find a registered implementation for 'one'"},
		{"one", filterCfg("is_optional: true"), "Empty route/virtual host per filter configuration for one filter"},
		{"router", "{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}", "The filter router doesn't support virtual host or route specific configurations"},
		{"router", limit("1"), "belongs to the filter envoy.extensions.filters.http.buffer.v3.Buffer"},
	} {
		got := newError(t, "virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: c}, typed_per_filter_config: {"+tc.name+": "+tc.cfg+"}}]}]", filterEnv(t, nil))
		if !strings.Contains(got, tc.want) || !strings.Contains(got, `virtual_hosts[0].routes[0].typed_per_filter_config["`+tc.name+`"]`) {
			t.Errorf("%s: %s, want %s", tc.cfg, got, tc.want)
		}
	}
	for cfg, warning := range map[string]string{
		"one: " + filterCfg("is_optional: true, config: "+unknown): "optional", "nobody: " + limit("1"): "no filter has this name",
	} {
		var log bytes.Buffer
		newTableIn(t, "virtual_hosts: [{name: v, domains: ['*'], typed_per_filter_config: {"+cfg+"}}]", filterEnv(t, &log))
		if !strings.Contains(log.String(), warning) {
			t.Errorf("%s: the log is %q", cfg, log.String())
		}
	}
}

// What is said for a filter does not hold for the redirect of require_tls.
func TestRedirectToTLSHasNoFilters(t *testing.T) {
	tab := newTable(t, "typed_per_filter_config: {f: {'@type': type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}}\nvirtual_hosts: [{name: v, domains: ['*'], require_tls: ALL, routes: [{match: {prefix: /}, route: {cluster: c}}]}]")
	e := tab.Match(context(request("h", "/", "x-forwarded-proto: http")))
	if _, set := e.FilterDisabled("f"); set || e.Kind() != Redirect {
		t.Errorf("%v: the filter is disabled: %v", e.Kind(), set)
	}
}
