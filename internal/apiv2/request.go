package apiv2

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Reread reads a message as the one of the other version of the API. Fields that
// this does not have are kept as unknown ones.
func Reread(from, to proto.Message) error {
	b, err := proto.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", from.ProtoReflect().Descriptor().FullName(), err)
	}
	if err := proto.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%s as %s: %w", from.ProtoReflect().Descriptor().FullName(), to.ProtoReflect().Descriptor().FullName(), err)
	}
	return nil
}

// RereadAll is Reread for messages that say nothing which v3 has dropped: that is
// an *Error. What is in an Any stays what it is.
func RereadAll(from, to proto.Message) error {
	if err := Reread(from, to); err != nil {
		return err
	}
	return dropped(from.ProtoReflect().Descriptor(), to.ProtoReflect())
}

func dropped(v2 protoreflect.MessageDescriptor, m protoreflect.Message) error {
	if u := m.GetUnknown(); len(u) > 0 {
		num, _, _ := protowire.ConsumeTag(u)
		if fd := v2.Fields().ByNumber(num); fd != nil {
			return &Error{Path: string(fd.Name()), Msg: "v3 of the API has no such field"}
		}
		return &Error{Msg: fmt.Sprintf("there is no field %d in %s", num, v2.FullName())}
	}
	return eachMessage(m, func(path string, sub protoreflect.Message) error {
		fd := v2.Fields().ByNumber(fieldOf(m, path))
		if fd == nil || fd.Message() == nil || fd.IsMap() {
			return nil
		}
		if err := dropped(fd.Message(), sub); err != nil {
			return under(path, err)
		}
		return nil
	})
}

// fieldOf is the number of the field that a path of one step leads to.
func fieldOf(m protoreflect.Message, path string) protoreflect.FieldNumber {
	for i := range path {
		if path[i] == '[' {
			path = path[:i]
			break
		}
	}
	if fd := m.Descriptor().Fields().ByName(protoreflect.Name(path)); fd != nil {
		return fd.Number()
	}
	return 0
}

// Message writes a v3 message as the one of v2 that follows from it.
func (c *Converter) Message(from, to proto.Message) error {
	a, err := anypb.New(from)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", from.ProtoReflect().Descriptor().FullName(), err)
	}
	v2, err := c.ToV2(a)
	if err != nil {
		return err
	}
	if err := v2.UnmarshalTo(to); err != nil {
		return fmt.Errorf("%s: %w", v2.GetTypeUrl(), err)
	}
	return nil
}
