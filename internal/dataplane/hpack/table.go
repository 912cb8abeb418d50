package hpack

import (
	"unsafe"

	"github.com/xebec-proxy/xebec/filter/header"
)

// entryOverhead is what an entry counts besides its bytes (RFC 7541 section 4.1).
const entryOverhead = 32

// entry is a field of a dynamic table. The name of a known id is not stored.
type entry struct {
	off   uint32 // of the bytes, counted from the first ever stored
	nlen  uint32 // 0 for a known name
	vlen  uint32
	prev  uint32 // encoder: the entry before in the same chain
	id    header.ID
	flags Flags
}

// table is a dynamic table: a ring of entries whose bytes lie one after another
// in a buffer. Entries are named by a number that grows with each insertion and
// wraps around.
type table struct {
	ring []entry // its length is a power of two
	head uint32  // number of the next entry
	tail uint32  // number of the oldest
	buf  []byte
	base uint32 // offset of buf[0]
	size uint32 // as RFC 7541 counts
	max  uint32
	gen  uint64 // counts the changes
}

func (t *table) len() uint32 { return t.head - t.tail }

func (t *table) live(n uint32) bool { return n-t.tail < t.head-t.tail }

func (t *table) at(n uint32) *entry { return &t.ring[n&uint32(len(t.ring)-1)] }

// name is valid until the next insertion.
func (t *table) name(e *entry) string {
	if e.id != header.Other {
		return e.id.Name()
	}
	o := e.off - t.base
	return view(t.buf[o : o+e.nlen])
}

// value is valid until the next insertion.
func (t *table) value(e *entry) []byte {
	o := e.off - t.base + e.nlen
	return t.buf[o : o+e.vlen]
}

func (t *table) cost(e *entry) uint32 {
	n := e.nlen
	if e.id != header.Other {
		n = uint32(len(e.id.Name()))
	}
	return n + e.vlen + entryOverhead
}

// evict drops the oldest entries until at most room bytes are used.
func (t *table) evict(room uint32) {
	for t.size > room {
		t.size -= t.cost(t.at(t.tail))
		t.tail++
	}
}

func (t *table) resize(limit uint32) {
	t.gen++
	t.max = limit
	t.evict(limit)
}

// insert adds a field, whose strings must not lie in the table, and reports
// whether it fitted. The entry is the number before head.
func (t *table) insert(name, value string, id header.ID, flags Flags, prev uint32) bool {
	t.gen++
	cost := uint32(len(name)+len(value)) + entryOverhead
	if cost > t.max {
		t.evict(0)
		return false
	}
	t.evict(t.max - cost)
	if int(t.len()) == len(t.ring) {
		t.growRing()
	}
	if id != header.Other {
		name = ""
	}
	t.room(len(name) + len(value))
	e := t.at(t.head)
	e.off, e.nlen, e.vlen = t.base+uint32(len(t.buf)), uint32(len(name)), uint32(len(value))
	e.prev, e.id, e.flags = prev, id, flags
	t.buf = append(append(t.buf, name...), value...)
	t.head++
	t.size += cost
	return true
}

func (t *table) growRing() {
	n := max(16, 2*len(t.ring))
	ring := make([]entry, n)
	for i := t.tail; i != t.head; i++ {
		ring[i&uint32(n-1)] = *t.at(i)
	}
	t.ring = ring
}

// room makes place for n bytes behind the buffer: by moving what lives to its
// front if that frees half of it, so that a byte is moved at most about once.
func (t *table) room(n int) {
	if len(t.buf)+n <= cap(t.buf) {
		return
	}
	start := len(t.buf)
	if t.len() > 0 {
		start = int(t.at(t.tail).off - t.base)
	}
	used := len(t.buf) - start
	to := t.buf[:0]
	if (used+n)*2 > cap(t.buf) {
		to = make([]byte, 0, max(256, 2*(used+n)))
	}
	t.buf = append(to, t.buf[start:]...)
	t.base += uint32(start)
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
