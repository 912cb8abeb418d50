package matchtree

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// values is what trees of these tests look at.
type values map[string]string

func testEnv(counted map[string]int) Env[values, string] {
	return Env[values, string]{
		Unpack: func(a *anypb.Any) (proto.Message, error) { return a.UnmarshalNew() },
		Input: func(cfg proto.Message) (Input[values], bool, error) {
			switch m := cfg.(type) {
			case *wrapperspb.StringValue:
				if m.GetValue() == "" {
					return Input[values]{}, true, errors.New("value: the text is empty")
				}
				return Input[values]{Text: func(d values) (string, bool) { v, ok := d[m.GetValue()]; return v, ok }}, true, nil
			case *wrapperspb.BytesValue:
				return Input[values]{Metadata: func(d values) (*structpb.Value, bool) {
					v, ok := d[string(m.GetValue())]
					if !ok {
						return nil, false
					}
					return structpb.NewStringValue(v), true
				}}, true, nil
			}
			return Input[values]{}, false, nil
		},
		Action: func(cfg proto.Message) (string, bool, error) {
			m, ok := cfg.(*wrapperspb.StringValue)
			if m.GetValue() == "bad" {
				return "", true, errors.New("a bad action")
			}
			return m.GetValue(), ok, nil
		},
		Count: func(counter string) func(values) { return func(values) { counted[counter]++ } },
	}
}

func decode(t *testing.T, from any) *xdsmatcherv3.Matcher {
	t.Helper()
	raw, err := yaml.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		t.Fatal(err)
	}
	v, err := structpb.NewValue(abbreviated(plain))
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m := &xdsmatcherv3.Matcher{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return m
}

// abbreviated writes out {in: x}, {md: x} and {do: x}: extensions of these tests.
func abbreviated(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for short, kind := range map[string]string{"in": "StringValue", "md": "BytesValue", "do": "StringValue"} {
			if name, ok := v[short].(string); ok && len(v) == 1 {
				return map[string]any{"name": name, "typed_config": map[string]any{"@type": "type.googleapis.com/google.protobuf." + kind, "value": name}}
			}
		}
		for k := range v {
			v[k] = abbreviated(v[k])
		}
	case []any:
		for i := range v {
			v[i] = abbreviated(v[i])
		}
	}
	return v
}

// Proves FC-13 (the engine): each tree of the table decides as written beside it.
func TestTrees(t *testing.T) {
	raw, err := os.ReadFile("testdata/trees.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name  string
		Tree  any
		Asked []struct {
			With values
			Want string
		}
		Counted map[string]int
	}
	if err := yaml.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 15 {
		t.Errorf("only %d trees", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			counted := map[string]int{}
			tree, err := New("m", decode(t, c.Tree), testEnv(counted))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range c.Asked {
				got, ok := tree.Match(a.With)
				if ok != (a.Want != "") || got != a.Want {
					t.Errorf("%v leads to %q (%v), want %q", a.With, got, ok, a.Want)
				}
			}
			if fmt.Sprint(counted) != fmt.Sprint(c.Counted) && len(counted)+len(c.Counted) > 0 {
				t.Errorf("counted %v, want %v", counted, c.Counted)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	raw, err := os.ReadFile("testdata/refusals.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Tree any
		Want []string
	}
	if err := yaml.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		_, err := New("m", decode(t, c.Tree), testEnv(nil))
		if err == nil {
			t.Errorf("%d: taken, want %q", i, c.Want)
			continue
		}
		if got := strings.Split(err.Error(), "\n"); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.Want) {
			t.Errorf("%d: got\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(c.Want, "\n"))
		}
	}
}

// Nothing that a configuration nests may exhaust the stack.
func TestDepth(t *testing.T) {
	nested := func(n int) *xdsmatcherv3.Matcher {
		m := decode(t, map[string]any{"on_no_match": map[string]any{"action": map[string]any{"do": "x"}}})
		for range n {
			m = &xdsmatcherv3.Matcher{OnNoMatch: &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Matcher{Matcher: m}}}
		}
		return m
	}
	tree, err := New("m", nested(mostNested-1), testEnv(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := tree.Match(nil); got != "x" {
		t.Errorf("got %q", got)
	}
	if _, err := New("m", nested(100000), testEnv(nil)); err == nil || !strings.Contains(err.Error(), "nested more than 50 deep") {
		t.Errorf("got %.100v", err)
	}
	p := &xdsmatcherv3.Matcher_MatcherList_Predicate{}
	for range 100000 {
		p = &xdsmatcherv3.Matcher_MatcherList_Predicate{MatchType: &xdsmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: p}}
	}
	m := &xdsmatcherv3.Matcher{MatcherType: &xdsmatcherv3.Matcher_MatcherList_{MatcherList: &xdsmatcherv3.Matcher_MatcherList{
		Matchers: []*xdsmatcherv3.Matcher_MatcherList_FieldMatcher{{Predicate: p, OnMatch: nested(0).GetOnNoMatch()}},
	}}}
	if _, err := New("m", m, testEnv(nil)); err == nil || !strings.Contains(err.Error(), "nested more than 50 deep") {
		t.Errorf("got %.100v", err)
	}
}

// The ranges around an address are those that netip says contain it, the longest first.
func FuzzRanges(f *testing.F) {
	f.Add("10.0.0.0/8 10.1.0.0/16 0.0.0.0/0 ::/0 10.1.2.3/32", "10.1.2.3")
	f.Add("fd00::/8 fd00::1/128", "fd00::1")
	f.Fuzz(func(t *testing.T, list, asked string) {
		addr, err := netip.ParseAddr(asked)
		if err != nil {
			return
		}
		m := rangeMap[netip.Prefix]{keys: map[netip.Prefix]netip.Prefix{}}
		for s := range strings.FieldsSeq(list) {
			address, bits, _ := strings.Cut(s, "/")
			var n uint32
			_, _ = fmt.Sscan(bits, &n)
			if p, err := cidr(address, n); err == nil {
				m.keys[p] = p
			}
		}
		m.index()
		found, last := 0, 129
		for p := range m.containing(addr) {
			found++
			if !p.Contains(addr.WithZone("")) || p.Bits() >= last {
				t.Errorf("%s after %d for %s", p, last, addr)
			}
			last = p.Bits()
		}
		want := 0
		for p := range m.keys {
			if p.Contains(addr.WithZone("")) {
				want++
			}
		}
		if found != want {
			t.Errorf("%d ranges around %s in %q, want %d", found, addr, list, want)
		}
	})
}
