package subset

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/structpb"
)

// appendField adds a key and its value to the name of a subset. Equal values, and
// only those, are written alike; what is written tells where it ends.
func appendField(dst []byte, key string, v *structpb.Value) []byte {
	return appendValue(appendText(dst, key), v)
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendValue(dst []byte, v *structpb.Value) []byte {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return append(dst, 'n')
	case *structpb.Value_BoolValue:
		if k.BoolValue {
			return append(dst, 't')
		}
		return append(dst, 'f')
	case *structpb.Value_NumberValue:
		n := k.NumberValue + 0 // -0 is 0
		return binary.BigEndian.AppendUint64(append(dst, 'd'), math.Float64bits(n))
	case *structpb.Value_StringValue:
		return appendText(append(dst, 's'), k.StringValue)
	case *structpb.Value_ListValue:
		list := k.ListValue.GetValues()
		dst = binary.AppendUvarint(append(dst, 'l'), uint64(len(list)))
		for _, e := range list {
			dst = appendValue(dst, e)
		}
		return dst
	case *structpb.Value_StructValue:
		fields := k.StructValue.GetFields()
		dst = binary.AppendUvarint(append(dst, 'm'), uint64(len(fields)))
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			dst = appendField(dst, key, fields[key])
		}
		return dst
	}
	return append(dst, 'u')
}

// equal reports whether values are the same, as they are in names.
func equal(a, b *structpb.Value) bool {
	return string(appendValue(nil, a)) == string(appendValue(nil, b))
}
