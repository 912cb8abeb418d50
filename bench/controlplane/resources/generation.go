package resources

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of the messages that are read without decoding them.
const (
	clusterConnectTimeout = 4
	durationSeconds       = 1
	durationNanos         = 2
	assignmentZones       = 2
	zoneWeight            = 3
	wrapperValue          = 1
)

var errNoGeneration = errors.New("the resource carries no generation")

// Generation reads the generation out of an encoded resource.
func Generation(k Kind, body []byte) (int, error) {
	if k == CDS {
		return clusterGeneration(body)
	}
	return assignmentGeneration(body)
}

func clusterGeneration(body []byte) (int, error) {
	timeout, err := find(body, clusterConnectTimeout)
	if err != nil {
		return 0, err
	}
	seconds, err := varint(timeout, durationSeconds)
	if err != nil {
		return 0, err
	}
	nanos, err := varint(timeout, durationNanos)
	if err != nil {
		return 0, err
	}
	d := time.Duration(seconds)*time.Second + time.Duration(nanos)
	return int((d - time.Second) / time.Millisecond), nil
}

func assignmentGeneration(body []byte) (int, error) {
	zone, err := find(body, assignmentZones)
	if err != nil {
		return 0, err
	}
	weight, err := find(zone, zoneWeight)
	if err != nil {
		return 0, err
	}
	v, err := varint(weight, wrapperValue)
	if err == nil && v == 0 {
		err = errNoGeneration
	}
	return int(v) - 1, err
}

// Field is one field of an encoded message: Bytes for a length-delimited one,
// Varint for a varint.
type Field struct {
	Number protowire.Number
	Bytes  []byte
	Varint uint64
}

// Fields iterates over the fields of an encoded message, ending with an error
// if it is malformed.
func Fields(b []byte) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		for len(b) > 0 {
			f, n := consume(b)
			if n < 0 {
				yield(f, fmt.Errorf("malformed message: %w", protowire.ParseError(n)))
				return
			}
			if !yield(f, nil) {
				return
			}
			b = b[n:]
		}
	}
}

func consume(b []byte) (f Field, n int) {
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, n
	}
	f.Number = num
	var m int
	switch typ {
	case protowire.BytesType:
		f.Bytes, m = protowire.ConsumeBytes(b[n:])
	case protowire.VarintType:
		f.Varint, m = protowire.ConsumeVarint(b[n:])
	default:
		m = protowire.ConsumeFieldValue(num, typ, b[n:])
	}
	if m < 0 {
		return f, m
	}
	return f, n + m
}

func find(b []byte, n protowire.Number) ([]byte, error) {
	for f, err := range Fields(b) {
		if err != nil {
			return nil, err
		}
		if f.Number == n {
			return f.Bytes, nil
		}
	}
	return nil, errNoGeneration
}

// varint is a scalar field's value, 0 if it is left out.
func varint(b []byte, n protowire.Number) (uint64, error) {
	for f, err := range Fields(b) {
		if err != nil {
			return 0, err
		}
		if f.Number == n {
			return f.Varint, nil
		}
	}
	return 0, nil
}
