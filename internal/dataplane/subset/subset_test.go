package subset

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	subsetv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/subset/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metadata are those of a host, under envoy.lb.
func metadata(t testing.TB, js string) *corev3.Metadata {
	t.Helper()
	s := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(js), s); err != nil {
		t.Fatalf("%v in %s", err, js)
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{Namespace: s}}
}

func criteria(t testing.TB, js string) *Criteria {
	t.Helper()
	var none *Criteria
	return none.Merged(metadata(t, js))
}

// values are drawn from few, so that equal ones come often.
func drawValue(t *rapid.T, depth int) *structpb.Value {
	text := rapid.SampledFrom([]string{"", "a", "b", "ab", "s\x01a", "1"})
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth > 2 {
		kind %= 4
	}
	switch kind {
	case 0:
		return structpb.NewNullValue()
	case 1:
		return structpb.NewBoolValue(rapid.Bool().Draw(t, "bool"))
	case 2:
		return structpb.NewNumberValue(rapid.SampledFrom([]float64{0, 1, -1, 0.5, 1e300}).Draw(t, "number"))
	case 3:
		return structpb.NewStringValue(text.Draw(t, "text"))
	case 4:
		return &structpb.Value{}
	case 5:
		var list []*structpb.Value
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			list = append(list, drawValue(t, depth+1))
		}
		return structpb.NewListValue(&structpb.ListValue{Values: list})
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: drawFields(t, depth+1)})
}

func drawFields(t *rapid.T, depth int) map[string]*structpb.Value {
	fields := map[string]*structpb.Value{}
	for range rapid.IntRange(0, 2).Draw(t, "fields") {
		fields[rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, "key")] = drawValue(t, depth)
	}
	return fields
}

// plain is a value as Go has it, in which none is not the same as null.
func plain(v *structpb.Value) any {
	switch k := v.GetKind().(type) {
	case nil:
		return "no kind at all"
	case *structpb.Value_ListValue:
		out := []any{}
		for _, e := range k.ListValue.GetValues() {
			out = append(out, plain(e))
		}
		return out
	case *structpb.Value_StructValue:
		return plains(k.StructValue.GetFields())
	}
	return v.AsInterface()
}

func plains(fields map[string]*structpb.Value) map[string]any {
	out := map[string]any{}
	for k, v := range fields {
		out[k] = plain(v)
	}
	return out
}

// Criteria have the same name if, and only if, they are the same; hosts are in the
// subset of that name that have these values.
// Partly proves LB-15.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFields(t, 0), drawFields(t, 0)
		same := reflect.DeepEqual(plains(a), plains(b))
		var none *Criteria
		one, two := none.With(&structpb.Struct{Fields: a}), none.With(&structpb.Struct{Fields: b})
		if (one.Name() == two.Name()) != same {
			t.Fatalf("%v and %v: %q and %q", a, b, one.Name(), two.Name())
		}
		if len(a) == 0 {
			return
		}
		c, err := FromPolicy(&subsetv3.Subset{SubsetSelectors: []*subsetv3.Subset_LbSubsetSelector{{Keys: slices.Collect(maps.Keys(a))}}})
		if err != nil {
			t.Fatal(err)
		}
		m := c.Of(&corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{Namespace: {Fields: a}}})
		if len(m.Subsets) != 1 || m.Subsets[0].Name != one.Name() {
			t.Fatalf("%v: %v, want %q", a, m.Subsets, one.Name())
		}
	})
}

// A name tells where each of its texts ends.
func TestNamesAreNotAmbiguous(t *testing.T) {
	seen := map[string]string{}
	for _, js := range []string{
		`{"a": ["a", "sb"]}`, `{"a": ["as", "b"]}`, `{"a": ["a", "s", "b"]}`, `{"a": [["a"], "sb"]}`, `{"a": "", "b": "c"}`, `{"a": "b", "c": ""}`,
		`{"as": "b"}`, `{"a": "sb"}`, `{"a": {"b": "c"}, "d": 1}`, `{"a": {"b": "c", "d": 1}}`, `{"a": null}`, `{"a": "n"}`, `{}`,
	} {
		name := criteria(t, js).Name()
		if before, ok := seen[name]; ok {
			t.Errorf("%s and %s have the name %q", before, js, name)
		}
		seen[name] = js
	}
}

func TestMerged(t *testing.T) {
	one := criteria(t, `{"b": 1, "a": "x"}`)
	if got, want := one.Merged(metadata(t, `{"a": "y", "c": null}`)).Name(), criteria(t, `{"a": "y", "b": 1, "c": null}`).Name(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if one.Merged(nil) != one || one.Merged(&corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"x": {}}}) != one {
		t.Error("what says nothing changes the criteria")
	}
	if one.Name() != criteria(t, `{"a": "x", "b": 1}`).Name() {
		t.Error("they have changed")
	}
}

// Selectors are found by the keys of criteria, as by looking at each key.
func TestSelectors(t *testing.T) {
	keys := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.ID)
	rapid.Check(t, func(t *rapid.T) {
		var list []Criterion
		given := slices.Sorted(slices.Values(keys.Draw(t, "criteria")))
		for _, k := range given {
			list = append(list, Criterion{Key: k})
		}
		m := &subsetv3.Subset{AllowRedundantKeys: true}
		for range rapid.IntRange(0, 5).Draw(t, "selectors") {
			m.SubsetSelectors = append(m.SubsetSelectors, &subsetv3.Subset_LbSubsetSelector{Keys: keys.Draw(t, "keys")})
		}
		c, err := FromPolicy(m)
		if err != nil {
			t.Fatal(err)
		}
		widest, exact := 0, false
		for _, s := range m.GetSubsetSelectors() {
			if n := len(s.GetKeys()); n > 0 && !slices.ContainsFunc(s.GetKeys(), func(k string) bool { return !slices.Contains(given, k) }) {
				widest, exact = max(widest, n), exact || n == len(given)
			}
		}
		w := c.Widest(list)
		if (w == nil) != (widest == 0) || w != nil && len(w.Keys) != widest {
			t.Fatalf("%v, want one of %d keys", w, widest)
		}
		if (c.SelectorOf(list) != nil) != exact {
			t.Fatalf("%v, want one %v", c.SelectorOf(list), exact)
		}
		some := slices.Sorted(slices.Values(keys.Draw(t, "some")))
		var want []Criterion
		for _, k := range list {
			if slices.Contains(some, k.Key) {
				want = append(want, k)
			}
		}
		if got := Only(list[:0], list, some); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add(`{"a": ["1", "2"], "b": {"c": null}}`, true)
	f.Fuzz(func(t *testing.T, js string, listAsAny bool) {
		s := &structpb.Struct{}
		if protojson.Unmarshal([]byte(js), s) != nil || len(s.GetFields()) > 3 {
			return
		}
		c, err := FromPolicy(&subsetv3.Subset{ListAsAny: listAsAny, DefaultSubset: s, SubsetSelectors: []*subsetv3.Subset_LbSubsetSelector{{Keys: []string{"a", "b"}}}})
		if err != nil {
			t.Fatal(err)
		}
		m := c.Of(&corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{Namespace: s}})
		if !listAsAny && !m.Default {
			t.Error("a host is not as it is described")
		}
		var none *Criteria
		none.With(s).Fallbacks()
	})
}
