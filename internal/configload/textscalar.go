package configload

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// textScalar converts by the rules of the text format, which has no leniences.
func textScalar(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, *Problem) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		if n.kind == stringNode && utf8.ValidString(n.text) {
			return protoreflect.ValueOfString(n.text), nil
		}
	case protoreflect.BytesKind:
		if n.kind == stringNode {
			return protoreflect.ValueOfBytes([]byte(n.text)), nil
		}
	case protoreflect.BoolKind:
		switch n.text {
		case "true", "True", "t", "1":
			return protoreflect.ValueOfBool(true), unquoted(fd, n)
		case "false", "False", "f", "0":
			return protoreflect.ValueOfBool(false), unquoted(fd, n)
		}
	case protoreflect.EnumKind:
		return textEnum(fd, n)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return textFloat(fd, n)
	default:
		if n.kind == numberNode && isTextInt(n.text) {
			return numberScalar(fd, n, n.text, 0)
		}
	}
	return protoreflect.Value{}, wrong(fd, n)
}

func unquoted(fd protoreflect.FieldDescriptor, n *node) *Problem {
	if n.kind == stringNode {
		return wrong(fd, n)
	}
	return nil
}

// isTextInt is a decimal, 0x or octal (leading 0) integer with an optional
// minus; strconv's base 0 takes more.
func isTextInt(s string) bool {
	s = strings.TrimPrefix(s, "-")
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	base, digits := 10, s
	switch {
	case len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x':
		base, digits = 16, s[2:]
	case s[0] == '0':
		base = 8
	}
	for i := range len(digits) {
		if !isDigit(digits[i], base) {
			return false
		}
	}
	return true
}

func textEnum(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, *Problem) {
	if n.kind == identNode {
		if v := fd.Enum().Values().ByName(protoreflect.Name(n.text)); v != nil {
			return protoreflect.ValueOfEnum(v.Number()), nil
		}
	}
	if n.kind == numberNode && isTextInt(n.text) {
		if i, err := strconv.ParseInt(n.text, 0, 32); err == nil {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(i)), nil
		}
	}
	return protoreflect.Value{}, wrong(fd, n)
}

// textFloat takes numbers with an optional suffix f, and the words for those
// that are none.
func textFloat(fd protoreflect.FieldDescriptor, n *node) (protoreflect.Value, *Problem) {
	s := strings.ToLower(n.text)
	f, ok := 0.0, true
	switch {
	case n.kind != numberNode && n.kind != identNode:
		ok = false
	case s == "nan" || s == "-nan":
		f = math.NaN()
	case s == "inf" || s == "infinity":
		f = math.Inf(1)
	case s == "-inf" || s == "-infinity":
		f = math.Inf(-1)
	case n.kind == numberNode && isPlainFloat(strings.TrimSuffix(s, "f")):
		bits := 64
		if fd.Kind() == protoreflect.FloatKind {
			bits = 32
		}
		var err error
		f, err = strconv.ParseFloat(strings.TrimSuffix(s, "f"), bits)
		ok = err == nil
	default:
		ok = false
	}
	switch {
	case !ok:
		return protoreflect.Value{}, wrong(fd, n)
	case fd.Kind() == protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(f)), nil
	}
	return protoreflect.ValueOfFloat64(f), nil
}
