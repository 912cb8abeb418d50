package snapshot_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

func cluster(name, body string, opts ...xds.Option) *xds.Resource {
	return xds.NewResource(xds.ClusterType, name, []byte(body), opts...)
}

func with(t interface{ Fatal(...any) }, s *snapshot.Snapshot, c snapshot.Changes) (*snapshot.Snapshot, []snapshot.Change) {
	next, changes, err := s.With(c)
	if err != nil {
		t.Fatal(err)
	}
	return next, changes
}

// Proves XS-26: setting what is there already changes nothing, not even the
// revision.
func TestEqualContentIsNoChange(t *testing.T) {
	s, changes := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{cluster("a", "1"), cluster("b", "1")}})
	if len(changes) != 2 {
		t.Fatalf("%d changes, want 2", len(changes))
	}
	again, changes := with(t, s, snapshot.Changes{
		Replace: true, Set: []*xds.Resource{cluster("b", "1"), cluster("a", "1")},
		Remove: []xds.Key{{Type: xds.ClusterType, Name: "missing"}},
	})
	if again != s || changes != nil {
		t.Errorf("equal content gave %v after %v, changes %v", again, s, changes)
	}
}

// Proves XS-45: one name cannot be set twice, and the refusal changes nothing.
func TestDuplicateNames(t *testing.T) {
	s, _ := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{cluster("a", "1")}})
	_, _, err := s.With(snapshot.Changes{Set: []*xds.Resource{cluster("x", "1"), cluster("a", "2"), cluster("a", "3")}})
	if !errors.Is(err, snapshot.ErrDuplicate) {
		t.Fatalf("error %v", err)
	}
	if s.Len() != 1 || s.Set(xds.ClusterType).Get("a").Version() != cluster("a", "1").Version() {
		t.Error("the refused change shows")
	}
}

// Proves XS-15, XS-16: a type's version follows its own content only, in
// whatever order that came about, and a label replaces it verbatim.
func TestVersions(t *testing.T) {
	one, _ := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{cluster("a", "1"), cluster("b", "1"), cluster("c", "1")}})
	one, _ = with(t, one, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "c"}}})
	other, _ := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{cluster("b", "1"), cluster("a", "0")}})
	other, _ = with(t, other, snapshot.Changes{Set: []*xds.Resource{cluster("a", "1")}})
	if a, b := one.Set(xds.ClusterType).Version(), other.Set(xds.ClusterType).Version(); a != b {
		t.Errorf("equal content, versions %s and %s", a, b)
	}
	before := one.Set(xds.ClusterType).Version()
	one, _ = with(t, one, snapshot.Changes{Set: []*xds.Resource{xds.NewResource(xds.EndpointType, "a", nil)}})
	if v := one.Set(xds.ClusterType).Version(); v != before {
		t.Error("an endpoint changed the clusters' version")
	}
	one, _ = with(t, one, snapshot.Changes{Labels: map[string]string{xds.ClusterType: "2"}})
	if v := one.Set(xds.ClusterType).Version(); v != "2" {
		t.Errorf("version %q, want the label 2", v)
	}
	one, _ = with(t, one, snapshot.Changes{Labels: map[string]string{xds.ClusterType: ""}})
	if v := one.Set(xds.ClusterType).Version(); v != before {
		t.Errorf("version %q without a label, want %q", v, before)
	}
}

// Partly proves XS-65: aliases find the resource that has them now.
func TestAliases(t *testing.T) {
	s, _ := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{
		cluster("a", "1", xds.WithAliases("x", "y")), cluster("x", "real"),
	}})
	set := s.Set(xds.ClusterType)
	if r := set.Resolve("y"); r == nil || r.Name() != "a" {
		t.Errorf("y is %v", r)
	}
	if r := set.Resolve("x"); r == nil || r.Name() != "x" {
		t.Error("an alias hid a name")
	}
	s, _ = with(t, s, snapshot.Changes{Set: []*xds.Resource{cluster("a", "1", xds.WithAliases("z"))}})
	if s.Set(xds.ClusterType).Resolve("y") != nil || s.Set(xds.ClusterType).Resolve("z") == nil {
		t.Error("the aliases are the old ones")
	}
	s, _ = with(t, s, snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "a"}}})
	if s.Set(xds.ClusterType).Resolve("z") != nil {
		t.Error("an alias outlived its resource")
	}
}

func TestUnderAndRefers(t *testing.T) {
	ref := xds.Key{Type: xds.SecretType, Name: "s"}
	s, _ := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{
		cluster("p/b", ""), cluster("p/a", ""), cluster("q", "", xds.WithReferences([]xds.Reference{{Key: ref}})),
	}})
	var got []string
	for r := range s.Set(xds.ClusterType).Under("p/") {
		got = append(got, r.Name())
	}
	if !slices.Equal(got, []string{"p/a", "p/b"}) {
		t.Errorf("under p/: %v", got)
	}
	if !s.Refers(ref) || s.Refers(xds.Key{Type: xds.SecretType, Name: "t"}) {
		t.Error("Refers is wrong")
	}
}

// After any changes a snapshot holds what a plain map does, the changes it
// returned lead from the one to the other, and so does Diff.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := map[xds.Key]*xds.Resource{}
		s := snapshot.New()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			before, old := s, maps.Clone(model)
			c := drawChanges(t)
			applyToModel(model, c)
			next, changes := with(t, s, c)
			s = next
			checkContent(t, s, model)
			checkLeads(t, old, model, changes)
			checkLeads(t, old, model, s.Diff(before))
		}
	})
}

func drawChanges(t *rapid.T) snapshot.Changes {
	types := []string{xds.ClusterType, xds.RouteType}
	key := rapid.Custom(func(t *rapid.T) xds.Key {
		return xds.Key{Type: rapid.SampledFrom(types).Draw(t, "type"), Name: fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "name"))}
	})
	c := snapshot.Changes{Replace: rapid.IntRange(0, 5).Draw(t, "replace") == 0}
	for _, k := range rapid.SliceOfNDistinct(key, 0, 4, rapid.ID[xds.Key]).Draw(t, "set") {
		c.Set = append(c.Set, xds.NewResource(k.Type, k.Name, []byte(rapid.StringN(0, 1, 1).Draw(t, "body"))))
	}
	c.Remove = rapid.SliceOfN(key, 0, 3).Draw(t, "remove")
	return c
}

func applyToModel(model map[xds.Key]*xds.Resource, c snapshot.Changes) {
	for _, k := range c.Remove {
		delete(model, k)
	}
	if c.Replace {
		clear(model)
	}
	for _, r := range c.Set {
		model[r.Key()] = r
	}
}

func checkContent(t *rapid.T, s *snapshot.Snapshot, model map[xds.Key]*xds.Resource) {
	if s.Len() != len(model) {
		t.Fatalf("%d resources, want %d", s.Len(), len(model))
	}
	for k, r := range model {
		if !s.Set(k.Type).Get(k.Name).Equal(r) {
			t.Fatalf("%v is wrong", k)
		}
	}
	for _, typeURL := range s.TypeURLs() {
		all := s.Set(typeURL).All()
		if !slices.IsSortedFunc(all, func(a, b *xds.Resource) int { return compare(a.Name(), b.Name()) }) || len(all) != s.Set(typeURL).Len() {
			t.Fatalf("All of %s is not the sorted set", typeURL)
		}
	}
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// checkLeads applies changes to a copy of old and expects the result to be now.
func checkLeads(t *rapid.T, old, now map[xds.Key]*xds.Resource, changes []snapshot.Change) {
	old = maps.Clone(old)
	for _, c := range changes {
		if !c.Old.Equal(old[c.Key]) {
			t.Fatalf("%v: Old is not what was there", c.Key)
		}
		if c.New.Equal(c.Old) {
			t.Fatalf("%v: no change at all", c.Key)
		}
		if c.New == nil {
			delete(old, c.Key)
		} else {
			old[c.Key] = c.New
		}
	}
	if len(old) != len(now) {
		t.Fatalf("the changes lead to %d resources, want %d", len(old), len(now))
	}
	for k, r := range now {
		if !old[k].Equal(r) {
			t.Fatalf("the changes lead to another %v", k)
		}
	}
}

// The cost of a change must not grow with what is held.
func BenchmarkChangeOne(b *testing.B) {
	for _, n := range []int{1_000, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var set []*xds.Resource
			for i := range n {
				set = append(set, cluster(fmt.Sprintf("service-%06d", i), "x"))
			}
			s, _ := with(b, snapshot.New(), snapshot.Changes{Set: set})
			b.ReportAllocs()
			for i := range b.N {
				s, _ = with(b, s, snapshot.Changes{Set: []*xds.Resource{cluster(fmt.Sprintf("service-%06d", i%n), fmt.Sprint(i))}})
			}
		})
	}
}
