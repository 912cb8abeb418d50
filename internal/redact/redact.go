// Package redact takes secrets out of messages before they are shown.
package redact

import (
	"github.com/cncf/xds/go/udpa/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

const blanked = "[redacted]"

// Message overwrites everything below a field that the proto files mark as
// sensitive (udpa.annotations.sensitive), and tokens that they forget to, inside
// nested Anys too (XD-10), and takes out fields that this build does not know.
func Message(m protoreflect.Message) {
	m.SetUnknown(nil)
	if a, ok := m.Interface().(*anypb.Any); ok {
		redactAny(a)
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if sensitive(fd) {
			blank(m, fd, v)
			return true
		}
		eachMessage(fd, v, Message)
		return true
	})
}

// sensitive reports whether a field is a secret: the proto files do not mark all.
func sensitive(fd protoreflect.FieldDescriptor) bool {
	switch fd.FullName() {
	case grpcCredentials + "access_token", grpcCredentials + "google_refresh_token",
		grpcCredentials + "ServiceAccountJWTAccessCredentials.json_key", grpcCredentials + "GoogleIAMCredentials.authorization_token":
		return true
	}
	marked, _ := proto.GetExtension(fd.Options(), annotations.E_Sensitive).(bool)
	return marked
}

const grpcCredentials = "envoy.config.core.v3.GrpcService.GoogleGrpc.CallCredentials."

// redactAny looks into an Any; one of an unknown type is emptied.
func redactAny(a *anypb.Any) {
	inner, err := a.UnmarshalNew()
	if err != nil {
		a.Value = nil
		return
	}
	Message(inner.ProtoReflect())
	if b, err := (proto.MarshalOptions{Deterministic: true}).Marshal(inner); err == nil {
		a.Value = b
	} else {
		a.Value = nil
	}
}

// blank overwrites a sensitive field: text and bytes are replaced, of messages
// everything inside, the rest is cleared.
func blank(m protoreflect.Message, fd protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case fd.Message() != nil && !fd.IsMap():
		eachMessage(fd, v, blankAll)
	case fd.IsList() || fd.IsMap():
		m.Clear(fd)
	case fd.Kind() == protoreflect.StringKind:
		m.Set(fd, protoreflect.ValueOfString(blanked))
	case fd.Kind() == protoreflect.BytesKind:
		m.Set(fd, protoreflect.ValueOfBytes([]byte(blanked)))
	default:
		m.Clear(fd)
	}
}

func blankAll(m protoreflect.Message) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		a.Value = nil
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		blank(m, fd, v)
		return true
	})
}

func eachMessage(fd protoreflect.FieldDescriptor, v protoreflect.Value, f func(protoreflect.Message)) {
	switch {
	case fd.IsMap():
		if fd.MapValue().Message() == nil {
			return
		}
		v.Map().Range(func(_ protoreflect.MapKey, mv protoreflect.Value) bool {
			f(mv.Message())
			return true
		})
	case fd.Message() == nil:
	case fd.IsList():
		for i := range v.List().Len() {
			f(v.List().Get(i).Message())
		}
	default:
		f(v.Message())
	}
}
