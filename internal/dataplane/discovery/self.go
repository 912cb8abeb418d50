package discovery

import (
	"bytes"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// resolving is a type whose resources have the config source that they came from
// in place of "self" (XC-01, BS-26), so that nothing behind needs to know where a
// resource was from. Envoy refuses "self".
func resolving[T proto.Message](t xdsclient.Type[T], from *corev3.ConfigSource) xdsclient.Type[T] {
	decode := t.Decode
	t.Decode = func(name string, body []byte) (T, error) {
		v, err := decode(name, body)
		if err == nil && mayHaveSelf(body) {
			_, err = resolveSelf(v.ProtoReflect(), from)
		}
		return v, err
	}
	return t
}

// mayHaveSelf looks for what ConfigSource.self is encoded as: field 5, empty or
// with a transport_api_version. So resources are not searched for nothing. What is
// encoded otherwise stays, and is refused by who uses it.
func mayHaveSelf(body []byte) bool {
	return bytes.Contains(body, []byte{5<<3 | 2, 0}) || bytes.Contains(body, []byte{5<<3 | 2, 2, 1 << 3})
}

// resolveSelf replaces "self" within a message, and reports whether it did.
func resolveSelf(m protoreflect.Message, from *corev3.ConfigSource) (changed bool, err error) {
	switch m := m.Interface().(type) {
	case *corev3.ConfigSource:
		if m.GetSelf() == nil {
			return false, nil
		}
		m.ConfigSourceSpecifier = from.GetConfigSourceSpecifier()
		return true, nil
	case *anypb.Any:
		return resolveAny(m, from)
	}
	each := func(v protoreflect.Value) {
		if err == nil {
			var c bool
			c, err = resolveSelf(v.Message(), from)
			changed = changed || c
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { each(v); return true })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				each(v.List().Get(i))
			}
		default:
			each(v)
		}
		return err == nil
	})
	return changed, err
}

func resolveAny(a *anypb.Any, from *corev3.ConfigSource) (bool, error) {
	if !mayHaveSelf(a.GetValue()) {
		return false, nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return false, nil //nolint:nilerr // who uses it says what is wrong
	}
	changed, err := resolveSelf(m.ProtoReflect(), from)
	if err != nil || !changed {
		return false, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("%s: %w", a.GetTypeUrl(), err)
	}
	a.Value = b
	return true, nil
}
