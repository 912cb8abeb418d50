package apiv2

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	udpa "github.com/cncf/xds/go/udpa/type/v1"
	api "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	"github.com/envoyproxy/go-control-plane/envoy/api/v2/core"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

const typePrefix = "type.googleapis.com/"

// maxDepth bounds how deep messages nest in an Any.
const maxDepth = 32

// Converter writes v3 messages as those of v2. It knows the messages that are
// linked in. It is immutable and safe for concurrent use.
type Converter struct {
	names names
	rules map[protoreflect.FullName]rule
}

// New makes a converter. That reads the options of every linked message, which
// takes some milliseconds.
func New() *Converter {
	return &Converter{names: readNames(protoregistry.GlobalFiles), rules: rules()}
}

// Error says what of a message v2 cannot say.
type Error struct {
	// Path is the field, such as "filter_chains[0].filters[1].typed_config".
	Path string
	Msg  string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Msg
	}
	return e.Path + ": " + e.Msg
}

func (e *Error) under(path string) *Error {
	switch {
	case e.Path == "":
		e.Path = path
	case path != "" && e.Path[0] == '[':
		e.Path = path + e.Path
	case path != "":
		e.Path = path + "." + e.Path
	}
	return e
}

func under(path string, err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		return own.under(path)
	}
	return (&Error{Msg: err.Error()}).under(path)
}

// ToV2 writes an encoded message, given by its type URL, as the one of v2. What
// is neither of v3 nor holds something of it comes back as it is. An error is an
// *Error.
func (c *Converter) ToV2(a *anypb.Any) (*anypb.Any, error) { return c.any(a, 0) }

func (c *Converter) any(a *anypb.Any, depth int) (*anypb.Any, error) {
	name := a.MessageName()
	switch {
	case name == "xds.type.v3.TypedStruct" || name == "udpa.type.v1.TypedStruct":
		return typedStruct(a)
	case !IsV3(string(name)):
		return a, nil
	}
	if depth > maxDepth {
		return nil, &Error{Msg: "messages nest too deep"}
	}
	v2, ok := c.names.v2[name]
	if !ok {
		return nil, &Error{Msg: fmt.Sprintf("%s does not exist in v2 of the API", name)}
	}
	from, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return nil, &Error{Msg: fmt.Sprintf("%s is not linked in", name)}
	}
	to, err := protoregistry.GlobalTypes.FindMessageByName(v2)
	if err != nil {
		return nil, &Error{Msg: fmt.Sprintf("%s is not linked in", v2)}
	}
	m, err := c.message(a.GetValue(), from, to, depth)
	if err != nil {
		return nil, err
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	return &anypb.Any{TypeUrl: typePrefix + string(v2), Value: b}, nil
}

// message decodes v3 bytes, says in v2's words what v3 says in its own, and reads
// the result as v2's message.
func (c *Converter) message(body []byte, from, to protoreflect.MessageType, depth int) (proto.Message, error) {
	old := from.New()
	if err := proto.Unmarshal(body, old.Interface()); err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	if err := c.rewrite(old); err != nil {
		return nil, err
	}
	b, err := proto.Marshal(old.Interface())
	if err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	m := to.New()
	if err := proto.Unmarshal(b, m.Interface()); err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	if err := c.check(m, depth); err != nil {
		return nil, err
	}
	if err := validate(m.Interface()); err != nil {
		return nil, &Error{Msg: "it would not be valid in v2 of the API: " + err.Error()}
	}
	return m.Interface(), nil
}

// validate applies the rules of v2's protos. A listener of gRPC needs no address,
// whatever they say.
func validate(m proto.Message) error {
	if l, ok := m.(*api.Listener); ok && l.GetApiListener() != nil && l.GetAddress() == nil {
		l.Address = &core.Address{Address: &core.Address_Pipe{Pipe: &core.Pipe{Path: "@"}}}
		defer func() { l.Address = nil }()
	}
	if v, ok := m.(interface{ Validate() error }); ok {
		return v.Validate() //nolint:wrapcheck // its caller does
	}
	return nil
}

// typedStruct is the name that v2's time had for the wrapper of what a client may
// know by itself, unless that is known to be v3's.
func typedStruct(a *anypb.Any) (*anypb.Any, error) {
	var s udpa.TypedStruct // which has the same fields
	if err := proto.Unmarshal(a.GetValue(), &s); err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	if inner := s.GetTypeUrl()[strings.LastIndexByte(s.GetTypeUrl(), '/')+1:]; IsV3(inner) {
		return nil, &Error{Path: "type_url", Msg: inner + " in a TypedStruct is not written in v2 of the API"}
	}
	return &anypb.Any{TypeUrl: typePrefix + "udpa.type.v1.TypedStruct", Value: a.GetValue()}, nil
}

// rewrite applies the rules to a message and all below it.
func (c *Converter) rewrite(m protoreflect.Message) error {
	if r, ok := c.rules[m.Descriptor().FullName()]; ok {
		if err := r(m.Interface()); err != nil {
			return under("", err)
		}
	}
	return eachMessage(m, func(path string, sub protoreflect.Message) error {
		if sub.Descriptor().FullName() == "google.protobuf.Any" {
			return nil
		}
		if err := c.rewrite(sub); err != nil {
			return under(path, err)
		}
		return nil
	})
}

// check reports what of a message of v2 is unknown there, and converts what is in
// its Anys.
func (c *Converter) check(m protoreflect.Message, depth int) error {
	if len(m.GetUnknown()) > 0 {
		return c.unknown(m)
	}
	if err := checkEnums(m); err != nil {
		return err
	}
	return eachMessage(m, func(path string, sub protoreflect.Message) error {
		a, ok := sub.Interface().(*anypb.Any)
		if !ok {
			if err := c.check(sub, depth); err != nil {
				return under(path, err)
			}
			return nil
		}
		to, err := c.any(a, depth+1)
		if err != nil {
			return under(path, err)
		}
		a.TypeUrl, a.Value = to.GetTypeUrl(), to.GetValue()
		return nil
	})
}

// unknown names the first field that v2 does not have.
func (c *Converter) unknown(m protoreflect.Message) error {
	num, _, n := protowire.ConsumeTag(m.GetUnknown())
	if n < 0 {
		return &Error{Msg: "it cannot be decoded"}
	}
	if v3, ok := c.names.v3[m.Descriptor().FullName()]; ok {
		if d, err := protoregistry.GlobalTypes.FindMessageByName(v3); err == nil {
			if fd := d.Descriptor().Fields().ByNumber(num); fd != nil {
				return &Error{Path: string(fd.Name()), Msg: "v2 of the API has no such field"}
			}
		}
	}
	return &Error{Msg: fmt.Sprintf("v2 of the API has no field %d in %s", num, m.Descriptor().FullName())}
}

func checkEnums(m protoreflect.Message) error {
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		known := func(n protoreflect.EnumNumber) bool {
			if fd.Enum().Values().ByNumber(n) == nil {
				err = &Error{Path: string(fd.Name()), Msg: fmt.Sprintf("v2 of the API has no value %d in %s", n, fd.Enum().FullName())}
			}
			return err == nil
		}
		switch {
		case fd.Enum() == nil || fd.Enum().FullName() == "google.protobuf.NullValue":
		case fd.IsList():
			for i := range v.List().Len() {
				if !known(v.List().Get(i).Enum()) {
					return false
				}
			}
		default:
			return known(v.Enum())
		}
		return err == nil
	})
	return err
}

// eachMessage visits the messages in the fields of one, in no order.
func eachMessage(m protoreflect.Message, visit func(path string, sub protoreflect.Message) error) error {
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() == nil {
				return true
			}
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				err = visit(string(fd.Name())+"["+strconv.Quote(k.String())+"]", v.Message())
				return err == nil
			})
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				if err = visit(string(fd.Name())+"["+strconv.Itoa(i)+"]", v.List().Get(i).Message()); err != nil {
					return false
				}
			}
		default:
			err = visit(string(fd.Name()), v.Message())
		}
		return err == nil
	})
	return err
}
