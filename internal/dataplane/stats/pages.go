package stats

// pageBits and the others say how many ids share a page. What counts by one of
// them mostly counts by others of its page, too; that few do is why there are
// pages at all: of a hundred statistics of a cluster most never move.
const (
	pageBits = 4
	pageSize = 1 << pageBits
	pageMask = pageSize - 1
)

type page[T any] [pageSize]T

// pages are values by id. A page that nobody has written to is nil, or beyond the
// end, and reads as zeros.
type pages[T any] []*page[T]

// at is the value of an id.
func (p pages[T]) at(id uint32) (v T) {
	if i := int(id >> pageBits); i < len(p) && p[i] != nil {
		v = p[i][id&pageMask]
	}
	return v
}

// cell is where the value of an id is kept, from now on if it was not.
func (p *pages[T]) cell(id uint32) *T { return &p.page(int(id >> pageBits))[id&pageMask] }

// page is the i-th page, which is made if need be.
func (p *pages[T]) page(i int) *page[T] {
	if i >= len(*p) {
		*p = lengthen(*p, i+1)
	}
	at := &(*p)[i]
	if *at == nil {
		*at = new(page[T])
	}
	return *at
}

// clone copies all pages, into one piece of memory.
func (p pages[T]) clone() pages[T] {
	n := 0
	for _, q := range p {
		if q != nil {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	c, room := make(pages[T], len(p)), make([]page[T], n)
	for i, q := range p {
		if q != nil {
			room[0] = *q
			c[i], room = &room[0], room[1:]
		}
	}
	return c
}

// clear makes the values of ids zero.
func clearIDs[T any, ID ~uint32](p pages[T], ids []ID) {
	var zero T
	for _, id := range ids {
		if i := int(id >> pageBits); i < len(p) && p[i] != nil {
			p[i][id&pageMask] = zero
		}
	}
}

// lengthen makes s at least n long.
func lengthen[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(s, make([]T, n-len(s))...)
}
