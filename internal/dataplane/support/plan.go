package support

import (
	"github.com/envoyproxy/go-control-plane/envoy/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// plan is what there is to look at in the messages of a type. It is made once for
// each: an update of a resource looks at little of what the API describes.
type plan struct {
	any   bool // google.protobuf.Any
	value bool // another message of protobuf itself
	// fields are those at which there is something to look, in their order.
	fields []plannedField
	// typedConfig is the field without which an extension has no configuration, and
	// configSlot what stands there; nil if there is none.
	typedConfig protoreflect.FieldDescriptor
	configSlot  string
}

type plannedField struct {
	field
	fd         protoreflect.FieldDescriptor
	name, full string
	built      bool
	deprecated bool // the field is
	disallowed bool // by default, since it is deprecated
	oldValues  bool // there are deprecated values
	limited    bool // not all values are built
	any        bool // it holds an Any
	shape      shape
}

// shape is which messages a field holds.
type shape uint8

const (
	none shape = iota
	single
	messages // a list
	entries  // the values of a map
)

// planOf gives the plan for a type of messages.
func (c *Catalog) planOf(md protoreflect.MessageDescriptor) *plan {
	if p, ok := c.plans.Load(md); ok {
		return p.(*plan) //nolint:forcetypeassert // nothing else is there
	}
	p, _ := c.plans.LoadOrStore(md, c.newPlan(md))
	return p.(*plan) //nolint:forcetypeassert // as above
}

func (c *Catalog) newPlan(md protoreflect.MessageDescriptor) *plan {
	p := &plan{any: md.FullName() == "google.protobuf.Any", value: isWellKnown(md.FullName())}
	if p.value {
		return p
	}
	e := c.messages[md.FullName()]
	fields := md.Fields()
	for i := range fields.Len() {
		f := newPlannedField(e, fields.Get(i))
		if f.built && f.name == "typed_config" {
			p.typedConfig, p.configSlot = f.fd, f.slot
		}
		if !f.idle() {
			p.fields = append(p.fields, f)
		}
	}
	return p
}

func newPlannedField(e *entry, fd protoreflect.FieldDescriptor) plannedField {
	f := plannedField{fd: fd, name: string(fd.Name()), full: string(fd.FullName()), deprecated: isDeprecated(fd)}
	if e != nil {
		f.field, f.built = e.fields[fd.Name()]
	}
	if f.deprecated {
		f.disallowed, _ = proto.GetExtension(fd.Options(), annotations.E_DisallowedByDefault).(bool)
	}
	plain := !fd.IsList() && !fd.IsMap()
	f.limited = plain && (f.only != nil || f.except != nil)
	f.oldValues = plain && fd.Enum() != nil && hasDeprecated(fd.Enum().Values())
	switch {
	case fd.IsMap() && fd.MapValue().Message() != nil:
		f.shape = entries
	case fd.IsMap() || fd.Message() == nil:
	case fd.IsList():
		f.shape = messages
	default:
		f.shape, f.any = single, fd.Message().FullName() == "google.protobuf.Any"
	}
	return f
}

// idle reports a field at which there is nothing to look.
func (f *plannedField) idle() bool {
	return f.built && !f.noop && !f.deprecated && !f.oldValues && !f.limited && f.shape == none
}

func hasDeprecated(values protoreflect.EnumValueDescriptors) bool {
	for i := range values.Len() {
		if isDeprecated(values.Get(i)) {
			return true
		}
	}
	return false
}

// isDeprecated reports a field, or a value of an enum, that the API deprecates.
func isDeprecated(d protoreflect.Descriptor) bool {
	switch o := d.Options().(type) {
	case *descriptorpb.FieldOptions:
		return o.GetDeprecated()
	case *descriptorpb.EnumValueOptions:
		return o.GetDeprecated()
	}
	return false
}
