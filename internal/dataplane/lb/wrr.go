package lb

// wrr is an earliest-deadline-first schedule of fixed whole weights: entry i
// is due at (n+1)/weight(i) after n turns. Deadlines are compared as fractions,
// so that within each cycle of as many picks as the sum of the weights every
// entry comes exactly weight times, for ever. Entries of equal weight are due
// together and go by index, which is why the heap is one of weights, not of
// entries: with few different weights a turn costs next to nothing.
type wrr struct{ heap []wrrClass }

// wrrClass is the entries of one weight.
type wrrClass struct {
	cycle   uint64 // full cycles behind
	turn    uint32 // the next turn in this cycle, 1 to weight
	weight  uint32
	next    uint32 // of members, in this turn
	members []uint32
}

func (e *wrrClass) before(o *wrrClass) bool {
	if e.cycle != o.cycle {
		return e.cycle < o.cycle
	}
	// turn and weight are 32 bits wide: the products are exact.
	a, b := uint64(e.turn)*uint64(o.weight), uint64(o.turn)*uint64(e.weight)
	if a != b {
		return a < b
	}
	return e.members[0] < o.members[0]
}

// newWRR makes a schedule of weights, which are all positive.
func newWRR(weights []uint32) *wrr {
	w := &wrr{}
	class := make(map[uint32]int)
	for i, weight := range weights {
		c, ok := class[weight]
		if !ok {
			c = len(w.heap)
			class[weight] = c
			w.heap = append(w.heap, wrrClass{turn: 1, weight: weight})
		}
		w.heap[c].members = append(w.heap[c].members, uint32(i))
	}
	for i := len(w.heap)/2 - 1; i >= 0; i-- {
		w.down(i)
	}
	return w
}

// next is the index that is due.
func (w *wrr) next() int {
	top := &w.heap[0]
	index := top.members[top.next]
	if top.next++; int(top.next) < len(top.members) {
		return int(index)
	}
	top.next = 0
	if top.turn == top.weight {
		top.turn, top.cycle = 1, top.cycle+1
	} else {
		top.turn++
	}
	w.down(0)
	return int(index)
}

func (w *wrr) down(i int) {
	h := w.heap
	moving := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&moving) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = moving
}

// edf is an earliest-deadline-first schedule whose weights may differ at each
// turn: an entry that came is due again 1/weight later. Equal deadlines go in
// the order of their making.
type edf struct {
	heap  []edfEntry
	made  uint64
	clock float64
}

type edfEntry struct {
	deadline float64
	order    uint64
	index    uint32
}

func (e *edfEntry) before(o *edfEntry) bool {
	if e.deadline != o.deadline {
		return e.deadline < o.deadline
	}
	return e.order < o.order
}

// newEDF makes an empty schedule for n entries.
func newEDF(n int) *edf { return &edf{heap: make([]edfEntry, 0, n)} }

// add adds an entry; its weight is positive.
func (s *edf) add(index int, weight float64) {
	s.heap = append(s.heap, edfEntry{deadline: s.clock + 1/weight, order: s.made, index: uint32(index)})
	s.made++
	h := s.heap
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// due is the index that comes next; again says when it comes after that.
func (s *edf) due() int { return int(s.heap[0].index) }

// again moves what was due to 1/weight later. It sinks as in wrr.down; one
// function for both, with a type parameter, takes twice the time.
func (s *edf) again(weight float64) {
	s.clock = s.heap[0].deadline
	moving := edfEntry{deadline: s.clock + 1/weight, order: s.made, index: s.heap[0].index}
	s.made++
	h, i := s.heap, 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&moving) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = moving
}
