package support

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Holes lists what is wrong with the tables: names that the API does not have,
// messages that a built field leads to and that are not listed, places for an
// extension without a slot, and entries that nothing leads to.
func Holes(c *Catalog) []string {
	h := &holes{c: c, seen: map[protoreflect.FullName]bool{}}
	h.enter("envoy.config.bootstrap.v3.Bootstrap", "")
	h.enter("envoy.service.runtime.v3.Runtime", "") // a resource
	for _, s := range c.slots {
		for t := range s.types {
			h.enter(t, "")
		}
	}
	for name := range c.messages {
		if !h.seen[name] {
			h.add("%s: nothing built leads to it", name)
		}
	}
	slices.Sort(h.found)
	return slices.Compact(h.found)
}

type holes struct {
	c     *Catalog
	seen  map[protoreflect.FullName]bool
	found []string
}

func (h *holes) add(format string, args ...any) {
	h.found = append(h.found, fmt.Sprintf(format, args...))
}

func (h *holes) enter(name protoreflect.FullName, slot string) {
	if isWellKnown(name) {
		return
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		h.add("%s: no such message", name)
		return
	}
	e := h.c.messages[name]
	if e == nil {
		h.add("%s: is led to and not listed", name)
		return
	}
	first := !h.seen[name]
	h.seen[name] = true
	for n, f := range e.fields {
		fd := mt.Descriptor().Fields().ByName(n)
		if fd == nil {
			h.add("%s.%s: no such field", name, n)
			continue
		}
		h.field(fd, f, slot, first)
	}
}

func (h *holes) field(fd protoreflect.FieldDescriptor, f field, inherited string, first bool) {
	h.checkValues(fd, f)
	md := fd.Message()
	if fd.IsMap() {
		md = fd.MapValue().Message()
	}
	if md == nil || f.noop {
		return
	}
	slot := f.slot
	if slot == "" {
		slot = inherited
	}
	if slot != "" && slot != anything && h.c.slots[slot] == nil {
		h.add("%s: there is no slot %s", fd.FullName(), slot)
	}
	if md.FullName() == "google.protobuf.Any" && slot == "" {
		h.add("%s: is an Any without a slot", fd.FullName())
	}
	if first || f.slot != "" {
		h.enter(md.FullName(), slot)
	}
}

func (h *holes) checkValues(fd protoreflect.FieldDescriptor, f field) {
	if fd.Enum() == nil {
		return
	}
	for _, v := range append(slices.Clone(f.only), f.except...) {
		if fd.Enum().Values().ByName(protoreflect.Name(v)) == nil {
			h.add("%s: no value %s", fd.FullName(), v)
		}
	}
}

// Messages lists the messages of the tables.
func Messages(c *Catalog) []protoreflect.FullName {
	return slices.Sorted(maps.Keys(c.messages))
}

// Builds reports whether a field has an effect.
func Builds(c *Catalog, fd protoreflect.FieldDescriptor) bool {
	f, ok := c.messages[fd.ContainingMessage().FullName()].fields[fd.Name()]
	return ok && !f.noop
}

// Noops lists the fields that are accepted without effect, as Message.field,
// sorted.
func Noops(c *Catalog) []string {
	var all []string
	for m, e := range c.messages {
		for n, f := range e.fields {
			if f.noop {
				all = append(all, string(m)+"."+string(n))
			}
		}
	}
	slices.Sort(all)
	return all
}
