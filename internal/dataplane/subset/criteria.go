package subset

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Namespace is the name of the metadata that subsets are made of.
const Namespace = "envoy.lb"

// fallbackList is the criterion that FALLBACK_LIST looks at.
const fallbackList = "fallback_list"

// Criterion is a key with the value that hosts must have for it.
type Criterion struct {
	Key  string
	text string // of the name of a subset
}

// AppendTo adds the criterion to the name of a subset. Those of one subset are
// added in the order of their keys.
func (c *Criterion) AppendTo(name []byte) []byte { return append(name, c.text...) }

// Criteria are what hosts must have in their metadata. They are immutable.
type Criteria struct {
	list      []Criterion // in the order of their keys
	name      string      // of the subset whose hosts meet them all
	fields    map[string]*structpb.Value
	fallbacks []*Criteria
}

// Merged are the criteria of a configuration with those of a more specific one,
// of which those with the same keys count; c may be nil. A configuration that says
// nothing of envoy.lb changes nothing.
func (c *Criteria) Merged(more *corev3.Metadata) *Criteria {
	s, ok := more.GetFilterMetadata()[Namespace]
	if !ok {
		return c
	}
	return c.With(s)
}

// With are the criteria with those of s, which count more; c may be nil. The
// values must not be changed afterwards.
func (c *Criteria) With(s *structpb.Struct) *Criteria {
	fields := make(map[string]*structpb.Value, len(s.GetFields()))
	if c != nil {
		maps.Copy(fields, c.fields)
	}
	maps.Copy(fields, s.GetFields())
	out := of(fields)
	if v, ok := fields[fallbackList]; ok {
		out.fallbacks = fallbacks(fields, v)
	}
	return out
}

func of(fields map[string]*structpb.Value) *Criteria {
	c := &Criteria{fields: fields, list: make([]Criterion, 0, len(fields))}
	var name []byte
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		k := Criterion{Key: key, text: string(appendField(nil, key, fields[key]))}
		c.list, name = append(c.list, k), k.AppendTo(name)
	}
	c.name = string(name)
	return c
}

// fallbacks are the criteria to try one after another: without the list, and with
// what each entry of the list says in their place. Of an empty list there is one,
// without anything in its place; what is no object says nothing.
func fallbacks(fields map[string]*structpb.Value, list *structpb.Value) (all []*Criteria) {
	rest := maps.Clone(fields)
	delete(rest, fallbackList)
	for _, v := range list.GetListValue().GetValues() {
		next := maps.Clone(rest)
		maps.Copy(next, v.GetStructValue().GetFields())
		all = append(all, of(next))
	}
	if len(all) == 0 {
		all = append(all, of(rest))
	}
	return all
}

// List are the criteria in the order of their keys; not to be changed.
func (c *Criteria) List() []Criterion { return c.list }

// Name is the name of the subset whose hosts meet all criteria.
func (c *Criteria) Name() string { return c.name }

// Fallbacks are the criteria to be tried one after another in place of c where
// FALLBACK_LIST is asked for; nil if c has no fallback_list.
func (c *Criteria) Fallbacks() []*Criteria { return c.fallbacks }
