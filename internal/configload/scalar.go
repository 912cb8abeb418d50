package configload

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar converts a node to a value of a scalar or enum field.
func (b *builder) scalar(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, bool) {
	if n.kind == badNode {
		b.fail(n, problem(CodeInvalidValue, "%s", n.text))
		return protoreflect.Value{}, false
	}
	if n.kind == listNode || n.kind == mapNode {
		b.fail(n, problem(CodeInvalidValue, "expected %s, got %s", fieldKind(fd), n.kind))
		return protoreflect.Value{}, false
	}
	convert := jsonScalar
	if b.text {
		convert = textScalar
	}
	v, p := convert(fd, n)
	if p != nil {
		p.Text = fmt.Sprintf(p.Text, b.quote(n))
		b.fail(n, p)
		return protoreflect.Value{}, false
	}
	return v, true
}

// fieldKind describes what a scalar field takes.
func fieldKind(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "a boolean"
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.BytesKind:
		return "bytes in base64"
	case protoreflect.EnumKind:
		return "a name of enum " + string(fd.Enum().FullName())
	}
	return "a number (" + fd.Kind().String() + ")"
}

// wrong is the problem that a node is no value of a field. Its text has a verb
// for the quoted value.
func wrong(fd protoreflect.FieldDescriptor, n *node) *Problem {
	return &Problem{Code: CodeInvalidValue, Text: "expected " + fieldKind(fd) + ", got " + n.kind.String() + " %s"}
}

// jsonScalar converts by the rules of JSON with Envoy's leniences: numbers may
// be strings, enum names may have any letter case.
func jsonScalar(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, *Problem) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		if n.kind == trueNode || n.kind == falseNode {
			return protoreflect.ValueOfBool(n.kind == trueNode), nil
		}
		p := wrong(fd, n)
		if n.kind == stringNode && (n.text == "true" || n.text == "false") {
			p.Hint = "write it without quotes"
		}
		return protoreflect.Value{}, p
	case protoreflect.StringKind:
		if n.kind == stringNode && utf8.ValidString(n.text) {
			return protoreflect.ValueOfString(n.text), nil
		}
		return protoreflect.Value{}, wrong(fd, n).hint("put it in quotes")
	case protoreflect.BytesKind:
		return bytesScalar(fd, n)
	case protoreflect.EnumKind:
		return enumScalar(fd, n)
	}
	if n.kind != numberNode && n.kind != stringNode {
		return protoreflect.Value{}, wrong(fd, n)
	}
	return numberScalar(fd, n, strings.TrimPrefix(n.text, "+"), 10)
}

func bytesScalar(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, *Problem) {
	if n.kind != stringNode {
		return protoreflect.Value{}, wrong(fd, n)
	}
	enc := base64.StdEncoding
	if strings.ContainsAny(n.text, "-_") {
		enc = base64.URLEncoding
	}
	if len(n.text)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	v, err := enc.DecodeString(n.text)
	if err != nil {
		// The content stays out of the message: bytes are often keys.
		return protoreflect.Value{}, &Problem{Code: CodeInvalidValue, Text: "expected bytes in base64%.0s", Hint: err.Error()}
	}
	return protoreflect.ValueOfBytes(v), nil
}

// enumScalar takes a name in any letter case, a number, or the word that YAML
// took for a boolean (OFF, NO).
func enumScalar(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, *Problem) {
	values := fd.Enum().Values()
	if n.kind == nullNode && fd.Enum().FullName() == nullValueName {
		return protoreflect.ValueOfEnum(0), nil
	}
	if n.kind != numberNode && n.kind != nullNode {
		if v := values.ByName(protoreflect.Name(n.text)); v != nil {
			return protoreflect.ValueOfEnum(v.Number()), nil
		}
		for i := range values.Len() {
			if strings.EqualFold(string(values.Get(i).Name()), n.text) {
				return protoreflect.ValueOfEnum(values.Get(i).Number()), nil
			}
		}
	}
	if n.kind == numberNode || n.kind == stringNode {
		if i, ok := parseInt(n.text, 10, 32); ok {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(i)), nil
		}
	}
	names := make([]string, values.Len())
	for i := range names {
		names[i] = string(values.Get(i).Name())
	}
	p := wrong(fd, n)
	if near, ok := nearest(n.text, names); ok {
		return protoreflect.Value{}, p.hint("did you mean %s?", near)
	}
	if len(names) > 12 {
		names = append(names[:12], "…")
	}
	return protoreflect.Value{}, p.hint("it may be %s", strings.Join(names, ", "))
}

// numberScalar parses a number; base 0 takes the prefixes 0x and 0.
func numberScalar(fd protoreflect.FieldDescriptor, n *node, text string, base int) (v protoreflect.Value, p *Problem) {
	ok := false
	switch fd.Kind() {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		var i int64
		i, ok = parseInt(text, base, 32)
		v = protoreflect.ValueOfInt32(int32(i))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		var i int64
		i, ok = parseInt(text, base, 64)
		v = protoreflect.ValueOfInt64(i)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		var u uint64
		u, ok = parseUint(text, base, 32)
		v = protoreflect.ValueOfUint32(uint32(u))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		var u uint64
		u, ok = parseUint(text, base, 64)
		v = protoreflect.ValueOfUint64(u)
	case protoreflect.FloatKind:
		var f float64
		f, ok = parseFloat(text, 32)
		v = protoreflect.ValueOfFloat32(float32(f))
	case protoreflect.DoubleKind:
		var f float64
		f, ok = parseFloat(text, 64)
		v = protoreflect.ValueOfFloat64(f)
	}
	if !ok {
		return protoreflect.Value{}, wrong(fd, n)
	}
	return v, nil
}

// exact is the bound below which every integer has a double of its own.
const exact = 1 << 53

// parseInt takes an integer, or in base 10 a number such as 1e3 or 5.0 that is
// one.
func parseInt(s string, base, bits int) (int64, bool) {
	if i, err := strconv.ParseInt(s, base, bits); err == nil {
		return i, true
	}
	f, ok := parseWhole(s, base)
	if !ok {
		return 0, false
	}
	i, err := strconv.ParseInt(strconv.FormatInt(int64(f), 10), 10, bits)
	return i, err == nil
}

func parseUint(s string, base, bits int) (uint64, bool) {
	if u, err := strconv.ParseUint(s, base, bits); err == nil {
		return u, true
	}
	f, ok := parseWhole(s, base)
	if !ok || f < 0 {
		return 0, false
	}
	u, err := strconv.ParseUint(strconv.FormatUint(uint64(f), 10), 10, bits)
	return u, err == nil
}

func parseWhole(s string, base int) (float64, bool) {
	if base != 10 || !isPlainFloat(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) <= exact
}

// parseFloat takes a number, or one of the names that JSON and YAML have for
// those that are none.
func parseFloat(s string, bits int) (float64, bool) {
	switch s {
	case "NaN", ".nan", ".NaN", ".NAN":
		return math.NaN(), true
	case "Infinity", ".inf", ".Inf", ".INF":
		return math.Inf(1), true
	case "-Infinity", "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1), true
	}
	if !isPlainFloat(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, bits)
	return f, err == nil
}
