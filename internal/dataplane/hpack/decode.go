package hpack

import (
	"encoding/binary"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Decoder decodes the header blocks of one direction of a connection. It must
// see every block, also those of messages nobody wants, because each may change
// its table.
type Decoder struct {
	t          table
	limit      uint32 // what our settings allow the peer's encoder
	atStart    bool   // of a block: size updates may come
	mustUpdate bool   // the limit shrank: the next block has to begin with an update
	scratch    []byte
	memory     memory
	lists      *Lists
}

// Init makes the decoder that of a new connection and keeps its memory.
func (d *Decoder) Init() {
	t := &d.t
	*d = Decoder{t: table{ring: t.ring, buf: t.buf[:0], max: DefaultTableSize}, limit: DefaultTableSize, scratch: d.scratch[:0]}
}

// ShareLists makes the decoder share what it remembers with the others of its
// worker. Without, it keeps them for itself.
func (d *Decoder) ShareLists(l *Lists) { d.lists = l }

// SetLimit says that the peer knows our SETTINGS_HEADER_TABLE_SIZE, in bytes.
func (d *Decoder) SetLimit(n uint32) {
	d.limit = n
	d.mustUpdate = d.t.max > n
}

// Allow lets the peer's encoder use a larger table already before it
// acknowledged the setting.
func (d *Decoder) Allow(n uint32) { d.limit = max(d.limit, n) }

// TableSize is the size in bytes that the entries of the table count.
func (d *Decoder) TableSize() int { return int(d.t.size) }

// Decode adds the fields of a whole header block to m, with all bytes copied
// into m's memory; with a nil map it only follows the changes of the table.
// A list over maxBytes (names and values) or maxCount fields is cut short, and
// flagged; fields with a bad name are flagged and left out. An error is a
// COMPRESSION_ERROR of the connection.
func (d *Decoder) Decode(block []byte, m *header.Map, maxBytes, maxCount int) (Flags, error) {
	d.Begin()
	_, flags, err := d.Part(block, true, m, maxBytes, maxCount)
	return flags, err
}

// Begin is the start of a block that comes in parts.
func (d *Decoder) Begin() { d.atStart = true }

// Part is Decode for a part of a block. It returns how many of its last bytes
// are of a field that is not complete: they belong before the next part.
func (d *Decoder) Part(block []byte, last bool, m *header.Map, maxBytes, maxCount int) (rest int, flags Flags, err error) {
	var r reader // filled one by one: to copy what was just written waits for memory
	r.d, r.m, r.b, r.bytes, r.count = d, m, block, maxBytes, maxCount
	if m != nil {
		r.arena = m.Arena()
	} else {
		r.arena = d.scratch
	}
	r.keep = len(r.arena)
	before := block
	if d.atStart {
		before, err = r.sizeUpdates()
		if err == nil && last && m != nil && len(m.Fields()) == 0 {
			err = r.start()
		}
	}
	for err == nil && len(r.b) > 0 {
		before = r.b
		err = r.field()
	}
	if err == ErrTruncated && !last { //nolint:errorlint // never wrapped
		rest, err = len(before), nil
		r.arena = r.arena[:r.keep]
	}
	if m != nil {
		m.SetArena(r.arena)
	} else if cap(r.arena) <= 16<<10 {
		d.scratch = r.arena[:0]
	}
	return rest, r.flags, err
}

// reader is a block under way.
type reader struct {
	d     *Decoder
	m     *header.Map // nil to drop
	b     []byte
	arena []byte
	keep  int // bytes of the arena that fields of m use
	bytes int
	count int
	flags Flags
}

// sizeUpdates reads the table size updates a block may begin with, and returns
// where the last one, if incomplete, began.
func (r *reader) sizeUpdates() (before []byte, err error) {
	d := r.d
	for len(r.b) > 0 && r.b[0]>>5 == 1 {
		before = r.b
		n, err := r.integer(0x1f)
		if err != nil {
			return before, err
		}
		if n > d.limit {
			return nil, ErrTableSize
		}
		d.t.resize(n)
		d.mustUpdate = false
	}
	if len(r.b) > 0 {
		d.atStart = false
		if d.mustUpdate {
			return nil, ErrSizeUpdate
		}
	}
	return r.b, nil
}

// integer reads an integer whose first byte has a prefix of ones in mask.
func (r *reader) integer(mask byte) (uint32, error) {
	if v := r.b[0] & mask; v < mask {
		r.b = r.b[1:]
		return uint32(v), nil
	}
	return r.longInteger(mask)
}

func (r *reader) longInteger(mask byte) (uint32, error) {
	sum := uint64(mask)
	for i, shift := 1, 0; i < len(r.b); i, shift = i+1, shift+7 {
		c := r.b[i]
		sum += uint64(c&0x7f) << shift
		if sum > 1<<28 || shift > 28 {
			return 0, ErrInteger
		}
		if c < 0x80 {
			r.b = r.b[i+1:]
			return uint32(sum), nil
		}
	}
	return 0, ErrTruncated
}

func (r *reader) field() error {
	c := r.b[0]
	switch {
	case c >= 0x80:
		return r.indexed()
	case c >= 0x40:
		return r.literal(0x3f, true)
	case c >= 0x20:
		return ErrSizeUpdate
	default:
		return r.literal(0x0f, false)
	}
}

func (r *reader) indexed() error {
	i, err := r.integer(0x7f)
	if err != nil {
		return err
	}
	if i <= uint32(numStatic) {
		if i == 0 {
			return ErrIndex
		}
		f := &static[i]
		r.add(f.name, f.value, f.id, 0)
		return nil
	}
	t := &r.d.t
	if i -= uint32(numStatic); i > t.len() {
		return ErrIndex
	}
	e := t.at(t.head - i)
	if r.m == nil || !r.fits(int(t.cost(e))-entryOverhead) {
		return nil
	}
	name := ""
	if e.id == header.Other {
		o := e.off - t.base
		start := len(r.arena)
		r.arena = append(r.arena, t.buf[o:o+e.nlen+e.vlen]...)
		name = view(r.arena[start : start+int(e.nlen)])
		r.put(name, view(r.arena[start+int(e.nlen):]), header.Other, e.flags)
		return nil
	}
	start := len(r.arena)
	r.arena = append(r.arena, t.value(e)...)
	r.flags |= e.flags
	r.keep = len(r.arena)
	r.m.AddOwned(e.id.Name(), view(r.arena[start:]), e.id)
	return nil
}

func (r *reader) literal(mask byte, index bool) error {
	i, err := r.integer(mask)
	if err != nil {
		return err
	}
	name, id, flags, err := r.name(i)
	if err != nil {
		return err
	}
	start := len(r.arena)
	if err := r.str(); err != nil {
		return err
	}
	value := view(r.arena[start:])
	if !validValue(value) {
		flags |= BadValue
	}
	if index {
		r.d.t.insert(name, value, id, flags, 0)
	}
	r.add(name, value, id, flags)
	return nil
}

// name is the name of a literal field, by index or as a string of its own.
func (r *reader) name(i uint32) (string, header.ID, Flags, error) {
	switch {
	case i == 0:
		start := len(r.arena)
		if err := r.str(); err != nil {
			return "", 0, 0, err
		}
		n := view(r.arena[start:])
		if id := header.KnownID(n); id != header.Other {
			r.arena = r.arena[:start]
			return id.Name(), id, 0, nil
		}
		return n, header.Other, classify(n), nil
	case i <= uint32(numStatic):
		f := &static[i]
		return f.name, f.id, 0, nil
	}
	t := &r.d.t
	if i -= uint32(numStatic); i > t.len() {
		return "", 0, 0, ErrIndex
	}
	e := t.at(t.head - i)
	if e.id != header.Other {
		return e.id.Name(), e.id, 0, nil
	}
	start := len(r.arena)
	r.arena = append(r.arena, t.name(e)...) // the entry may go before the field is stored
	return view(r.arena[start:]), header.Other, e.flags &^ BadValue, nil
}

// str appends the string that is next to the arena.
func (r *reader) str() error {
	if len(r.b) == 0 {
		return ErrTruncated
	}
	huff := r.b[0]&0x80 != 0
	n, err := r.integer(0x7f)
	if err != nil {
		return err
	}
	if uint64(n) > uint64(len(r.b)) {
		return ErrTruncated
	}
	s := r.b[:n]
	r.b = r.b[n:]
	if !huff {
		r.arena = append(r.arena, s...)
		return nil
	}
	r.arena, err = decodeHuffman(r.arena, s)
	return err
}

func (r *reader) fits(n int) bool {
	switch {
	case n > r.bytes:
		r.flags |= TooLarge
	case r.count == 0:
		r.flags |= TooMany
	default:
		r.bytes -= n
		r.count--
		return true
	}
	r.m.SetArena(r.arena)
	r.m = nil
	return false
}

// add adds a field whose strings are constant or in the arena.
func (r *reader) add(name, value string, id header.ID, flags Flags) {
	if r.m == nil || !r.fits(len(name)+len(value)) {
		r.arena = r.arena[:r.keep]
		return
	}
	r.put(name, value, id, flags)
}

func (r *reader) put(name, value string, id header.ID, flags Flags) {
	r.flags |= flags
	if flags&BadName != 0 {
		r.arena = r.arena[:r.keep]
		return
	}
	r.keep = len(r.arena)
	r.m.AddOwned(name, value, id)
}

func classify(name string) Flags {
	if name == "" {
		return BadName
	}
	var f Flags
	for i := range len(name) {
		f |= nameClass[name[i]]
	}
	return f
}

// validValue reports whether a value has no control character besides tab, and
// no DEL, as RFC 9110 section 5.5 has it.
func validValue(s string) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for len(s) >= 8 {
		v := load64(s)
		del := v ^ ones*0x7f
		if ((v-ones*0x20)&^v|(del-ones)&^del)&high != 0 && !validBytes(s[:8]) {
			return false
		}
		s = s[8:]
	}
	return validBytes(s)
}

func validBytes(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func load64(s string) uint64 { return binary.LittleEndian.Uint64(bytesOf(s)) }
