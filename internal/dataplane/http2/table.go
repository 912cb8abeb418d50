package http2

// streamTable finds streams by id: open addressing with linear probing, at
// most half full.
type streamTable struct {
	slots []*Stream // its length is a power of two
	n     int
	shift uint8 // 32 - log2 of the length
}

func (t *streamTable) home(id uint32) uint32 { return id * 0x9e3779b1 >> t.shift }

func (t *streamTable) get(id uint32) *Stream {
	if t.n == 0 {
		return nil
	}
	mask := uint32(len(t.slots) - 1)
	for i := t.home(id); ; i = (i + 1) & mask {
		s := t.slots[i]
		if s == nil || s.ID == id {
			return s
		}
	}
}

func (t *streamTable) put(s *Stream) {
	if 2*(t.n+1) > len(t.slots) {
		t.grow()
	}
	t.n++
	t.place(s)
}

func (t *streamTable) place(s *Stream) {
	mask := uint32(len(t.slots) - 1)
	i := t.home(s.ID)
	for t.slots[i] != nil {
		i = (i + 1) & mask
	}
	t.slots[i] = s
}

func (t *streamTable) grow() {
	old := t.slots
	n := max(8, 2*len(old))
	t.slots = make([]*Stream, n)
	t.shift = 32
	for k := n; k > 1; k >>= 1 {
		t.shift--
	}
	for _, s := range old {
		if s != nil {
			t.place(s)
		}
	}
}

// del removes a stream and moves back those that it kept from their place.
func (t *streamTable) del(id uint32) {
	mask := uint32(len(t.slots) - 1)
	i := t.home(id)
	for t.slots[i] == nil || t.slots[i].ID != id {
		i = (i + 1) & mask
	}
	t.n--
	for j := (i + 1) & mask; t.slots[j] != nil; j = (j + 1) & mask {
		if h := t.home(t.slots[j].ID); (j-h)&mask >= (j-i)&mask {
			t.slots[i] = t.slots[j]
			i = j
		}
	}
	t.slots[i] = nil
}
