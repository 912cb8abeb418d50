package file

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// randomContent declares a few of four names, each perhaps with a reference,
// perhaps broken; the file may be unreadable in part.
func randomContent(rt *rapid.T, serial int) content {
	var c content
	for i := range 4 {
		k := xds.Key{Type: xds.ClusterType, Name: fmt.Sprint(i)}
		switch rapid.SampledFrom([]string{"absent", "plain", "referring", "broken"}).Draw(rt, "resource") {
		case "plain":
			c.good = append(c.good, xds.NewResource(k.Type, k.Name, []byte(fmt.Sprint(serial))))
		case "referring":
			ref := xds.Reference{Key: xds.Key{Type: xds.ClusterType, Name: fmt.Sprint(rapid.IntRange(0, 5).Draw(rt, "target"))}}
			c.good = append(c.good, xds.NewResource(k.Type, k.Name, []byte(fmt.Sprint(serial)), xds.WithReferences([]xds.Reference{ref})))
		case "broken":
			c.broken = append(c.broken, broken{key: k})
		}
	}
	c.partial = rapid.IntRange(0, 9).Draw(rt, "partial") == 0
	return c
}

// The changes that a sink is sent lead to the same state as everything at
// once, whether or not it refuses some of them, and a strict tree never sends a
// reference that dangles.
func TestChangesEqualFullState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		strict := rapid.Bool().Draw(rt, "strict")
		tr, rec := newTree(strict), newRecorder()
		for serial := range rapid.IntRange(1, 15).Draw(rt, "steps") {
			rel := rapid.SampledFrom([]string{"a", "b", "c/d"}).Draw(rt, "file")
			switch rapid.IntRange(0, 9).Draw(rt, "op") {
			case 0:
				tr.setGroups(mustGroups(t, groupsText("x c, a", "y c, b")))
			case 1:
				tr.setGroups(nil)
			case 2, 3:
				tr.drop(rel)
			default:
				tr.put(&loaded{rel: rel}, randomContent(rt, serial))
			}
			if b, some := tr.batch(); some && rapid.IntRange(0, 4).Draw(rt, "refused") > 0 {
				must(t, rec.Apply(b))
				tr.accepted()
			}
		}
		if b, some := tr.batch(); some {
			must(t, rec.Apply(b))
			tr.accepted()
		}
		full := newRecorder()
		all := snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{}}
		for name, v := range tr.views {
			all.Groups[name] = v.changes(true)
		}
		must(t, full.Apply(all))
		if got, want := rec.state(), full.state(); !reflect.DeepEqual(got, want) {
			rt.Fatalf("the sink has %v, the tree %v", got, want)
		}
		for name, v := range tr.views {
			for _, r := range v.all() {
				for _, ref := range r.References() {
					if strict && v.final(ref.Key) == nil {
						rt.Fatalf("in group %s, %s refers to %s, which is not there", name, r.Name(), ref.Name)
					}
				}
			}
		}
	})
}

// A name that is claimed somewhere in a usable version is served, one that is
// claimed nowhere is not, and what is served changes only with a claim.
func TestChoice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tr := newTree(false)
		for serial := range rapid.IntRange(1, 15).Draw(rt, "steps") {
			rel := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "file")
			before := map[xds.Key]*xds.Resource{}
			maps.Copy(before, tr.views[DefaultGroup].served)
			if rapid.IntRange(0, 4).Draw(rt, "op") == 0 {
				tr.drop(rel)
			} else {
				tr.put(&loaded{rel: rel}, randomContent(rt, serial))
			}
			tr.batch()
			tr.accepted()
			v := tr.views[DefaultGroup]
			for i := range 4 {
				k := xds.Key{Type: xds.ClusterType, Name: fmt.Sprint(i)}
				claimed, usable := len(v.claims[k]) > 0, false
				for _, c := range v.claims[k] {
					usable = usable || c.res != nil
				}
				got := v.served[k]
				switch {
				case got != nil && !claimed:
					rt.Fatalf("%s is served and nobody claims it", k.Name)
				case got == nil && usable:
					rt.Fatalf("%s is usable and not served", k.Name)
				case got == nil && claimed && before[k] != nil:
					rt.Fatalf("%s was lost while it is still declared", k.Name)
				}
			}
		}
	})
}
