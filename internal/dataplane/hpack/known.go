package hpack

import "github.com/xebec-proxy/xebec/filter/header"

// What a decoder fills lists with again and again (memory.go) is sent again and
// again, too. An encoder remembers which of the fields of such a list are an index
// of one byte, as long as nothing enters or leaves its table.

// knownLists are those that an encoder has had last.
type knownLists struct {
	lists [8]knownList
	next  uint8 // to be forgotten
}

// knownList is where the tables have the fields of a list.
type knownList struct {
	of      *header.Frozen
	gen     uint64 // of the dynamic table, when the indices were right
	known   uint64 // a bit for each field whose index is in at
	all     uint64 // a bit for each field
	ordered bool   // pseudo-headers come first
	at      [maxRun]byte
}

// indices are those of a list's fields, as far as they are known.
func (e *Encoder) indices(f *header.Frozen) *knownList {
	if e.known == nil {
		e.known = new(knownLists)
	}
	for i := range e.known.lists {
		if k := &e.known.lists[i]; k.of == f {
			if k.gen != e.t.gen {
				k.gen, k.known = e.t.gen, 0
			}
			return k
		}
	}
	k := &e.known.lists[e.known.next%uint8(len(e.known.lists))]
	e.known.next++
	k.init(f, e.t.gen)
	return k
}

func (k *knownList) init(f *header.Frozen, gen uint64) {
	k.of, k.gen, k.known, k.ordered = f, gen, 0, f.Len() <= maxRun
	k.all = 1<<min(f.Len(), maxRun) - 1
	regular := false
	fields := f.Fields()
	for i := range fields {
		k.ordered = k.ordered && (!regular || isRegular(&fields[i]))
		regular = regular || isRegular(&fields[i])
	}
}

// appendThawed is Append of a list that began with a known one, whose fields were
// touched since where a bit is set.
func (e *Encoder) appendThawed(dst []byte, m *header.Map, k *knownList, touched uint64) []byte {
	fields := m.Fields()
	if k.known == k.all && touched&k.all == 0 && k.leads(fields) {
		n := k.of.Len()
		dst = append(dst, k.at[:n]...)
		rest := fields[n:]
		for i := range rest {
			if f := &rest[i]; f.Name != "" {
				dst = e.field(dst, f.Name, f.Value, f.ID())
			}
		}
		return dst
	}
	for id := header.Method; id <= header.Protocol; id++ {
		if i := m.IndexID(id); i >= 0 {
			dst = e.knownField(dst, &fields[i], i, k, touched)
		}
	}
	for i := range fields {
		if f := &fields[i]; isRegular(f) {
			dst = e.knownField(dst, f, i, k, touched)
		}
	}
	return dst
}

// leads reports whether the whole list comes before every other field.
func (k *knownList) leads(fields []header.Field) bool {
	if !k.ordered {
		return false
	}
	rest := fields[k.of.Len():]
	for i := range rest {
		if id := rest[i].ID(); id != header.Other && id <= header.Protocol {
			return false
		}
	}
	return true
}

// knownField appends the field at i, and remembers its index.
func (e *Encoder) knownField(dst []byte, f *header.Field, i int, k *knownList, touched uint64) []byte {
	bit := k.all &^ touched & (1 << uint(i))
	if k.known&bit != 0 && k.gen == e.t.gen { // another field of this list may have entered the table
		return append(dst, k.at[i])
	}
	start := len(dst)
	if isRegular(f) {
		dst = e.field(dst, f.Name, f.Value, f.ID())
	} else {
		dst = e.pseudo(dst, f.ID(), f.Value)
	}
	if sent := dst[start:]; bit != 0 && len(sent) == 1 && sent[0] > 0x80 && sent[0] != 0xff {
		k.at[i], k.known = sent[0], k.known|bit
	}
	return dst
}
