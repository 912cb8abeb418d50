package apiv2

import (
	"strings"
	"sync"

	"github.com/cncf/xds/go/udpa/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// names maps messages of v3 to those of v2 that they follow, and back. It holds
// those that are linked in.
type names struct {
	v2, v3 map[protoreflect.FullName]protoreflect.FullName
}

func readNames(files *protoregistry.Files) names {
	n := names{v2: map[protoreflect.FullName]protoreflect.FullName{}, v3: map[protoreflect.FullName]protoreflect.FullName{}}
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		n.read(files, f.Messages())
		return true
	})
	return n
}

func (n *names) read(files *protoregistry.Files, list protoreflect.MessageDescriptors) {
	for i := range list.Len() {
		m := list.Get(i)
		n.read(files, m.Messages())
		v, ok := proto.GetExtension(m.Options(), annotations.E_Versioning).(*annotations.VersioningAnnotation)
		if !ok || v.GetPreviousMessageType() == "" {
			continue
		}
		before := protoreflect.FullName(v.GetPreviousMessageType())
		if IsV3(string(before)) {
			continue // moved within v3
		}
		if _, err := files.FindDescriptorByName(before); err == nil {
			n.v2[m.FullName()], n.v3[before] = before, m.FullName()
		}
	}
}

// IsV3 reports whether a message belongs to v3 of Envoy's API or to the part of
// CNCF's that came with it.
func IsV3(message string) bool {
	if strings.HasPrefix(message, "xds.") {
		return true
	}
	if !strings.HasPrefix(message, "envoy.") {
		return false
	}
	for part := range strings.SplitSeq(message, ".") {
		if part == "v3" || strings.HasPrefix(part, "v3alpha") {
			return true
		}
	}
	return false
}

// IsV2 reports whether a message belongs to v2 of Envoy's API.
func IsV2(message string) bool { return strings.HasPrefix(message, "envoy.") && !IsV3(message) }

// Successor finds the message of v3 that followed one of v2. The names are read when
// the first is asked for, for most programs never ask.
func Successor() func(v2 protoreflect.FullName) (protoreflect.FullName, bool) {
	read := sync.OnceValue(func() names { return readNames(protoregistry.GlobalFiles) })
	return func(v2 protoreflect.FullName) (protoreflect.FullName, bool) {
		v3, ok := read().v3[v2]
		return v3, ok
	}
}
