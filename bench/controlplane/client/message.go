package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// grpcPrefix is the length of what precedes a gRPC message: a compression flag
// and four bytes of length.
const grpcPrefix = 5

var (
	errCompressed = errors.New("a gRPC message is compressed, though no compression was offered")
	errTruncated  = errors.New("a protobuf field reaches beyond the end of its message")
)

// messageSink receives what a messageReader reads. The bytes are only valid
// during the call.
type messageSink interface {
	// field is one length-delimited top-level field; others are skipped.
	field(n protowire.Number, value []byte) error
	// endOfMessage follows the last field of each message.
	endOfMessage() error
}

// messageReader cuts a byte stream that arrives in pieces into gRPC messages
// and their top-level fields. It holds at most one incomplete field.
type messageReader struct {
	prefix  [grpcPrefix]byte
	have    int // bytes of prefix that are there
	left    int // bytes of the message that are still to come
	partial []byte
}

// feed reads the next piece.
func (r *messageReader) feed(b []byte, s messageSink) error {
	for len(b) > 0 {
		if r.have < grpcPrefix {
			n := copy(r.prefix[r.have:], b)
			r.have += n
			b = b[n:]
			if r.have < grpcPrefix {
				return nil
			}
			if r.prefix[0] != 0 {
				return errCompressed
			}
			r.left = int(binary.BigEndian.Uint32(r.prefix[1:]))
		}
		piece := b[:min(len(b), r.left)]
		b = b[len(piece):]
		r.left -= len(piece)
		if err := r.fields(piece, s); err != nil {
			return err
		}
		if r.left == 0 {
			if err := r.finish(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *messageReader) finish(s messageSink) error {
	if len(r.partial) > 0 {
		return errTruncated
	}
	r.have = 0
	return s.endOfMessage()
}

// fields reads a piece of a message, the incomplete field of the piece before
// it first.
func (r *messageReader) fields(piece []byte, s messageSink) error {
	for len(piece) > 0 {
		if len(r.partial) > 0 {
			n, err := r.complete(piece, s)
			if err != nil {
				return err
			}
			piece = piece[n:]
			continue
		}
		size, err := fieldSize(piece)
		if err != nil {
			return err
		}
		if size == 0 || size > len(piece) {
			r.partial = append(r.partial, piece...)
			return nil
		}
		if err := emit(piece[:size], s); err != nil {
			return err
		}
		piece = piece[size:]
	}
	return nil
}

// complete adds to the incomplete field what it lacks and returns how much of
// the piece that took.
func (r *messageReader) complete(piece []byte, s messageSink) (int, error) {
	size, err := fieldSize(r.partial)
	if err != nil {
		return 0, err
	}
	if size == 0 { // not even the length is there
		r.partial = append(r.partial, piece[0])
		return 1, r.emitIfComplete(s)
	}
	lacks := size - len(r.partial)
	if lacks > len(piece)+r.left {
		return 0, errTruncated
	}
	n := min(lacks, len(piece))
	r.partial = append(r.partial, piece[:n]...)
	return n, r.emitIfComplete(s)
}

func (r *messageReader) emitIfComplete(s messageSink) error {
	size, err := fieldSize(r.partial)
	if err != nil || size == 0 || size > len(r.partial) {
		return err
	}
	err = emit(r.partial, s)
	if cap(r.partial) > keepPartial {
		r.partial = nil
	}
	r.partial = r.partial[:0]
	return err
}

// keepPartial is the size up to which the buffer for an incomplete field is
// kept for the next one.
const keepPartial = 4 << 10

// fieldSize is the whole length of the field that b starts with, 0 if b is too
// short to tell.
func fieldSize(b []byte) (int, error) {
	tag, n := protowire.ConsumeVarint(b)
	if n < 0 {
		return 0, tooShort(b, n)
	}
	num, typ := protowire.DecodeTag(tag)
	if num < protowire.MinValidNumber {
		return 0, fmt.Errorf("protobuf field number %d", num)
	}
	switch typ {
	case protowire.BytesType:
		v, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return 0, tooShort(b[n:], m)
		}
		if v > 1<<31 {
			return 0, errTruncated
		}
		return n + m + int(v), nil
	case protowire.VarintType:
		_, m := protowire.ConsumeVarint(b[n:])
		if m < 0 {
			return 0, tooShort(b[n:], m)
		}
		return n + m, nil
	case protowire.Fixed32Type:
		return n + 4, nil
	case protowire.Fixed64Type:
		return n + 8, nil
	}
	return 0, fmt.Errorf("protobuf wire type %d", typ)
}

// tooShort tells a varint that may go on from one that is malformed.
func tooShort(b []byte, n int) error {
	if len(b) < 10 {
		return nil
	}
	return protowire.ParseError(n)
}

// emit hands over a complete field if it is length-delimited.
func emit(field []byte, s messageSink) error {
	num, typ, n := protowire.ConsumeTag(field)
	if typ != protowire.BytesType {
		return nil
	}
	v, m := protowire.ConsumeBytes(field[n:])
	if m < 0 {
		return protowire.ParseError(m)
	}
	return s.field(num, v)
}
