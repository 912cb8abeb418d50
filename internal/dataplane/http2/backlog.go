package http2

import "slices"

// backlog is the bytes of a body that wait for a window, in pieces: one buffer
// that grows by copying would need several times its size while it does.
type backlog struct {
	pieces [][]byte
	first  int // index of the piece that is sent next
	at     int // sent bytes of it
	size   int
}

// pieceSize is the size of full pieces, in bytes: that of a usual frame.
const pieceSize = 16 << 10

// keepPieces is how many full pieces wait to be used again at most: the backlog
// of a stream swings by as much as its windows. Trim gives them up.
const keepPieces = 1024

// add copies bytes. Small backlogs grow as small buffers do.
func (q *backlog) add(b []byte, p *Pool) {
	q.size += len(b)
	for len(b) > 0 {
		last := len(q.pieces) - 1
		if last < q.first || len(q.pieces[last]) >= pieceSize {
			q.pieces = append(q.pieces, p.piece(last >= q.first || len(b) > pieceSize/2))
			last++
		}
		n := min(len(b), pieceSize-len(q.pieces[last]))
		q.pieces[last] = append(q.pieces[last], b[:n]...)
		b = b[n:]
	}
}

// front is the bytes to be sent next: all of them if there are no more than
// those of a piece.
func (q *backlog) front() []byte {
	if q.size == 0 {
		return nil
	}
	return q.pieces[q.first][q.at:]
}

// drop forgets the first n bytes, of the front.
func (q *backlog) drop(n int, p *Pool) {
	q.at += n
	q.size -= n
	if q.size == 0 {
		q.clear(p)
		return
	}
	if q.at < len(q.pieces[q.first]) {
		return
	}
	p.takeBack(q.pieces[q.first])
	q.pieces[q.first], q.at = nil, 0
	if q.first++; q.first >= 64 && 2*q.first >= len(q.pieces) {
		n := copy(q.pieces, q.pieces[q.first:])
		clear(q.pieces[n:])
		q.pieces, q.first = q.pieces[:n], 0
	}
}

// clear forgets everything but a piece to begin with.
func (q *backlog) clear(p *Pool) {
	var one []byte
	for i := q.first; i < len(q.pieces); i++ {
		if one == nil {
			one = q.pieces[i][:0]
		} else {
			p.takeBack(q.pieces[i])
		}
	}
	clear(q.pieces)
	pieces := q.pieces[:0]
	if cap(pieces) > 64 {
		pieces = nil
	}
	if one != nil {
		pieces = append(pieces, one)
	}
	*q = backlog{pieces: pieces}
}

// piece makes a piece: a full one, or one that grows.
func (p *Pool) piece(full bool) []byte {
	k := len(p.pieces)
	switch {
	case !full:
		return nil
	case k == 0:
		return make([]byte, 0, pieceSize)
	}
	b := p.pieces[k-1]
	p.pieces[k-1] = nil
	p.pieces = p.pieces[:k-1]
	p.least = min(p.least, k-1)
	return b
}

// Trim gives up what nothing has needed since the last Trim. To be called now
// and then.
func (p *Pool) Trim() {
	p.pieces = slices.Delete(p.pieces, 0, p.least)
	p.least = len(p.pieces)
}

func (p *Pool) takeBack(b []byte) {
	if cap(b) == pieceSize && len(p.pieces) < keepPieces {
		p.pieces = append(p.pieces, b[:0])
	}
}
