package message

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

var errNoName = errors.New("the resource has no name")

// Name reads the name of a resource without decoding it: the first field of
// every resource type of the protocol is its name.
func Name(body []byte) (string, error) {
	name, err := NameBytes(body)
	return string(name), err
}

// NameBytes is Name without a copy.
func NameBytes(body []byte) (name []byte, err error) {
	err = eachField(body, func(n protowire.Number, v []byte) error {
		if n == 1 {
			name = v
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(name) == 0:
		return nil, errNoName
	case !utf8.Valid(name):
		return nil, errNotUTF8
	}
	return name, nil
}

// eachField visits the length-delimited fields of a message and skips others.
func eachField(data []byte, visit func(n protowire.Number, v []byte) error) error {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n) //nolint:wrapcheck // says it all
		}
		data = data[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, data); n < 0 {
				return protowire.ParseError(n) //nolint:wrapcheck // says it all
			}
			data = data[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return protowire.ParseError(n) //nolint:wrapcheck // says it all
		}
		data = data[n:]
		if err := visit(num, v); err != nil {
			return err
		}
	}
	return nil
}

// eachVarint visits the varint fields of a message and skips others.
func eachVarint(data []byte, visit func(n protowire.Number, v uint64)) error {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n) //nolint:wrapcheck // says it all
		}
		data = data[n:]
		if typ == protowire.VarintType {
			v, n := protowire.ConsumeVarint(data)
			if n < 0 {
				return protowire.ParseError(n) //nolint:wrapcheck // says it all
			}
			visit(num, v)
			data = data[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(num, typ, data); n < 0 {
			return protowire.ParseError(n) //nolint:wrapcheck // says it all
		}
		data = data[n:]
	}
	return nil
}

// count is how many length-delimited fields of a number a message starts out
// to have; what cannot be read ends the count.
func count(data []byte, field protowire.Number) int {
	total := 0
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			break
		}
		m := protowire.ConsumeFieldValue(num, typ, data[n:])
		if m < 0 {
			break
		}
		if num == field && typ == protowire.BytesType {
			total++
		}
		data = data[n+m:]
	}
	return total
}
