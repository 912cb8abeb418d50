package client

import "time"

// timers is a heap of the entries that wait for a time: for the end of what
// they hold if they hold something, else for the server to say something.
type timers []*entry

// first is the time of the entry that is due first.
func (h timers) first() (time.Duration, bool) {
	if len(h) == 0 {
		return 0, false
	}
	return h[0].due, true
}

// set starts or moves an entry's timer.
func (h *timers) set(e *entry, due time.Duration) {
	if e.slot == 0 {
		*h = append(*h, e)
		e.slot = int32(len(*h))
	}
	e.due = due
	i := h.up(int(e.slot) - 1)
	h.down(i)
}

// stop ends an entry's timer, if there is one.
func (h *timers) stop(e *entry) {
	if e.slot == 0 {
		return
	}
	i, last := int(e.slot)-1, len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	e.slot = 0
	if i < last {
		h.down(h.up(i))
	}
}

// stopRequests ends the timers of the entries that hold nothing.
func (h *timers) stopRequests() {
	kept := (*h)[:0]
	for _, e := range *h {
		if !e.held {
			e.slot = 0
			continue
		}
		kept = append(kept, e)
		e.slot = int32(len(kept))
	}
	clear((*h)[len(kept):])
	*h = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *timers) swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	s[i].slot, s[j].slot = int32(i+1), int32(j+1)
}

func (h *timers) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if (*h)[parent].due <= (*h)[i].due {
			break
		}
		h.swap(i, parent)
		i = parent
	}
	return i
}

func (h *timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(*h) {
			return
		}
		if right := child + 1; right < len(*h) && (*h)[right].due < (*h)[child].due {
			child = right
		}
		if (*h)[i].due <= (*h)[child].due {
			return
		}
		h.swap(i, child)
		i = child
	}
}
