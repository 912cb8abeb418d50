package support

import (
	"fmt"
	"slices"
	"strings"

	typedstructv1 "github.com/cncf/xds/go/udpa/type/v1"
	typedstructv3 "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// refusal says why an extension cannot be had.
type refusal struct{ code, message, hint string }

// resolve finds what an Any in a slot configures. It returns the Any whose
// message is to be looked into, nil if there is none to look into.
func (c *Catalog) resolve(a *anypb.Any, name, slotName string) (*anypb.Any, *refusal) {
	s := c.slots[slotName]
	url := innerURL(a)
	full := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	switch {
	case c.custom[full]:
		return nil, nil
	case s == nil:
		return nil, c.notBuilt(full, name, url)
	case s.disabled[full]:
		return nil, unregistered(name, full, "--disable-extensions names it")
	case s.types[full] != "":
		if url != a.GetTypeUrl() {
			return nil, &refusal{CodeUndecodable, fmt.Sprintf("the TypedStruct of %s was not unpacked", full), "write the message itself"}
		}
		return a, nil
	}
	r := c.notBuilt(full, name, url)
	if r.hint == "" {
		r.hint = "this build has " + strings.Join(s.list(), ", ")
	}
	return nil, r
}

// notBuilt tells an extension of Envoy that is not built from one that Envoy
// has not either, and from a message that is no extension (BS-14, BS-15).
func (c *Catalog) notBuilt(full protoreflect.FullName, name, url string) *refusal {
	if c.Classify(string(full)) == Known {
		return &refusal{CodeNotBuilt, "known extension not implemented: " + typePrefix + string(full), ""}
	}
	hint := ""
	if url == "" {
		hint = "add a typed_config with the @type of its message; the name alone selects nothing"
	}
	return unregistered(name, full, hint)
}

func unregistered(name string, full protoreflect.FullName, hint string) *refusal {
	return &refusal{CodeUnregistered, fmt.Sprintf("Didn't find a registered implementation for '%s' with type URL: '%s'", name, full), hint}
}

// list is what a slot takes.
func (s *slot) list() []string {
	var names []string
	for t, n := range s.types {
		if !s.disabled[t] && n != "-" {
			names = append(names, n)
		}
	}
	for n := range s.byName {
		names = append(names, n)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// innerURL is the type URL of an Any, or that within its TypedStruct.
func innerURL(a *anypb.Any) string {
	switch a.MessageName() {
	case "xds.type.v3.TypedStruct":
		var s typedstructv3.TypedStruct
		if a.UnmarshalTo(&s) == nil {
			return s.GetTypeUrl()
		}
	case "udpa.type.v1.TypedStruct":
		var s typedstructv1.TypedStruct
		if a.UnmarshalTo(&s) == nil {
			return s.GetTypeUrl()
		}
	}
	return a.GetTypeUrl()
}

// any checks an Any in a field of parent.
func (w *walk) any(m, parent protoreflect.Message, slot string) (changed bool) {
	a, ok := m.Interface().(*anypb.Any)
	if !ok {
		w.fault(CodeUndecodable, "an Any of another kind than this program's", "")
		return false
	}
	name := nameOf(parent)
	if name == "" {
		name = w.key
	}
	return w.anyNamed(a, name, slot)
}

// nameOf is the name in a message, which the message of an extension's slot has.
func nameOf(m protoreflect.Message) string {
	if m == nil {
		return ""
	}
	fd := m.Descriptor().Fields().ByName("name")
	if fd == nil || fd.Kind() != protoreflect.StringKind || fd.IsList() {
		return ""
	}
	return m.Get(fd).String()
}

func (w *walk) anyNamed(a *anypb.Any, name, slot string) (changed bool) {
	if slot == anything {
		return false
	}
	inner, r := w.catalog.resolve(a, name, slot)
	if r != nil {
		w.fault(r.code, r.message, r.hint)
		return false
	}
	if inner == nil {
		return false
	}
	msg, err := inner.UnmarshalNew()
	if err != nil {
		w.fault(CodeUndecodable, "the bytes are no "+string(inner.MessageName()), "encode the message again from its source")
		return false
	}
	if !w.message(msg.ProtoReflect(), "") {
		return false
	}
	value, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(msg)
	if err != nil {
		w.fault(CodeUndecodable, "encoding "+string(inner.MessageName())+" again failed", "")
		return false
	}
	a.Value = value
	return true
}

// missing reports an extension without a configuration, which nothing selects.
func (w *walk) missing(m protoreflect.Message, p *plan, inherited string) {
	fd := p.typedConfig
	if fd == nil || m.Has(fd) || fd.ContainingOneof() != nil && m.WhichOneof(fd.ContainingOneof()) != nil {
		return
	}
	name := p.configSlot
	if name == "" {
		name = inherited
	}
	s := w.catalog.slots[name]
	if s == nil || s.optional || s.byName[nameOf(m)] {
		return
	}
	r := w.catalog.notBuilt("", nameOf(m), "")
	w.fault(r.code, r.message, r.hint)
}
