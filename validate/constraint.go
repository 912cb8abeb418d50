package validate

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

// The shapes of the errors that generated ValidateAll methods return.
type (
	violations interface{ AllErrors() []error }
	violation  interface {
		Field() string
		Reason() string
		Cause() error
		Key() bool
	}
)

// constraints checks the declared rules of a message and of the messages in its
// fields. They end at an Any, whose content is checked in its turn.
func (c *checker) constraints(m protoreflect.Message) {
	if name := string(m.Descriptor().FullName()); !c.v2 && isV2(name) {
		c.oldType(c.walker.Path(), xds.TypePrefix+name)
		return
	}
	v, ok := m.Interface().(interface{ ValidateAll() error })
	if !ok {
		return
	}
	if err := v.ValidateAll(); err != nil {
		c.violations(err, c.walker.Path(), m.Descriptor())
	}
}

// violations reports every leaf of an error about a message of type md at path.
func (c *checker) violations(err error, path string, md protoreflect.MessageDescriptor) {
	if all, ok := err.(violations); ok {
		for _, e := range all.AllErrors() {
			c.violations(e, path, md)
		}
		return
	}
	var v violation
	if !errors.As(err, &v) {
		c.add(Error, codeConstraint, path, fmt.Sprintf("Proto constraint validation failed (%s: %v)", md.Name(), err), "")
		return
	}
	f := locate(md, v.Field())
	at := joinPath(path, f.path)
	if v.Cause() != nil && f.message != nil {
		c.violations(v.Cause(), at, f.message)
		return
	}
	reason := v.Reason()
	if v.Cause() != nil {
		reason += ": " + v.Cause().Error()
	}
	c.add(Error, codeConstraint, at,
		fmt.Sprintf("Proto constraint validation failed (%s.%s: %s)", md.Name(), v.Field(), reason), f.hint(reason))
}

// located is the field, or the oneof, that a violation is about.
type located struct {
	path    string
	message protoreflect.MessageDescriptor // what the field holds, if a message
	field   protoreflect.FieldDescriptor   // nil for a oneof
	oneof   protoreflect.OneofDescriptor
}

// locate finds the field that generated code calls by its Go name, with the
// list index or the map key in brackets: "FilterChains[0]".
func locate(md protoreflect.MessageDescriptor, goName string) located {
	name, bracket := goName, ""
	if i := strings.IndexByte(goName, '['); i >= 0 && strings.HasSuffix(goName, "]") {
		name, bracket = goName[:i], goName[i+1:len(goName)-1]
	}
	want := folded(name)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if folded(string(fd.Name())) != want {
			continue
		}
		l := located{path: string(fd.Name()), message: fd.Message(), field: fd}
		switch {
		case fd.IsMap():
			l.message = fd.MapValue().Message()
			l.path += model.MapKey(bracket)
		case bracket != "":
			l.path += "[" + bracket + "]"
		}
		return l
	}
	for i := range md.Oneofs().Len() {
		if o := md.Oneofs().Get(i); folded(string(o.Name())) == want {
			return located{path: string(o.Name()), oneof: o}
		}
	}
	return located{path: goName}
}

// folded is what the Go name and the proto name of a field have in common.
func folded(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// hint says what to do about a violation.
func (l located) hint(reason string) string {
	switch {
	case l.oneof != nil:
		return "set one of " + fieldNames(l.oneof.Fields())
	case l.field == nil:
		return ""
	case strings.HasPrefix(reason, "value is required"):
		return fmt.Sprintf("set %s", l.field.Name())
	case strings.Contains(reason, "at least 1 ") && strings.Contains(reason, "item"):
		return fmt.Sprintf("list at least one of %s", l.field.Name())
	case strings.Contains(reason, "length must be at least 1 "):
		return fmt.Sprintf("give %s a value", l.field.Name())
	case strings.Contains(reason, "defined enum values") && l.field.Enum() != nil:
		return "use one of " + enumNames(l.field.Enum())
	}
	return fmt.Sprintf("the rule is part of %s in the API reference", l.field.FullName())
}

func fieldNames(fields protoreflect.FieldDescriptors) string {
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return strings.Join(names, ", ")
}

func enumNames(e protoreflect.EnumDescriptor) string {
	names := make([]string, e.Values().Len())
	for i := range names {
		names[i] = string(e.Values().Get(i).Name())
	}
	return strings.Join(names, ", ")
}
