package support

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const typePrefix = "type.googleapis.com/"

// classifier tells the messages that configure extensions from the rest of the
// API; tables/extensions.txt has its rule.
type classifier struct {
	within    []string
	also, not map[protoreflect.FullName]bool
}

// extensions lists the messages, of those linked in, that configure an
// extension.
func (x *classifier) extensions() map[protoreflect.FullName]bool {
	inner := map[protoreflect.FullName]bool{}
	found := map[protoreflect.FullName]bool{}
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		md := mt.Descriptor()
		fields := md.Fields()
		for i := range fields.Len() {
			if part := fields.Get(i).Message(); part != nil && part.FullName() != md.FullName() {
				inner[part.FullName()] = true
			}
		}
		if _, top := md.Parent().(protoreflect.FileDescriptor); top && x.candidate(md.FullName()) {
			found[md.FullName()] = true
		}
		return true
	})
	for name := range found {
		if !x.also[name] && (inner[name] || x.not[name]) {
			delete(found, name)
		}
	}
	return found
}

func (x *classifier) candidate(name protoreflect.FullName) bool {
	if x.also[name] {
		return true
	}
	for _, p := range x.within {
		if strings.HasPrefix(string(name), p) {
			return true
		}
	}
	return false
}

func classOf(name protoreflect.FullName, extensions map[protoreflect.FullName]bool) Class {
	if extensions[name] {
		return Known
	}
	if _, err := protoregistry.GlobalTypes.FindMessageByName(name); err == nil {
		return Message
	}
	return Unknown
}
