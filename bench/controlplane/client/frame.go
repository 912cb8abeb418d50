package client

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/http2"
)

const (
	frameHeader = 9
	// maxFrame is the largest frame either side sends: the protocol's initial
	// value, which this client leaves as it is.
	maxFrame = 16384
)

// frameSink receives what a frameReader reads. The bytes are only valid during
// the call.
type frameSink interface {
	// data is a piece of a DATA frame's payload without padding.
	data(b []byte) error
	// dataFrame announces a DATA frame; size counts the padding too, as flow
	// control does.
	dataFrame(size int, stream uint32) error
	// endOfStream says that the server has closed the stream by a DATA frame.
	endOfStream() error
	// frame is any other frame, whole.
	frame(f frame) error
}

// frame is an HTTP/2 frame.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

// frameReader cuts a byte stream that arrives in pieces into HTTP/2 frames.
// DATA passes through piece by piece, other frames are small and kept until
// they are whole.
type frameReader struct {
	header [frameHeader]byte
	have   int // bytes of header that are there
	left   int // bytes of payload that are still to come
	pad    int // padding at the end of the payload
	padded bool
	body   []byte
}

// feed reads the next piece.
func (r *frameReader) feed(b []byte, s frameSink) error {
	for len(b) > 0 {
		if r.have < frameHeader {
			n := copy(r.header[r.have:], b)
			r.have += n
			b = b[n:]
			if r.have < frameHeader {
				return nil
			}
			if err := r.begin(s); err != nil {
				return err
			}
		}
		piece := b[:min(len(b), r.left)]
		b = b[len(piece):]
		if err := r.payload(piece, s); err != nil {
			return err
		}
		if r.left == 0 {
			if err := r.end(s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *frameReader) kind() http2.FrameType { return http2.FrameType(r.header[3]) }
func (r *frameReader) flags() http2.Flags    { return http2.Flags(r.header[4]) }
func (r *frameReader) stream() uint32        { return binary.BigEndian.Uint32(r.header[5:]) &^ (1 << 31) }

func (r *frameReader) begin(s frameSink) error {
	r.left = int(r.header[0])<<16 | int(r.header[1])<<8 | int(r.header[2])
	if r.left > maxFrame {
		return fmt.Errorf("%v frame of %d bytes; the most allowed is %d", r.kind(), r.left, maxFrame)
	}
	r.pad, r.padded = 0, false
	if r.kind() != http2.FrameData {
		return nil
	}
	r.padded = r.flags().Has(http2.FlagDataPadded)
	return s.dataFrame(r.left, r.stream())
}

func (r *frameReader) payload(b []byte, s frameSink) error {
	if len(b) == 0 {
		return nil
	}
	if r.kind() != http2.FrameData {
		r.body = append(r.body, b...)
		r.left -= len(b)
		return nil
	}
	if r.padded {
		r.pad, r.padded = int(b[0]), false
		b = b[1:]
		r.left--
		if r.pad > r.left {
			return fmt.Errorf("DATA frame with %d bytes of padding in %d", r.pad, r.left)
		}
	}
	data := b[:min(len(b), max(r.left-r.pad, 0))]
	r.left -= len(b)
	if len(data) == 0 {
		return nil
	}
	return s.data(data)
}

func (r *frameReader) end(s frameSink) error {
	r.have = 0
	if r.kind() == http2.FrameData {
		if r.flags().Has(http2.FlagDataEndStream) {
			return s.endOfStream()
		}
		return nil
	}
	f := frame{kind: r.kind(), flags: r.flags(), stream: r.stream(), payload: r.body}
	err := s.frame(f)
	if cap(r.body) > keepPartial {
		r.body = nil
	}
	r.body = r.body[:0]
	return err
}

// appendFrame appends a frame's header; its payload of size bytes follows.
func appendFrame(b []byte, kind http2.FrameType, flags http2.Flags, stream uint32, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, stream)
}
