package format

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/types/known/structpb"
)

// appendQuoted appends a text as a JSON string. A text that is not UTF-8 is
// taken for Latin-1 and escaped, in the long form throughout, as Envoy does.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	return append(appendEscaped(dst, s), '"')
}

func appendEscaped(dst []byte, s string) []byte {
	i := clean(s)
	dst = append(dst, s[:i]...)
	if i == len(s) {
		return dst
	}
	valid := utf8.ValidString(s)
	for ; i < len(s); i++ {
		switch b := s[i]; {
		case b < 0x20 || b == '"' || b == '\\' || b >= 0x7f && !valid:
			dst = escapeByte(dst, b, valid)
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// escapeByte escapes a byte in the short form, if it has one and that is wanted.
func escapeByte(dst []byte, b byte, short bool) []byte {
	const hex = "0123456789abcdef"
	if !short {
		return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
	}
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
}

// clean is how many bytes at the start are plain ASCII.
func clean(s string) int {
	for i := range len(s) {
		if b := s[i]; b < 0x20 || b >= 0x80 || b == '"' || b == '\\' {
			return i
		}
	}
	return len(s)
}

// escapeFrom escapes what was appended from an index on.
func escapeFrom(dst []byte, n int) []byte {
	raw := view(dst[n:])
	if clean(raw) == len(raw) {
		return dst
	}
	end := len(dst)
	dst = appendEscaped(dst, raw)
	return append(dst[:n], dst[end:]...)
}

// view is bytes as a string, without a copy: they must not change meanwhile.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// appendDouble appends a number in its shortest form, with an exponent where
// that is shorter.
func appendDouble(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	n := len(dst)
	const exact = 1 << 53
	if math.Abs(f) >= exact {
		dst = strconv.AppendFloat(dst, f, 'f', 0, 64)
	} else {
		dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	fixed := len(dst) - n
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if len(dst)-n-fixed < fixed {
		return append(dst[:n], dst[n+fixed:]...)
	}
	return dst[:n+fixed]
}

// appendValue appends a value as JSON.
func appendValue(dst []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return appendDouble(dst, k.NumberValue)
	case *structpb.Value_StringValue:
		return appendQuoted(dst, k.StringValue)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(dst, k.BoolValue)
	case *structpb.Value_StructValue:
		return appendStruct(dst, k.StructValue)
	case *structpb.Value_ListValue:
		dst = append(dst, '[')
		for i, e := range k.ListValue.GetValues() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, e)
		}
		return append(dst, ']')
	}
	return append(dst, "null"...)
}

func appendStruct(dst []byte, s *structpb.Struct) []byte {
	var room [16]string // no allocation for most
	keys := room[:0]
	for k := range s.GetFields() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, k), ':')
		dst = appendValue(dst, s.GetFields()[k])
	}
	return append(dst, '}')
}
