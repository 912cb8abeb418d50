package admin

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// validMask reports whether all paths name fields of a message. A path may go
// through messages, not through lists and maps.
func validMask(d protoreflect.MessageDescriptor, mask []string) bool {
	for _, path := range mask {
		if !validPath(d, path) {
			return false
		}
	}
	return true
}

func validPath(d protoreflect.MessageDescriptor, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	fd := d.Fields().ByName(protoreflect.Name(name))
	switch {
	case fd == nil:
		return false
	case !more:
		return true
	}
	return fd.Message() != nil && !fd.IsList() && !fd.IsMap() && validPath(fd.Message(), rest)
}

// trim clears the fields of a message that a valid mask does not name.
func trim(m protoreflect.Message, mask []string) {
	below := map[protoreflect.Name][]string{} // an empty list keeps the whole field
	for _, path := range mask {
		first, rest, more := strings.Cut(path, ".")
		name := protoreflect.Name(first)
		kept, seen := below[name]
		switch {
		case !more || (seen && len(kept) == 0):
			below[name] = nil
		default:
			below[name] = append(kept, rest)
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		paths, keep := below[fd.Name()]
		switch {
		case !keep:
			m.Clear(fd)
		case len(paths) > 0:
			trim(v.Message(), paths)
		}
		return true
	})
}

// trimElement trims an element of a dump. Paths into its Any go on in the
// message that is in there. It is false if the mask does not fit.
func trimElement(m protoreflect.Message, mask []string) bool {
	var outer []string
	inner := map[protoreflect.FieldDescriptor][]string{}
	for _, path := range mask {
		name, rest, more := strings.Cut(path, ".")
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if more && fd != nil && fd.Message() != nil && !fd.IsList() && fd.Message().FullName() == "google.protobuf.Any" {
			inner[fd] = append(inner[fd], rest)
			path = name
		}
		outer = append(outer, path)
	}
	if !validMask(m.Descriptor(), outer) {
		return false
	}
	trim(m, outer)
	for fd, paths := range inner {
		if m.Has(fd) && !trimAny(m.Mutable(fd).Message(), paths) {
			return false
		}
	}
	return true
}

func trimAny(m protoreflect.Message, paths []string) bool {
	a, ok := m.Interface().(*anypb.Any)
	if !ok {
		return false
	}
	resource, err := a.UnmarshalNew()
	if err != nil || !validMask(resource.ProtoReflect().Descriptor(), paths) {
		return false
	}
	trim(resource.ProtoReflect(), paths)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(resource)
	if err != nil {
		return false
	}
	a.Value = b
	return true
}
