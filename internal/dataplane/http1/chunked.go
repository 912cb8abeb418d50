package http1

import (
	"bytes"

	"github.com/xebec-proxy/xebec/filter/header"
)

func (d *Decoder) nextChunked(buf []byte, h *header.Map) (ev Event, n int, data []byte, end bool, err *Error) {
	for n < len(buf) {
		switch d.state {
		case stChunkSize:
			k, err := d.chunkSize(buf[n:])
			if k == 0 || err != nil {
				return NeedMore, n, nil, false, err
			}
			n += k
		case stChunkData:
			data = buf[n:]
			if uint64(len(data)) >= d.remain {
				data = data[:d.remain]
				d.state, d.scan = stChunkEnd, 0
			}
			d.remain -= uint64(len(data))
			return Data, n + len(data), data, false, nil
		case stChunkEnd:
			if buf[n] != "\r\n"[d.scan] {
				return NeedMore, n, nil, false, d.bad("a chunk that is longer than its size")
			}
			n++
			if d.scan++; d.scan == 2 {
				d.state, d.scan = stChunkSize, 0
			}
		default:
			return d.nextTrailer(buf, n, h)
		}
	}
	return NeedMore, n, nil, false, nil
}

func (d *Decoder) nextTrailer(buf []byte, n int, h *header.Map) (ev Event, _ int, data []byte, end bool, err *Error) {
	for n < len(buf) {
		k, done, err := d.fieldLine(buf[n:], h)
		if k == 0 || err != nil {
			return NeedMore, n, nil, false, err
		}
		n += k
		if !done {
			continue
		}
		ev = End
		if d.o.EnableTrailers && d.count > 0 {
			ev = Trailers
		}
		end = !d.msg.upgrade
		d.finish()
		switch {
		case end:
			return ev, n, nil, true, nil
		case n < len(buf): // an upgrade goes on behind the chunks
			return Data, len(buf), buf[n:], false, nil
		}
	}
	return NeedMore, n, nil, false, nil
}

// chunkSize reads the line before a chunk: k bytes of it, or none if it is
// unfinished.
func (d *Decoder) chunkSize(b []byte) (k int, err *Error) {
	i := bytes.IndexByte(b[d.scan:], '\n')
	if i < 0 {
		if d.scan = len(b); d.scan > maxChunkLine {
			return 0, d.bad("a chunk extension that is too long")
		}
		return 0, nil
	}
	i += d.scan
	d.scan = 0
	if i > maxChunkLine {
		return 0, d.bad("a chunk extension that is too long")
	}
	if i == 0 || b[i-1] != '\r' {
		return 0, d.bad("a line that does not end in CRLF")
	}
	line := b[:i-1]
	size, digits := uint64(0), 0
	for digits < len(line) {
		v := hexDigit(line[digits])
		if v > 15 {
			break
		}
		if size > maxLength>>4 {
			return 0, d.bad("a chunk size that is too large")
		}
		size = size<<4 | v
		digits++
	}
	if digits == 0 || digits < len(line) && line[digits] != ';' {
		return 0, d.bad("a chunk size that is no hexadecimal number")
	}
	for j := digits; j < len(line); j++ {
		if j = control(line, j); j < len(line) && line[j] != '\t' {
			return 0, d.bad("a control character in a chunk extension")
		}
	}
	d.state, d.remain = stChunkData, size
	if size == 0 {
		d.state = stTrailers
	}
	return i + 1, nil
}
