package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxAnyDepth bounds how deep messages in an Any can nest. Real configuration
// needs fewer than ten levels; each level copies what it holds.
const maxAnyDepth = 32

// Errors that Walker.Any is called with.
var (
	// ErrUnknownType says that an Any names a type that is not linked in.
	ErrUnknownType = errors.New("the message type is not known")
	// ErrTooDeep says that messages in an Any nest too deep to be real.
	ErrTooDeep = fmt.Errorf("messages nest in an Any more than %d levels deep", maxAnyDepth)
)

// Walker visits a message and every message below it, field by field in the
// order of the descriptor, maps in the order of their keys. Messages inside an
// Any are visited as if they stood in its place. The zero value visits
// everything; each callback may be nil. Not safe for concurrent use.
type Walker struct {
	// Skip reports that messages of a type are not to be entered. It is asked
	// about the types of fields and of what an Any holds, once for each type.
	Skip func(protoreflect.FullName) bool
	// Whole is called, before Message, with the message that is walked and with
	// each one decoded from an Any: those that are not a field of another.
	Whole func(m protoreflect.Message)
	// Message is called with each message except the Any itself.
	Message func(m protoreflect.Message)
	// Any is called with each Any that cannot be decoded, with the message that
	// holds it and why: ErrUnknownType, ErrTooDeep, or a decoding error.
	Any func(parent protoreflect.Message, a *anypb.Any, err error)

	path   []segment
	depth  int
	fields map[protoreflect.MessageDescriptor][]protoreflect.FieldDescriptor
}

// segment is a field on the way to a message, with its list index or map key.
type segment struct {
	name  protoreflect.Name
	index int
	key   string
	kind  segmentKind
}

type segmentKind uint8

const (
	single segmentKind = iota
	element
	entry
)

// Path is the path of the message being visited, such as
// "filter_chains[0].filters[1].typed_config", followed by the given names of
// fields. It may be called from the callbacks only.
func (w *Walker) Path(fields ...protoreflect.Name) string {
	var b strings.Builder
	for _, s := range w.path {
		separate(&b)
		b.WriteString(string(s.name))
		switch s.kind {
		case element:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case entry:
			b.WriteString(MapKey(s.key))
		}
	}
	for _, f := range fields {
		separate(&b)
		b.WriteString(string(f))
	}
	return b.String()
}

// MapKey is how a map key stands in a field path, after the field's name.
func MapKey(key string) string { return "[" + strconv.Quote(key) + "]" }

func separate(b *strings.Builder) {
	if b.Len() > 0 {
		b.WriteByte('.')
	}
}

// Walk visits m and what is below it.
func (w *Walker) Walk(m proto.Message) {
	if m == nil || !m.ProtoReflect().IsValid() {
		return
	}
	w.path, w.depth = w.path[:0], 0
	w.whole(nil, m.ProtoReflect())
}

func (w *Walker) whole(parent, m protoreflect.Message) {
	if _, isAny := m.Interface().(*anypb.Any); !isAny && w.Whole != nil {
		w.Whole(m)
	}
	w.message(parent, m)
}

func (w *Walker) message(parent, m protoreflect.Message) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		w.unpack(parent, a)
		return
	}
	if w.Message != nil {
		w.Message(m)
	}
	for _, fd := range w.fieldsOf(m.Descriptor()) {
		if m.Has(fd) {
			w.field(m, fd)
		}
	}
}

// fieldsOf lists the fields of a message that lead to messages to enter.
func (w *Walker) fieldsOf(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if f, ok := w.fields[md]; ok {
		return f
	}
	var enter []protoreflect.FieldDescriptor
	fields := md.Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		target := fd.Message()
		if fd.IsMap() {
			target = fd.MapValue().Message()
		}
		if target == nil || w.Skip != nil && w.Skip(target.FullName()) {
			continue
		}
		enter = append(enter, fd)
	}
	if w.fields == nil {
		w.fields = map[protoreflect.MessageDescriptor][]protoreflect.FieldDescriptor{}
	}
	w.fields[md] = enter
	return enter
}

func (w *Walker) field(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	v := m.Get(fd)
	switch {
	case fd.IsMap():
		w.entries(m, fd, v.Map())
	case fd.IsList():
		l := v.List()
		for i := range l.Len() {
			w.step(m, segment{name: fd.Name(), index: i, kind: element}, l.Get(i).Message())
		}
	default:
		w.step(m, segment{name: fd.Name()}, v.Message())
	}
}

func (w *Walker) entries(m protoreflect.Message, fd protoreflect.FieldDescriptor, entries protoreflect.Map) {
	for _, k := range sortedKeys(entries) {
		w.step(m, segment{name: fd.Name(), key: k.String(), kind: entry}, entries.Get(k).Message())
	}
}

func sortedKeys(entries protoreflect.Map) []protoreflect.MapKey {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	for k := range entries.Range {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	return keys
}

func (w *Walker) step(parent protoreflect.Message, s segment, m protoreflect.Message) {
	w.path = append(w.path, s)
	w.message(parent, m)
	w.path = w.path[:len(w.path)-1]
}

func (w *Walker) unpack(parent protoreflect.Message, a *anypb.Any) {
	if w.depth >= maxAnyDepth {
		w.refuse(parent, a, ErrTooDeep)
		return
	}
	if w.Skip != nil && w.Skip(a.MessageName()) {
		return
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		if errors.Is(err, protoregistry.NotFound) || a.MessageName() == "" {
			err = ErrUnknownType
		}
		w.refuse(parent, a, err)
		return
	}
	w.depth++
	w.whole(parent, m.ProtoReflect())
	w.depth--
}

func (w *Walker) refuse(parent protoreflect.Message, a *anypb.Any, err error) {
	if w.Any != nil {
		w.Any(parent, a, err)
	}
}
