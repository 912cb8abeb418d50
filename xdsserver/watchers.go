package xdsserver

import (
	"math/bits"
	"slices"
)

// seats gives each stream of a group a small number, which is free again when the
// stream has left.
type seats struct {
	streams []*stream // by number; nil where it is free
	free    []uint32
}

// take seats a stream unless it has a seat.
func (t *seats) take(s *stream) {
	if t.has(s) {
		return
	}
	if n := len(t.free); n > 0 {
		s.seat, t.free = t.free[n-1], t.free[:n-1]
		t.streams[s.seat] = s
		return
	}
	s.seat = uint32(len(t.streams))
	t.streams = append(t.streams, s)
}

func (t *seats) has(s *stream) bool {
	return int(s.seat) < len(t.streams) && t.streams[s.seat] == s
}

// leave frees a stream's seat, if it has one.
func (t *seats) leave(s *stream) {
	if !t.has(s) {
		return
	}
	t.streams[s.seat] = nil
	t.free = append(t.free, s.seat)
	if len(t.free) == len(t.streams) {
		*t = seats{}
	}
}

func (t *seats) taken() int { return len(t.streams) - len(t.free) }

// each visits the streams that have a seat.
func (t *seats) each(visit func(*stream) bool) {
	for _, s := range t.streams {
		if s != nil && !visit(s) {
			return
		}
	}
}

// watchers is a set of a group's streams. The common single one costs nothing more.
type watchers struct {
	one  *stream
	many *seatSet
}

func (w *watchers) add(s *stream, t *seats) {
	switch {
	case w.many != nil:
		w.many.add(s.seat, len(t.streams))
	case w.one == nil || w.one == s:
		w.one = s
	default:
		w.many = &seatSet{}
		w.many.add(w.one.seat, len(t.streams))
		w.many.add(s.seat, len(t.streams))
		w.one = nil
	}
}

// remove takes a stream out, if it is in.
func (w *watchers) remove(s *stream) {
	switch {
	case w.many != nil:
		if w.many.remove(s.seat); w.many.count == 0 {
			w.many = nil
		}
	case w.one == s:
		w.one = nil
	}
}

// empty reports whether nobody is in; a nil set is empty.
func (w *watchers) empty() bool { return w == nil || w.one == nil && w.many == nil }

func (w *watchers) has(s *stream) bool {
	return w.one == s || w.many != nil && w.many.has(s.seat)
}

// each visits the streams; a nil set has none.
func (w *watchers) each(t *seats, f func(*stream)) {
	switch {
	case w == nil:
	case w.many != nil:
		w.many.each(func(seat uint32) { f(t.streams[seat]) })
	case w.one != nil:
		f(w.one)
	}
}

// seatSet is a set of seats: the numbers in order as long as they are few among
// all, and one bit for each else. Either takes at most an eighth of a byte for
// each seat, and what is few moves quickly.
type seatSet struct {
	count int
	few   []uint32
	bits  []uint64
}

// sparse is how many seats there are for each in the set from where on numbers
// take less than bits.
const sparse = 32

func (x *seatSet) add(seat uint32, seats int) {
	if x.bits == nil {
		i, found := slices.BinarySearch(x.few, seat)
		if found {
			return
		}
		x.few = slices.Insert(x.few, i, seat)
		if x.count++; x.count*sparse >= seats {
			x.toBits(seats)
		}
		return
	}
	at := int(seat / 64)
	if at >= len(x.bits) {
		x.bits = append(x.bits, make([]uint64, at+1-len(x.bits))...)
	}
	if bit := uint64(1) << (seat % 64); x.bits[at]&bit == 0 {
		x.bits[at] |= bit
		x.count++
	}
}

func (x *seatSet) toBits(seats int) {
	x.bits = make([]uint64, (seats+63)/64)
	for _, seat := range x.few {
		x.bits[seat/64] |= 1 << (seat % 64)
	}
	x.few = nil
}

func (x *seatSet) remove(seat uint32) {
	if !x.has(seat) {
		return
	}
	x.count--
	if x.bits == nil {
		i, _ := slices.BinarySearch(x.few, seat)
		x.few = slices.Delete(x.few, i, i+1)
		return
	}
	x.bits[seat/64] &^= 1 << (seat % 64)
	if x.count*4*sparse < len(x.bits)*64 { // far fewer, so that it does not swing
		few := make([]uint32, 0, x.count)
		x.each(func(seat uint32) { few = append(few, seat) })
		x.few, x.bits = few, nil
	}
}

func (x *seatSet) has(seat uint32) bool {
	if x.bits == nil {
		_, found := slices.BinarySearch(x.few, seat)
		return found
	}
	at := int(seat / 64)
	return at < len(x.bits) && x.bits[at]&(1<<(seat%64)) != 0
}

func (x *seatSet) each(f func(seat uint32)) {
	for _, seat := range x.few {
		f(seat)
	}
	for at, word := range x.bits {
		for ; word != 0; word &= word - 1 {
			f(uint32(at*64 + bits.TrailingZeros64(word)))
		}
	}
}
