package tlsio

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// refuseUnbuilt gives an error for each field of m that is set and is neither among
// those that are built nor has a reason of its own. Fields that a later
// version of the API adds are refused too.
func refuseUnbuilt(path string, m proto.Message, built []string, why map[string]string) error {
	var errs []error
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		if slices.Contains(built, name) || isFalse(fd, v) {
			return true
		}
		reason := why[name]
		if reason == "" {
			reason = "not built: remove it"
		}
		errs = append(errs, fmt.Errorf("%s: %s", join(path, name), reason))
		return true
	})
	slices.SortFunc(errs, func(a, b error) int { return cmpString(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// isFalse: a switch that is off asks for nothing.
func isFalse(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	if fd.Message() == nil || fd.IsList() || fd.IsMap() {
		return false
	}
	b, ok := v.Message().Interface().(*wrapperspb.BoolValue)
	return ok && !b.GetValue()
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

const needsXDS = "secret discovery needs an xDS source, and there is none: give the secret in static_resources.secrets and name it without sds_config, or inline"
