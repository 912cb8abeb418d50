package configload

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	wellKnownPrefix                       = "google.protobuf."
	anyName         protoreflect.FullName = "google.protobuf.Any"
	valueName       protoreflect.FullName = "google.protobuf.Value"
	listValueName   protoreflect.FullName = "google.protobuf.ListValue"
	structName      protoreflect.FullName = "google.protobuf.Struct"
	nullValueName   protoreflect.FullName = "google.protobuf.NullValue"
	emptyName       protoreflect.FullName = "google.protobuf.Empty"
	durationName    protoreflect.FullName = "google.protobuf.Duration"
	timestampName   protoreflect.FullName = "google.protobuf.Timestamp"
	fieldMaskName   protoreflect.FullName = "google.protobuf.FieldMask"
)

// hasOwnJSON reports whether a type has a JSON form other than its fields;
// inside an Any that form stands under the key value.
func hasOwnJSON(name protoreflect.FullName) bool {
	switch name {
	case anyName, valueName, listValueName, structName, emptyName, durationName, timestampName, fieldMaskName:
		return true
	}
	return isWrapper(name)
}

func isWrapper(name protoreflect.FullName) bool {
	rest, ok := strings.CutPrefix(string(name), wellKnownPrefix)
	if !ok {
		return false
	}
	switch rest {
	case "DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value",
		"BoolValue", "StringValue", "BytesValue":
		return true
	}
	return false
}

// wellKnown fills a message that has a JSON form of its own. It reports false
// if the message, or this node, is to be read field by field.
func (b *builder) wellKnown(n *node, m protoreflect.Message, at *place) bool {
	name := m.Descriptor().FullName()
	switch {
	case name == valueName:
		b.structValue(n, m, at)
	case name == structName && n.kind == mapNode:
		fd := m.Descriptor().Fields().ByNumber(1)
		b.mapField(fd, n, m.Mutable(fd).Map(), at)
	case name == listValueName && n.kind == listNode:
		fd := m.Descriptor().Fields().ByNumber(1)
		b.list(fd, n, m.Mutable(fd).List(), at)
	case n.kind == mapNode:
		if name == durationName || name == timestampName {
			b.fields(n, m, at)
			b.checkTime(n, m)
			return true
		}
		return false
	case name == durationName, name == timestampName, name == fieldMaskName:
		b.fromString(n, m)
	case isWrapper(name):
		fd := m.Descriptor().Fields().ByNumber(1)
		if v, ok := b.scalar(fd, n); ok {
			m.Set(fd, v)
		}
	default:
		return false
	}
	return true
}

// fromString reads the string forms of durations, timestamps and field masks.
func (b *builder) fromString(n *node, m protoreflect.Message) {
	if n.kind == stringNode {
		quoted, err := json.Marshal(n.text)
		if err == nil && protojson.Unmarshal(quoted, m.Interface()) == nil {
			return
		}
	}
	short := strings.ToLower(strings.TrimPrefix(string(m.Descriptor().FullName()), wellKnownPrefix))
	p := problem(CodeInvalidValue, "expected a %s, got %s %s", short, n.kind, b.quote(n))
	switch m.Descriptor().FullName() {
	case durationName:
		p = p.hint("%s", durationHint(n))
	case timestampName:
		p = p.hint(`write it as "2006-01-02T15:04:05Z"`)
	}
	b.fail(n, p)
}

// durationHint is how the duration that was probably meant is written.
func durationHint(n *node) string {
	text := n.text
	if n.kind == numberNode {
		text += "s"
	}
	if d, err := time.ParseDuration(strings.TrimSpace(text)); err == nil && (n.kind == numberNode || n.kind == stringNode) {
		if s, err := protojson.Marshal(durationpb.New(d)); err == nil {
			return fmt.Sprintf("write it in seconds: %s", strings.Trim(string(s), `"`))
		}
	}
	return "write it in seconds, such as 5s or 0.25s"
}

// checkTime refuses a duration or timestamp, written by its fields, that has
// no string form.
func (b *builder) checkTime(n *node, m protoreflect.Message) {
	seconds := m.Get(m.Descriptor().Fields().ByNumber(1)).Int()
	nanos := int32(m.Get(m.Descriptor().Fields().ByNumber(2)).Int())
	err := (&durationpb.Duration{Seconds: seconds, Nanos: nanos}).CheckValid()
	if m.Descriptor().FullName() == timestampName {
		err = (&timestamppb.Timestamp{Seconds: seconds, Nanos: nanos}).CheckValid()
	}
	if err != nil {
		short := strings.ToLower(strings.TrimPrefix(string(m.Descriptor().FullName()), wellKnownPrefix))
		b.fail(n, problem(CodeInvalidValue, "seconds %d with nanos %d is no valid %s", seconds, nanos, short))
	}
}

// structValue fills a google.protobuf.Value.
func (b *builder) structValue(n *node, m protoreflect.Message, at *place) {
	fds := m.Descriptor().Fields()
	switch n.kind {
	case nullNode:
		m.Set(fds.ByName("null_value"), protoreflect.ValueOfEnum(0))
	case trueNode, falseNode:
		m.Set(fds.ByName("bool_value"), protoreflect.ValueOfBool(n.kind == trueNode))
	case numberNode:
		f, ok := parseFloat(strings.TrimPrefix(n.text, "+"), 64)
		if !ok || math.IsInf(f, 0) {
			b.fail(n, problem(CodeInvalidValue, "the number %s does not fit a double", b.quote(n)))
			return
		}
		m.Set(fds.ByName("number_value"), protoreflect.ValueOfFloat64(f))
	case mapNode:
		b.message(n, m.Mutable(fds.ByName("struct_value")).Message(), at)
	case listNode:
		b.message(n, m.Mutable(fds.ByName("list_value")).Message(), at)
	case badNode:
		b.fail(n, problem(CodeInvalidValue, "%s", n.text))
	default:
		fd := fds.ByName("string_value")
		if v, ok := b.scalar(fd, n); ok {
			m.Set(fd, v)
		}
	}
}

// structNode is the tree of a Struct, every node of it at one place.
func structNode(fields protoreflect.Message, line, col int32) *node {
	n := &node{kind: mapNode, line: line, col: col}
	fields.Get(fields.Descriptor().Fields().ByNumber(1)).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		n.items = append(n.items, entry{key: k.String(), line: line, col: col, val: valueNode(v.Message(), line, col)})
		return true
	})
	sortEntries(n.items)
	return n
}

func valueNode(v protoreflect.Message, line, col int32) *node {
	n := &node{line: line, col: col}
	fd := v.WhichOneof(v.Descriptor().Oneofs().Get(0))
	if fd == nil {
		return n
	}
	switch x := v.Get(fd); fd.Name() {
	case "number_value":
		n.kind, n.text = numberNode, formatFloat(x.Float())
	case "string_value":
		n.kind, n.text = stringNode, x.String()
	case "bool_value":
		n.kind, n.text = falseNode, "false"
		if x.Bool() {
			n.kind, n.text = trueNode, "true"
		}
	case "struct_value":
		return structNode(x.Message(), line, col)
	case "list_value":
		n.kind = listNode
		l := x.Message().Get(x.Message().Descriptor().Fields().ByNumber(1)).List()
		for i := range l.Len() {
			n.items = append(n.items, entry{line: line, col: col, val: valueNode(l.Get(i).Message(), line, col)})
		}
	}
	return n
}
