package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/proxy"
)

// layeredBy is small, whose second route a runtime key can turn on, with layers.
func layeredBy(rtds string) string {
	return small + adminHere + `
layered_runtime:
  layers:
  - {name: base, static_layer: {base: 1, over: 1}}
  - {name: served, rtds_layer: {` + rtds + `}}
  - {name: admin, admin_layer: {}}
`
}

func runtimeOf(t testing.TB, name string, values map[string]any) *runtimev3.Runtime {
	t.Helper()
	s, err := structpb.NewStruct(values)
	must(t, err)
	return &runtimev3.Runtime{Name: name, Layer: s}
}

// Proves BS-38: a layer is waited for before clusters are asked for, changes a
// route's share of requests under traffic, keeps the last good values, and is
// empty when there is no such resource any more.
func TestRuntimeComesAndChanges(t *testing.T) {
	s := newSource()
	asked := make(chan struct{})
	var came atomic.Bool
	s.first = func(*proxy.Resources) {
		if !came.Load() {
			t.Error("clusters are asked for before the runtime has come")
		}
		close(asked)
	}
	r := begin(t, layeredBy("name: rtl, rtds_config: {ads: {}}"), s.by)
	s.wants(t, "map[Runtime rtl:true]")
	select {
	case <-r.Ready():
		t.Fatal("ready without the runtime")
	default:
	}
	res := r.Resources()
	must(t, res.SetRuntime(nil, runtimeOf(t, "other", map[string]any{"new": map[string]any{"way": 100}}), "0"))
	came.Store(true)
	must(t, res.SetRuntime(ads(), runtimeOf(t, "rtl", map[string]any{"over": 2, "x": map[string]any{"y": true}}), "1"))
	<-asked
	<-r.Ready()
	front := r.Listeners()["front"][0]
	becomes(t, front, "old")
	traffic := keepAsking(t, front)
	on := map[string]any{"new.way": 100, "over": 3}
	must(t, res.SetRuntime(ads(), runtimeOf(t, "rtl", on), "2"))
	if got := getOnce(t, front); got != "new" {
		t.Errorf("turned on: %q", got)
	}
	must(t, res.SetRuntime(ads(), runtimeOf(t, "rtl", on), "3"))
	for _, bad := range []any{[]any{1}, nil} {
		err := res.SetRuntime(ads(), runtimeOf(t, "rtl", map[string]any{"a": map[string]any{"b": bad}}), "4")
		if err == nil || err.Error() != `runtime "rtl": layer: Invalid runtime entry value for a.b` {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if got := getOnce(t, front); got != "new" {
		t.Errorf("after a bad one: %q", got)
	}
	var page struct {
		Entries map[string]struct {
			Layers []string `json:"layer_values"`
			Final  string   `json:"final_value"`
		}
	}
	must(t, json.Unmarshal([]byte(r.get(t, "/runtime")), &page))
	if fmt.Sprint(page.Entries) != "map[base:{[1  ] 1} new.way:{[ 100 ] 100} over:{[1 3 ] 3}]" {
		t.Errorf("/runtime: %v", page.Entries)
	}
	// An administrator has the last word.
	if a := r.ask(t, http.MethodPost, "/runtime_modify?new.way=0", ""); a.status != http.StatusOK {
		t.Errorf("%v", a)
	}
	must(t, res.SetRuntime(ads(), runtimeOf(t, "rtl", map[string]any{"new.way": map[string]any{"numerator": 1000000, "denominator": "MILLION"}}), "5"))
	if got := getOnce(t, front); got != "old" {
		t.Errorf("overridden: %q", got)
	}
	if a := r.ask(t, http.MethodPost, "/runtime_modify?new.way=", ""); a.status != http.StatusOK {
		t.Errorf("%v", a)
	}
	if got := getOnce(t, front); got != "new" {
		t.Errorf("as served: %q", got)
	}
	res.Missing(ads(), proxy.RuntimeType, "rtl")
	if got := getOnce(t, front); got != "old" {
		t.Errorf("removed: %q", got)
	}
	must(t, res.SetRuntime(ads(), runtimeOf(t, "rtl", on), "2"))
	if got := getOnce(t, front); got != "new" {
		t.Errorf("back again: %q", got)
	}
	if got := traffic(); got["old"] == 0 || got["new"] == 0 || len(got) != 2 {
		t.Errorf("traffic meanwhile: %v", got)
	}
	want := "runtime.init_fetch_timeout: 0\nruntime.load_success: 8\nruntime.num_keys: 3\nruntime.num_layers: 3\n"
	if got := r.get(t, "/stats?filter=^runtime.(num_|load_success|init_fetch_timeout$)"); got != want {
		t.Errorf("statistics:\n%s", got)
	}
}

// keepAsking asks on one connection until what it returns is called, which tells
// how often it got which answer.
func keepAsking(t *testing.T, address string) func() map[string]int {
	t.Helper()
	l := dialLine(t, address, "")
	stop, done := make(chan struct{}), make(chan map[string]int)
	ask := func(got map[string]int) bool {
		body, _, err := l.ask()
		if err != nil {
			body = err.Error()
		}
		got[body]++
		return err == nil
	}
	got := map[string]int{}
	ask(got)
	go func() {
		defer func() { done <- got }()
		for ask(got) {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	return func() map[string]int { close(stop); return <-done }
}

// A layer that does not come is empty, and does not keep the proxy waiting.
func TestRuntimeThatDoesNotCome(t *testing.T) {
	for name, c := range map[string]struct {
		wait   string
		answer func(r *proxy.Resources, typeURL, name string)
		late   int
	}{
		"late":    {"0.01s", nil, 1},
		"missing": {"0s", func(r *proxy.Resources, typeURL, name string) { r.Missing(nil, typeURL, name) }, 0},
		"bad": {"0s", func(r *proxy.Resources, _, name string) {
			_ = r.SetRuntime(nil, runtimeOf(t, name, map[string]any{"a": nil}), "1")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			s.answer = c.answer
			r := start(t, layeredBy("name: rtl, rtds_config: {ads: {}, initial_fetch_timeout: "+c.wait+"}"), s.by)
			if got := r.get(t, "/stats?filter=^runtime.init_fetch_timeout"); got != fmt.Sprintf("runtime.init_fetch_timeout: %d\n", c.late) {
				t.Error(got)
			}
			becomes(t, r.Listeners()["front"][0], "old")
			must(t, r.Resources().SetRuntime(nil, runtimeOf(t, "rtl", map[string]any{"new.way": 100}), "2"))
			if got := getOnce(t, r.Listeners()["front"][0]); got != "new" {
				t.Error(got)
			}
		})
	}
}

// What reads the runtime hears of a change: limits of clusters, those that come
// later too, and features of the proxy.
func TestRuntimeReachesEverything(t *testing.T) {
	s := newSource()
	s.answer = func(r *proxy.Resources, _, name string) { r.Missing(nil, proxy.RuntimeType, name) }
	r := start(t, layeredBy("name: rtl, rtds_config: {ads: {}}"), s.by)
	res := r.Resources()
	front := r.Listeners()["front"][0]
	l := dialLine(t, front, "")
	status := func() string {
		t.Helper()
		_, err := fmt.Fprint(l, "GET /#f HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		resp, err := http.ReadResponse(l.r, nil)
		must(t, err)
		_ = resp.Body.Close()
		if resp.Close {
			l = dialLine(t, front, "")
		}
		return resp.Status
	}
	if got := status(); got != "400 Bad Request" {
		t.Error(got)
	}
	must(t, res.SetRuntime(nil, runtimeOf(t, "rtl", map[string]any{
		"envoy.reloadable_features.http_reject_path_with_fragment": false, "circuit_breakers.one.default.max_requests": 7, "circuit_breakers.later.default.max_requests": 8,
	}), "1"))
	if got := status(); got != "200 OK" {
		t.Error(got)
	}
	must(t, res.SetCluster(staticCluster("later", "127.0.0.1:1"), "1"))
	clusters := r.get(t, "/clusters")
	for _, want := range []string{"one::default_priority::max_requests::7\n", "later::default_priority::max_requests::8\n", "none::default_priority::max_requests::1024\n"} {
		if !strings.Contains(clusters, want) {
			t.Errorf("no %q", want)
		}
	}
}

// What is wrong with a layer is told with its path.
func TestRuntimeLayersThatCannotBe(t *testing.T) {
	for layer, want := range map[string]string{
		"name: x":                          "layered_runtime.layers[1].rtds_layer.rtds_config: a config source is needed",
		"rtds_config: {ads: {}}":           "layered_runtime.layers[1].rtds_layer.name: a name is needed",
		"name: x, rtds_config: {self: {}}": "layered_runtime.layers[1].rtds_layer.rtds_config.self",
	} {
		loaded, o, _ := load(t, layeredBy(layer))
		if _, err := proxy.New(loaded.Bootstrap, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", layer, err)
		}
	}
}
