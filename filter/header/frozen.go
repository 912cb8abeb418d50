package header

// Frozen is a list of fields that does not change: codecs keep one of what a
// peer sends again and again, and fill maps from it at once. It shares no memory
// with a Map and may be read by any number of goroutines.
type Frozen struct {
	fields   []Field
	size     int
	slot     [numKnown]uint16
	repeated bool
}

// Freeze copies the map, without the fields that were deleted.
func (m *Map) Freeze() *Frozen {
	c := Map{fields: make([]Field, 0, m.live), arena: make([]byte, 0, m.size)}
	c.CopyFrom(m)
	return &Frozen{fields: c.fields, size: c.size, slot: c.slot, repeated: c.repeated}
}

// Len is the number of fields.
func (f *Frozen) Len() int { return len(f.fields) }

// Size is the number of bytes of all names and values.
func (f *Frozen) Size() int { return f.size }

// Fields are the list itself, which must not be changed.
func (f *Frozen) Fields() []Field { return f.fields }

// Equal reports whether the map has the same fields in the same order.
func (f *Frozen) Equal(m *Map) bool {
	i := 0
	for name, value := range m.All() {
		if i == len(f.fields) || f.fields[i].Name != name || f.fields[i].Value != value {
			return false
		}
		i++
	}
	return i == len(f.fields)
}

// Thaw fills the map, which must be new or reset, with the fields of a frozen
// list. Their strings are not copied and outlive the map.
func (m *Map) Thaw(f *Frozen) {
	m.fields = append(m.fields, f.fields...)
	m.slot = f.slot // by itself, or it is copied twice
	m.live, m.size, m.repeated = len(f.fields), f.size, f.repeated
	m.frozen, m.touched = f, 0
}

// Thawed is the frozen list that the map was filled with, which are its first
// fields, or nil. Of these a bit is set in touched for each of the first 64
// that was given another value or deleted since, the lowest for the first.
func (m *Map) Thawed() (f *Frozen, touched uint64) { return m.frozen, m.touched }
