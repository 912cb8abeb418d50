package ondemand_test

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
	"github.com/xebec-proxy/xebec/internal/filters/ondemand"
)

// What cannot be done is refused by name, of the filter and of a route.
func TestRefused(t *testing.T) {
	env := &filter.Env{CheckClusterSource: func(path string, c *corev3.ConfigSource) error {
		if c.GetPath() != "" { //nolint:staticcheck // any source will do
			return errors.New(path + ": not this one")
		}
		return nil
	}}
	k := ondemand.Type()
	for text, want := range map[string]string{
		`{}`:                                   "",
		`{"odcds": {"source": {"ads": {}}}}`:   "",
		`{"odcds": {}}`:                        "odcds.source: it is missing",
		`{"odcds": {"source": {"path": "x"}}}`: "odcds.source: not this one",
		`{"odcds": {"resourcesLocator": "x"}}`: "odcds.resources_locator: collections are known but not built",
		`{"odcds": {"source": {"ads": {}}, "timeout": "-1s"}}`: "odcds.timeout: must be a duration of 0 or more",
	} {
		own, route := &ondemandv3.OnDemand{}, &ondemandv3.PerRouteConfig{}
		if err := errors.Join(protojson.Unmarshal([]byte(text), own), protojson.Unmarshal([]byte(text), route)); err != nil {
			t.Fatal(err)
		}
		_, err := k.New(own, env)
		_, routeErr := k.ParseRoute(route, env)
		for _, err := range []error{err, routeErr} {
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}

// A request that needs nothing passes, and costs no allocation of its own.
func TestPasses(t *testing.T) {
	s := filtertest.NewStream(0)
	f := filtertest.HTTP(t, ondemand.Type(), `{}`, &filter.Env{})
	var cb filter.Callbacks
	s.Chain.Reset(s, 0)
	s.Chain.Grow(1)
	s.Chain.Add("x", func(c filter.Callbacks) filter.HTTPFilter { cb = c; return filter.HTTPFilter{} })
	pass := func() {
		d := f(cb).Decoder
		if d.DecodeHeaders(&s.Request, true) != filter.Continue {
			t.Error("it stops")
		}
		if x, ok := d.(filter.Destroyer); ok {
			x.OnDestroy()
		}
	}
	pass()
	if n := testing.AllocsPerRun(100, pass); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
