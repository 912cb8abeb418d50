// Package header holds the header list of an HTTP message as every codec,
// filter and matcher of the proxy sees it: ordered, names in lower case,
// pseudo-headers (":method", ":path", ":authority", ":scheme", ":status") as
// ordinary entries, with constant-time access to the names the proxy knows.
package header

import (
	"iter"
	"slices"
	"strings"
	"unsafe"
)

// Field is one header. A field that was deleted has an empty name.
type Field struct {
	Name, Value string
	id          ID
}

// ID is the known id of the field's name, or Other.
func (f *Field) ID() ID { return f.id }

// Map is the ordered list of headers of one message. Names are lower case;
// methods that take a name expect it so. A name may occur several times.
//
// Strings that a codec put in live in the map's own memory: they are valid
// until Reset, which a stream does at its end; clone what is to be kept longer.
// A Map is confined to the worker of its stream. The zero value is ready.
type Map struct {
	fields []Field
	arena  []byte
	live   int
	size   int
	slot   [numKnown]uint16 // 1 + index of the first live field of a known name
	// repeated: a known name may occur more than once.
	repeated bool
	frozen   *Frozen // what the map was filled with, or nil
	touched  uint64  // a bit for each field that is not as it was then
}

// Len is the number of fields.
func (m *Map) Len() int { return m.live }

// Size is the number of bytes of all names and values.
func (m *Map) Size() int { return m.size }

// Reset empties the map and keeps its memory for the next message, unless an
// unusual message made that large.
func (m *Map) Reset() {
	const keepArena, keepFields = 16 << 10, 256
	if len(m.fields)+len(m.arena) == 0 {
		return // most trailers are never there
	}
	if cap(m.arena) > keepArena {
		m.arena = nil
	}
	if cap(m.fields) > keepFields {
		m.fields = nil
	}
	clear(m.fields)
	m.fields, m.arena = m.fields[:0], m.arena[:0]
	m.live, m.size, m.repeated = 0, 0, false
	m.frozen, m.touched = nil, 0
	m.slot = [numKnown]uint16{}
}

// Fields is the list itself, for fast iteration: entries with an empty name
// were deleted and must be skipped. The slice is valid until the next change, and
// nothing is changed through it.
func (m *Map) Fields() []Field { return m.fields }

// All yields names and values in order. The map must not be changed meanwhile.
func (m *Map) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := range m.fields {
			if f := &m.fields[i]; f.Name != "" && !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

// Get is the first value of a name, or "".
func (m *Map) Get(name string) string {
	v, _ := m.Lookup(name)
	return v
}

// Has reports whether a name occurs.
func (m *Map) Has(name string) bool {
	_, ok := m.Lookup(name)
	return ok
}

// Lookup is the first value of a name, and whether it occurs.
func (m *Map) Lookup(name string) (string, bool) {
	if id := KnownID(name); id != Other {
		return m.LookupID(id)
	}
	if i := m.find(name, 0); i >= 0 {
		return m.fields[i].Value, true
	}
	return "", false
}

// IndexID is where Fields has the first value of a known name, or -1.
func (m *Map) IndexID(id ID) int { return int(m.slot[id]) - 1 }

// GetID is the first value of a known name, or "".
func (m *Map) GetID(id ID) string {
	if i := m.slot[id]; i != 0 {
		return m.fields[i-1].Value
	}
	return ""
}

// HasID reports whether a known name occurs.
func (m *Map) HasID(id ID) bool { return m.slot[id] != 0 }

// LookupID is the first value of a known name, and whether it occurs.
func (m *Map) LookupID(id ID) (string, bool) {
	if i := m.slot[id]; i != 0 {
		return m.fields[i-1].Value, true
	}
	return "", false
}

// Values yields the values of a name in order.
func (m *Map) Values(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := m.find(name, 0); i >= 0; i = m.find(name, i+1) {
			if !yield(m.fields[i].Value) {
				return
			}
		}
	}
}

// Count is how often a name occurs.
func (m *Map) Count(name string) int {
	n := 0
	for i := m.find(name, 0); i >= 0; i = m.find(name, i+1) {
		n++
	}
	return n
}

// find is the index of the first live field of a name from an index on, or -1.
func (m *Map) find(name string, from int) int {
	for i := from; i < len(m.fields); i++ {
		if m.fields[i].Name == name {
			return i
		}
	}
	return -1
}

// Add appends a field. The strings are kept as they are, not copied.
func (m *Map) Add(name, value string) { m.add(name, value, KnownID(name)) }

// AddID appends a field of a known name.
func (m *Map) AddID(id ID, value string) { m.add(names[id], value, id) }

// add writes the parts of a field one by one to where they stay: a Field is too
// large for registers, and to copy one that was just written waits for memory.
func (m *Map) add(name, value string, id ID) {
	n := len(m.fields)
	if n == cap(m.fields) {
		m.fields = slices.Grow(m.fields, 1)
	}
	m.fields = m.fields[:n+1]
	f := &m.fields[n]
	f.Name, f.Value, f.id = name, value, id
	m.live++
	m.size += len(name) + len(value)
	if id == Other {
		return
	}
	if at := &m.slot[id]; *at == 0 {
		*at = uint16(min(n+1, maxFields))
	} else {
		m.repeated = true
	}
}

// maxFields is what the index of known names can tell apart; no limit of a
// message lets it hold as many.
const maxFields = 1<<16 - 1

// Set makes a name occur exactly once, with this value: the first occurrence is
// replaced in its place and the others are deleted.
func (m *Map) Set(name, value string) {
	if id := KnownID(name); id != Other {
		m.SetID(id, value)
		return
	}
	m.setFrom(m.find(name, 0), name, value, Other)
}

// SetID is Set for a known name.
func (m *Map) SetID(id ID, value string) {
	m.setFrom(int(m.slot[id])-1, names[id], value, id)
}

func (m *Map) setFrom(first int, name, value string, id ID) {
	if first < 0 {
		m.add(name, value, id)
		return
	}
	m.SetAt(first, value)
	if id != Other && !m.repeated {
		return
	}
	for i := m.find(name, first+1); i >= 0; i = m.find(name, i+1) {
		m.drop(i)
	}
}

// SetAt replaces the value of the field at an index of Fields.
func (m *Map) SetAt(i int, value string) {
	m.size += len(value) - len(m.fields[i].Value)
	m.fields[i].Value = value
	m.touched |= 1 << i
}

// Del deletes every field of a name and returns how many there were.
func (m *Map) Del(name string) int {
	if id := KnownID(name); id != Other {
		return m.DelID(id)
	}
	return m.delFrom(m.find(name, 0), name)
}

// DelID deletes every field of a known name and returns how many there were.
func (m *Map) DelID(id ID) int {
	if m.slot[id] == 0 {
		return 0 // mostly, and without a call
	}
	return m.delID(id)
}

func (m *Map) delID(id ID) int {
	i := m.slot[id]
	m.slot[id] = 0
	if !m.repeated {
		m.drop(int(i) - 1)
		return 1
	}
	return m.delFrom(int(i)-1, names[id])
}

func (m *Map) delFrom(i int, name string) int {
	n := 0
	for ; i >= 0; i = m.find(name, i+1) {
		m.drop(i)
		n++
	}
	return n
}

// DelAt deletes the field at an index of Fields.
func (m *Map) DelAt(i int) {
	f := m.fields[i]
	if f.Name == "" {
		return
	}
	m.drop(i)
	if f.id != Other && int(m.slot[f.id]) == i+1 {
		m.slot[f.id] = uint16(m.find(f.Name, i+1) + 1)
	}
}

// DelFunc deletes the fields that a function picks by lower-case name.
func (m *Map) DelFunc(del func(name string) bool) {
	for i := range m.fields {
		if n := m.fields[i].Name; n != "" && del(n) {
			m.DelAt(i)
		}
	}
}

func (m *Map) drop(i int) {
	f := &m.fields[i]
	m.live--
	m.size -= len(f.Name) + len(f.Value)
	f.Name, f.Value, f.id = "", "", Other
	m.touched |= 1 << i
}

// AppendValue adds a value to the first field of a name behind a separator, or
// adds the field.
func (m *Map) AppendValue(name, separator, value string) {
	i := m.find(name, 0)
	if i < 0 {
		m.Add(name, value)
		return
	}
	old := m.fields[i].Value
	if old == "" {
		m.SetAt(i, value)
		return
	}
	start := len(m.arena)
	m.arena = append(append(append(m.arena, old...), separator...), value...)
	m.SetAt(i, view(m.arena[start:]))
}

// AddBytes appends a field and copies its bytes. The name must be lower case.
// Known names are not copied.
func (m *Map) AddBytes(name, value []byte) {
	id := KnownID(view(name))
	n := ""
	if id == Other {
		n = m.Keep(name)
	} else {
		n = names[id]
	}
	m.add(n, m.Keep(value), id)
}

// AddIDBytes appends a field of a known name and copies its value.
func (m *Map) AddIDBytes(id ID, value []byte) { m.add(names[id], m.Keep(value), id) }

// SetIDBytes is SetID with a copy of the value.
func (m *Map) SetIDBytes(id ID, value []byte) { m.SetID(id, m.Keep(value)) }

// Keep copies bytes into the map's memory: the string lives until Reset.
func (m *Map) Keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	start := len(m.arena)
	m.arena = append(m.arena, b...)
	return view(m.arena[start:])
}

// Arena is the map's memory for codecs that decode in place: they append to it
// and hand it back with SetArena; strings made of it live until Reset.
func (m *Map) Arena() []byte { return m.arena }

// SetArena hands back what Arena gave, longer or not.
func (m *Map) SetArena(b []byte) { m.arena = b }

// AddOwned appends a field whose strings live as long as the map, with a known
// id that the caller looked up.
func (m *Map) AddOwned(name, value string, id ID) { m.add(name, value, id) }

// CopyFrom makes m a copy of another map that shares no memory with it.
func (m *Map) CopyFrom(o *Map) {
	m.Reset()
	for i := range o.fields {
		f := &o.fields[i]
		switch {
		case f.Name == "":
		case f.id != Other:
			m.add(f.Name, m.keepString(f.Value), f.id)
		default:
			m.add(m.keepString(f.Name), m.keepString(f.Value), Other)
		}
	}
}

func (m *Map) keepString(s string) string {
	return m.Keep(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// String shows the list for logs and tests, a field a line.
func (m *Map) String() string {
	var b strings.Builder
	for n, v := range m.All() {
		b.WriteString(n)
		b.WriteString(": ")
		b.WriteString(v)
		b.WriteByte('\n')
	}
	return b.String()
}

// view is the bytes as a string, without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Method is the request's ":method".
func (m *Map) Method() string { return m.GetID(Method) }

// Path is the request's ":path" with its query.
func (m *Map) Path() string { return m.GetID(Path) }

// Authority is the request's ":authority".
func (m *Map) Authority() string { return m.GetID(Authority) }

// Scheme is the request's ":scheme".
func (m *Map) Scheme() string { return m.GetID(Scheme) }

// Status is the response's ":status" as a number, or 0.
func (m *Map) Status() int {
	s := m.GetID(Status)
	if len(s) != 3 {
		return 0
	}
	n := 0
	for i := range 3 {
		c := s[i] - '0'
		if c > 9 {
			return 0
		}
		n = n*10 + int(c)
	}
	return n
}
