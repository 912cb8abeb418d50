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

// Thaw fills the map, which must be new or reset, with the fields of a frozen
// list. Their strings are not copied and outlive the map.
func (m *Map) Thaw(f *Frozen) {
	m.fields = append(m.fields, f.fields...)
	m.live, m.size, m.slot, m.repeated = len(f.fields), f.size, f.slot, f.repeated
}
