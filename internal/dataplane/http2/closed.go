package http2

import "slices"

// How a stream ended, as far as frames that still come for it are concerned.
const (
	endedNever   = iota // skipped, or too long ago to know
	endedPeer           // the peer ended it, or reset it: it must send nothing more
	endedLocal          // we reset it: what is under way is ignored
	endedSkipped        // never opened, and closed by the opening of a later one
)

// closedLog remembers the last streams that closed.
type closedLog struct {
	ring    [64]uint32 // id<<1 | 1 if we reset it
	n       uint32
	skipped [4][2]uint32 // ranges of ids that were left out
	k       uint32
}

func (l *closedLog) add(id uint32, local bool) {
	v := id << 1
	if local {
		v |= 1
	}
	l.ring[l.n%uint32(len(l.ring))] = v
	l.n++
}

func (l *closedLog) skip(lo, hi uint32) {
	l.skipped[l.k%uint32(len(l.skipped))] = [2]uint32{lo, hi}
	l.k++
}

func (l *closedLog) find(id uint32) int {
	for _, v := range l.ring {
		if v>>1 == id && v != 0 {
			if v&1 != 0 {
				return endedLocal
			}
			return endedPeer
		}
	}
	for _, r := range l.skipped {
		if id >= r[0] && id <= r[1] && r[1] != 0 {
			return endedSkipped
		}
	}
	return endedNever
}

func sortIDs(ids []uint32) { slices.Sort(ids) }
