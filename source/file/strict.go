package file

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// check brings the graph up to date with what the group is to hold under the
// given names.
func (v *view) check(keys map[xds.Key]struct{}) {
	var set []*xds.Resource
	var removed []xds.Key
	for k := range keys {
		if r := v.final(k); r != nil {
			set = append(set, r)
		} else {
			removed = append(removed, k)
		}
	}
	v.graph.Update(set, removed)
}

// hold makes references binding: it decides which of the chosen resources are
// kept as they were, withheld, or kept although they are gone, until no
// reference of what the sink gets dangles. A name goes from chosen to its
// version before, and from there to nothing, so this ends.
func (v *view) hold() {
	for k := range v.held {
		v.unsent[k] = struct{}{}
	}
	v.held, v.withheld = map[xds.Key]*xds.Resource{}, nil
	v.check(v.unsent)
	for f := v.faults(); len(f) > 0; f = v.faults() {
		settled := false
		for _, r := range f {
			if v.final(r.Key()) == r { // else it has been dealt with
				settled = v.settle(r) || settled
			}
		}
		if !settled { // something else than a missing resource, such as an alias used twice
			v.retreat(f[0], "", "it cannot be served beside another resource")
		}
	}
}

// faults are the resources that the graph has errors on.
func (v *view) faults() []*xds.Resource {
	var l []*xds.Resource
	for _, f := range v.graph.Findings() {
		if r := v.final(xds.Key{Type: f.Type, Name: f.Name}); r != nil && f.Severity == validate.Error {
			l = append(l, r)
		}
	}
	return l
}

// settle deals with the first dangling reference of a resource; it reports
// whether there was one.
func (v *view) settle(r *xds.Resource) bool {
	for _, ref := range r.References() {
		if v.final(ref.Key) != nil || strings.HasSuffix(ref.Name, "/*") {
			continue
		}
		target := v.served[ref.Key]
		if _, decided := v.held[ref.Key]; target != nil && !decided && v.chosen[ref.Key] == nil {
			v.override(ref.Key, target, target, "", fmt.Sprintf("it is gone from the files, but stays because %s %q needs it", xds.Kind(r.TypeURL()), r.Name()))
			return true
		}
		v.retreat(r, ref.Path, fmt.Sprintf("it refers to %s %q, which is not there", xds.Kind(ref.Type), ref.Name))
		return true
	}
	return false
}

// retreat goes back to the version before, or else to nothing.
func (v *view) retreat(r *xds.Resource, path, why string) {
	k := r.Key()
	_, decided := v.held[k]
	if before := v.served[k]; !decided && before != nil && !before.Equal(r) {
		v.override(k, before, r, path, why+", so the version before stays")
		return
	}
	v.override(k, nil, r, path, why+", so the resource is withheld")
}

// override holds a resource, or nothing, under a name; about is what the
// finding is on.
func (v *view) override(k xds.Key, with, about *xds.Resource, path, why string) {
	v.held[k] = with
	v.unsent[k] = struct{}{}
	v.check(map[xds.Key]struct{}{k: {}})
	v.withheld = append(v.withheld, validate.Finding{
		Severity: validate.Error, Tier: validate.Reference, Code: "dangling-reference",
		Type: k.Type, Name: k.Name, Path: path, Pos: about.Origin(), Message: why,
		Hint: "add what is missing, correct the name, or serve without strict references",
	})
}

// references is what is wrong between the resources of the group.
func (v *view) references(named bool) []validate.Finding {
	v.check(v.unchecked)
	clear(v.unchecked)
	l := slices.Concat(v.withheld, v.graph.Findings())
	if named {
		for i := range l {
			l[i].Message += " (group " + v.name + ")"
		}
	}
	return l
}
