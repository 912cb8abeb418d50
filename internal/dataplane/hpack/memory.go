package hpack

import (
	"encoding/binary"
	"math/bits"

	"github.com/xebec-proxy/xebec/filter/header"
)

// A client sends most fields of its requests again and again, and a server those
// of its responses: once they are in the table, a block begins with a run of
// indices. A decoder remembers what some of these runs stand for, as long as
// nothing enters or leaves the table, and fills the list from that at once.
const (
	minRun      = 2 // bytes, each an index, below which it is not worth it
	maxRun      = 32
	maxRunBytes = 1 << 10 // of the names and values
	numRuns     = 8
	runsBetween = 16 // runs that are not known between two that are learned: learning costs
)

// memory is what a decoder remembers. The zero value is empty.
type memory struct {
	gen   uint64 // of the table when it was last looked at
	runs  [numRuns]*run
	since uint8 // runs that were not known since one was learned
}

// run is a run of indices that a block began with.
type run struct {
	gen    uint64
	b      string
	fields *header.Frozen
	flags  Flags
}

// runLength is how many bytes a block begins with that are an index each.
func runLength(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	n := min(len(b), maxRun)
	i := 0
	for ; i+8 <= n; i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		long := (^v - ones) & v & high // the lowest is of a byte of 0xff
		if no := ^v&high | long; no != 0 {
			return i + bits.TrailingZeros64(no)/8
		}
	}
	for ; i < n; i++ {
		if c := b[i]; c < 0x80 || c == 0xff {
			break
		}
	}
	return i
}

// slot is where a run is remembered.
func slot(b []byte) int {
	const k = 0x9e3779b97f4a7c15
	h := uint64(len(b))
	for ; len(b) >= 8; b = b[8:] {
		h = (h ^ binary.LittleEndian.Uint64(b)) * k
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * k
	}
	return int(h >> 61)
}

// start reads the run that a block begins with, if it is known or to be learned.
func (r *reader) start() error {
	k := &r.d.memory
	if k.gen != r.d.t.gen {
		k.gen = r.d.t.gen // what changes with each block is not worth remembering
		return nil
	}
	n := runLength(r.b)
	if n < minRun {
		return nil
	}
	b := r.b[:n]
	at := slot(b)
	if e := k.runs[at]; e != nil && e.gen == k.gen && e.b == string(b) {
		r.recall(e)
		return nil
	}
	if k.since++; k.since < runsBetween {
		return nil
	}
	k.since = 0
	return r.learn(b, at)
}

// recall fills the empty list with the fields of a run.
func (r *reader) recall(e *run) {
	size, n := e.fields.Size(), e.fields.Len()
	if size > r.bytes || n > r.count {
		return // the limits say which field is one too many
	}
	r.m.Thaw(e.fields)
	r.bytes -= size
	r.count -= n
	r.flags |= e.flags
	r.b = r.b[len(e.b):]
}

// learn reads a run and remembers it.
func (r *reader) learn(b []byte, at int) error {
	for range b {
		if err := r.indexed(); err != nil {
			return err
		}
	}
	if m := r.m; m != nil && m.Len() > 0 && m.Size() <= maxRunBytes {
		k := &r.d.memory
		k.runs[at] = &run{gen: k.gen, b: string(b), fields: r.d.freeze(m), flags: r.flags}
	}
	return nil
}

// freeze is a copy of a list to keep, shared with other decoders if they share any.
func (d *Decoder) freeze(m *header.Map) *header.Frozen {
	if d.lists == nil {
		return m.Freeze()
	}
	return d.lists.freeze(m)
}
