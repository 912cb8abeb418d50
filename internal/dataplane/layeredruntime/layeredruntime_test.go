package layeredruntime_test

import (
	"fmt"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/fraction"
)

func static(t testing.TB, name string, values map[string]any) *bootstrapv3.RuntimeLayer {
	t.Helper()
	s, err := structpb.NewStruct(values)
	if err != nil {
		t.Fatal(err)
	}
	return &bootstrapv3.RuntimeLayer{Name: name, LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: s}}
}

func admin(name string) *bootstrapv3.RuntimeLayer {
	return &bootstrapv3.RuntimeLayer{Name: name, LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}}}
}

func snapshot(t testing.TB, layers ...*bootstrapv3.RuntimeLayer) *layeredruntime.Snapshot {
	t.Helper()
	s, err := layeredruntime.New(&bootstrapv3.LayeredRuntime{Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Proves BS-37: keys hold percentages, fractions, booleans and numbers, and a
// value of the wrong kind falls back to the configuration's.
func TestValues(t *testing.T) {
	s := snapshot(t, static(t, "a", map[string]any{
		"percent": 25, "text": "x", "on": true, "off": false, "half": 0.5, "negative": -1,
		"million": map[string]any{"numerator": 5, "denominator": "MILLION"},
		"plain":   map[string]any{"numerator": 7},
		"broken":  map[string]any{"numerator": 7, "denominator": "DOZEN"},
		"nested":  map[string]any{"inner": map[string]any{"key": 3}},
	}))
	fallback := &typev3.FractionalPercent{Numerator: 11, Denominator: typev3.FractionalPercent_TEN_THOUSAND}
	for key, want := range map[string][2]uint64{
		"percent": {25, 100}, "million": {5, 1_000_000}, "plain": {7, 100}, "nested.inner.key": {3, 100},
		"text": {11, 10_000}, "on": {11, 10_000}, "half": {11, 10_000}, "negative": {11, 10_000},
		"broken": {11, 10_000}, "absent": {11, 10_000}, "": {11, 10_000},
	} {
		n, d := s.Fraction(&corev3.RuntimeFractionalPercent{DefaultValue: fallback, RuntimeKey: key})
		if n != want[0] || d != want[1] {
			t.Errorf("%s: %d of %d, want %v", key, n, d, want)
		}
	}
	if v, ok := s.Bool("on"); !v || !ok {
		t.Error("on is off")
	}
	if v, ok := s.Bool("off"); v || !ok {
		t.Error("off is on, or not set")
	}
	if _, ok := s.Bool("percent"); ok {
		t.Error("a number is a boolean")
	}
	if got := s.Double("half", 1); got != 0.5 {
		t.Errorf("half is %v", got)
	}
	if got := s.Integer("half", 9); got != 9 {
		t.Errorf("half as a whole number is %v", got)
	}
}

// Proves BS-37: a fraction is on when random mod D < N.
func TestOnProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]uint64{100, 10_000, 1_000_000}).Draw(t, "d")
		n := rapid.Uint64Range(0, d+1).Draw(t, "n")
		r := rapid.Uint64().Draw(t, "r")
		if got, want := fraction.On(r, n, d), r%d < n; got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	if fraction.On(0, 0, 100) || !fraction.On(99, 100, 100) || !fraction.On(4, 5, 1_000_000) || fraction.On(5, 5, 1_000_000) {
		t.Error("a boundary is on the wrong side")
	}
}

func TestLayers(t *testing.T) {
	s := snapshot(t, static(t, "low", map[string]any{"a": 1, "b": 1}), static(t, "high", map[string]any{"a": 2}), admin("admin"))
	if a, b := s.Integer("a", 0), s.Integer("b", 0); a != 2 || b != 1 {
		t.Errorf("a is %d, b %d", a, b)
	}
	if !s.HasAdminLayer() || snapshot(t).HasAdminLayer() {
		t.Error("the admin layer is not where it is")
	}
	if got := strings.Join(s.Layers(), " "); got != "low high admin" {
		t.Errorf("layers %q", got)
	}
	for want, layers := range map[string][]*bootstrapv3.RuntimeLayer{
		"Duplicate layer name: x": {static(t, "x", nil), static(t, "x", nil)},
		"Too many admin layers specified in LayeredRuntime, at most one may be specified": {admin("x"), admin("y")},
	} {
		if _, err := layeredruntime.New(&bootstrapv3.LayeredRuntime{Layers: layers}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var none *layeredruntime.Snapshot
	if none.Integer("a", 4) != 4 || none.HasAdminLayer() || none.Layers() != nil {
		t.Error("no snapshot is not empty")
	}
}

// Partly proves BS-38: the values of a layer are replaced aside, and those of
// other layers stay.
func TestWith(t *testing.T) {
	s := snapshot(t, static(t, "low", map[string]any{"a": 1, "b": 1}), &bootstrapv3.RuntimeLayer{Name: "served"}, static(t, "high", map[string]any{"c": 1}))
	values := func(m map[string]any) *structpb.Struct {
		v, err := structpb.NewStruct(m)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	next, err := s.With(1, values(map[string]any{"b": 2, "c": 2, "d": map[string]any{"e": 2}}))
	if err != nil {
		t.Fatal(err)
	}
	last, err := next.With(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"1 1 1 0", "1 2 1 2", "1 1 1 0"} {
		x := []*layeredruntime.Snapshot{s, next, last}[i]
		if got := fmt.Sprint(x.Integer("a", 0), x.Integer("b", 0), x.Integer("c", 0), x.Integer("d.e", 0)); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
		if got := strings.Join(x.Layers(), " "); got != "low served high" {
			t.Errorf("%d: layers %q", i, got)
		}
	}
	for _, bad := range []any{nil, []any{1}} {
		if _, err := s.With(1, values(map[string]any{"d": map[string]any{"e": bad}})); err == nil || err.Error() != "Invalid runtime entry value for d.e" {
			t.Errorf("%v: %v", bad, err)
		}
		_, err := layeredruntime.New(&bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{static(t, "x", map[string]any{"d": bad})}})
		if err == nil || err.Error() != "layers[0].static_layer: Invalid runtime entry value for d" {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
