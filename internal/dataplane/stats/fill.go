package stats

import (
	"reflect"
	"strings"
)

// Registrar hands out statistics by name. A Scope is one.
type Registrar interface {
	Counter(name string) Counter
	Gauge(name string) Gauge
	Histogram(name string, unit Unit) Histogram
}

// Fill registers the statistics of the scope that the fields of the struct
// behind into stand for: see the function Fill.
func (s *Scope) Fill(into any) { Fill(s, "", into) }

// Fill registers the statistics that the fields of the struct behind into stand
// for: fields of type Counter, Gauge and Histogram with a tag `stat:"name"`, also
// of embedded structs, histograms of milliseconds with `stat:"name,ms"`. The prefix begins each name.
// With a Scope the names are kept once for all structs of the same type.
func Fill(r Registrar, prefix string, into any) {
	v := reflect.ValueOf(into).Elem()
	if l, ok := r.(*Lease); ok {
		r = l.Scope
	}
	if s, ok := r.(*Scope); ok && (prefix == "" || strings.HasSuffix(prefix, ".")) {
		s.fill(prefix, v)
		return
	}
	for _, f := range fields(v.Type()) {
		id := uint32(0)
		switch f.kind {
		case kindCounter:
			id = uint32(r.Counter(prefix + f.name))
		case kindGauge:
			id = uint32(r.Gauge(prefix + f.name))
		default:
			id = uint32(r.Histogram(prefix+f.name, f.unit))
		}
		v.FieldByIndex(f.index).SetUint(uint64(id))
	}
}

// field is one that stands for a statistic.
type field struct {
	index []int
	kind  kind
	name  string
	unit  Unit
}

func fields(t reflect.Type) (out []field) {
	kindOf := map[reflect.Type]kind{
		reflect.TypeFor[Counter](): kindCounter, reflect.TypeFor[Gauge](): kindGauge, reflect.TypeFor[Histogram](): kindHistogram,
	}
	for _, x := range reflect.VisibleFields(t) {
		tag, ok := x.Tag.Lookup("stat")
		k, known := kindOf[x.Type]
		if !ok || !known {
			continue
		}
		name, unit, _ := strings.Cut(tag, ",")
		f := field{index: x.Index, kind: k, name: name}
		if unit == "ms" {
			f.unit = Milliseconds
		}
		out = append(out, f)
	}
	return out
}

// group is the fields of a struct type whose names have the same prefix.
type group struct {
	below  string // the prefix of the names
	family *family
	fields []field
	places []uint32 // of the fields, in the family
}

func newGroups(t reflect.Type) []*group {
	var out []*group
	byPrefix := map[string]*group{}
	leaves := map[string]*[kinds][]leaf{}
	for _, f := range fields(t) {
		dot := strings.LastIndexByte(f.name, '.') + 1
		below := f.name[:dot]
		g := byPrefix[below]
		if g == nil {
			g = &group{below: below}
			byPrefix[below], leaves[below] = g, &[kinds][]leaf{}
			out = append(out, g)
		}
		list := &leaves[below][f.kind]
		g.fields, g.places = append(g.fields, f), append(g.places, uint32(len(*list)))
		*list = append(*list, leaf{name: f.name[dot:], unit: f.unit})
	}
	for below, g := range byPrefix {
		g.family = newFamily(*leaves[below])
	}
	return out
}

func (s *Scope) fill(prefix string, v reflect.Value) {
	r := s.reg
	r.mu.Lock()
	defer r.mu.Unlock()
	groups, ok := r.groups[v.Type()]
	if !ok {
		groups = newGroups(v.Type())
		r.groups[v.Type()] = groups
	}
	var room [128]byte
	for _, g := range groups {
		key := append(append(append(room[:0], s.prefix...), prefix...), g.below...)
		b := r.block(key, g.family, s.own)
		for i, f := range g.fields {
			id := uint32(0)
			if b != nil {
				id = b.first[f.kind] + g.places[i]
			} else {
				id = r.lookup(f.kind, s.prefix, prefix+f.name, f.unit, s.own)
			}
			v.FieldByIndex(f.index).SetUint(uint64(id))
		}
	}
}
