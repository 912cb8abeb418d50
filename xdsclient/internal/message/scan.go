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
		if num, v, rest, ok := short(data); ok {
			if err := visit(num, v); err != nil {
				return err
			}
			data = rest
			continue
		}
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

// short splits off a length-delimited field whose tag and length take a byte
// each, as those of most fields do; ok is false for all others.
func short(data []byte) (num protowire.Number, v, rest []byte, ok bool) {
	const head, more, wireType, shift = 2, 0x80, 7, 3
	if len(data) < head || data[0] >= more || data[1] >= more || protowire.Type(data[0]&wireType) != protowire.BytesType {
		return 0, nil, nil, false
	}
	num, end := protowire.Number(data[0]>>shift), head+int(data[1])
	if num < protowire.MinValidNumber || end > len(data) {
		return 0, nil, nil, false
	}
	return num, data[head:end:end], data[end:], true
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
