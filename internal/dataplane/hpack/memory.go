package hpack

import "github.com/xebec-proxy/xebec/filter/header"

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
	n := min(len(b), maxRun)
	for i, c := range b[:n] {
		if c < 0x80 || c == 0xff {
			return i
		}
	}
	return n
}

// slot is where a run is remembered.
func slot(b []byte) int {
	h := uint32(len(b))
	for _, c := range b {
		h = h*31 + uint32(c)
	}
	return int(h * 0x9e3779b1 >> 29)
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
	if m := r.m; m != nil && m.Size() <= maxRunBytes {
		k := &r.d.memory
		k.runs[at] = &run{gen: k.gen, b: string(b), fields: m.Freeze(), flags: r.flags}
	}
	return nil
}
