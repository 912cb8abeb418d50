package http2

import "github.com/xebec-proxy/xebec/filter/header"

// goodLists are lists that a decoder fills headers with (hpack.Lists), and that
// were found to be in order: with nothing but ordinary fields behind them, they
// need no other look. They are requests that are no CONNECT, or responses with
// status 200, which say nothing of the length of a body.
type goodLists struct {
	lists [4]*header.Frozen
	next  uint8 // to be forgotten
}

// allow reports whether a head that just came begins with a list in order, and
// only ordinary fields follow.
func (g *goodLists) allow(m *header.Map) bool {
	f, touched := m.Thawed()
	return f != nil && touched == 0 && g.has(f) && ordinary(m, f.Len())
}

func (g *goodLists) has(f *header.Frozen) bool {
	for _, l := range g.lists {
		if l == f {
			return true
		}
	}
	return false
}

// ordinary reports whether all fields from an index on are of no meaning to HTTP/2.
func ordinary(m *header.Map, from int) bool {
	fields := m.Fields()
	for i := from; i < len(fields); i++ {
		switch id := fields[i].ID(); {
		case id == header.Other:
		case id <= header.TE, id == header.Cookie, id == header.ContentLength:
			return false
		}
	}
	return true
}

// learn remembers the list that a head in order begins with, if that has its
// pseudo-headers and no field of which it matters what follows.
func (g *goodLists) learn(m *header.Map, pseudo ...header.ID) {
	f, touched := m.Thawed()
	if f == nil || touched != 0 || m.HasID(header.ContentLength) || g.has(f) {
		return
	}
	for _, id := range pseudo {
		if i := m.IndexID(id); i < 0 || i >= f.Len() {
			return
		}
	}
	g.lists[g.next%uint8(len(g.lists))] = f
	g.next++
}
