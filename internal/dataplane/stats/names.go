package stats

import (
	"slices"
	"strings"
	"sync/atomic"
)

// A name is kept as two parts, cut behind its last dot: the prefix, which is that
// of a node, and the leaf. What there is a lot of has the same leaves everywhere:
// a family of them is kept once, and each node that has it has a block of numbers.

// leaf is the last part of a name.
type leaf struct {
	name string
	unit Unit // of a histogram
	gone bool // not listed any more, while others of the block are
}

// family is leaves of one node, by kind and in the order of their numbers.
// Immutable.
type family struct {
	leaves [kinds][]leaf
	index  [kinds]map[string]uint16 // nil in a loose block
}

func newFamily(leaves [kinds][]leaf) *family {
	f := &family{leaves: leaves}
	for k, list := range leaves {
		f.index[k] = make(map[string]uint16, len(list))
		for i, l := range list {
			if !l.gone {
				f.index[k][l.name] = uint16(i)
			}
		}
	}
	return f
}

func (f *family) size() (n int) {
	for _, list := range f.leaves {
		n += len(list)
	}
	return n
}

// node is a prefix that names have. Guarded by the registry.
type node struct {
	prefix string // ends in a dot unless empty
	blocks *block // of families
	loose  *loose // nil if there are none
}

// loose are the names of a node that were registered one by one.
type loose struct {
	ids  map[looseName]uint32
	open [kinds]*block // that has room, perhaps
	by   [kinds]*owner // of those
}

type looseName struct {
	kind kind
	leaf string
}

// find is the number of a name.
func (n *node) find(k kind, name string) (uint32, bool) {
	for b := n.blocks; b != nil; b = b.next {
		if i, ok := b.names.Load().index[k][name]; ok {
			return b.first[k] + uint32(i), true
		}
	}
	if n.loose == nil {
		return 0, false
	}
	id, ok := n.loose.ids[looseName{k, name}]
	return id, ok
}

func (n *node) empty() bool { return n.blocks == nil && (n.loose == nil || len(n.loose.ids) == 0) }

// overlaps reports whether the node has a name of a family.
func (n *node) overlaps(f *family) bool {
	if n.empty() {
		return false
	}
	for k, list := range f.leaves {
		for i := range list {
			if _, ok := n.find(kind(k), list[i].name); ok {
				return true
			}
		}
	}
	return false
}

// block is the numbers of a family in a node, those of each kind in a row. A
// loose one has numbers of one kind, a page at most, and gets more leaves.
type block struct {
	node   *node
	names  atomic.Pointer[family]
	first  [kinds]uint32
	next   *block // of the node
	own    *owner // who registered the names, or nil
	guests []guest
	labels atomic.Pointer[[]atomic.Pointer[labels]]
}

func (b *block) loose() bool { return b.names.Load().index[kindCounter] == nil }

// metric is one statistic: its name and what goes with that. A snapshot's reader
// may have it although it is not listed any more.
type metric struct {
	b    *block
	kind kind
	i    uint32 // among those of the kind
}

func (m metric) leaf() leaf { return m.b.names.Load().leaves[m.kind][m.i] }

// name is the name in one piece, which is made.
func (m metric) name() string { return m.b.node.prefix + m.leaf().name }

func (m metric) appendName(b []byte) []byte {
	return append(append(b, m.b.node.prefix...), m.leaf().name...)
}

// labelled is where what the name says is kept.
func (m metric) labelled() *atomic.Pointer[labels] {
	all := m.b.labels.Load()
	if all == nil {
		n := pageSize
		if !m.b.loose() {
			n = m.b.names.Load().size()
		}
		made := make([]atomic.Pointer[labels], n)
		m.b.labels.CompareAndSwap(nil, &made)
		all = m.b.labels.Load()
	}
	at := m.i
	if !m.b.loose() {
		for _, list := range m.b.names.Load().leaves[:m.kind] {
			at += uint32(len(list))
		}
	}
	return &(*all)[at]
}

// compareNames orders by the whole name.
func compareNames(a, b metric) int {
	if a.b.node == b.b.node {
		return strings.Compare(a.leaf().name, b.leaf().name)
	}
	p, q := a.b.node.prefix, b.b.node.prefix
	n := min(len(p), len(q))
	if c := strings.Compare(p[:n], q[:n]); c != 0 {
		return c
	}
	return comparePairs(p[n:], a.leaf().name, q[n:], b.leaf().name)
}

// comparePairs compares p+a with q+b, where p or q is empty.
func comparePairs(p, a, q, b string) int {
	if p == "" && q == "" {
		return strings.Compare(a, b)
	}
	if p == "" {
		return -comparePairs(q, b, p, a)
	}
	n := min(len(p), len(b))
	if c := strings.Compare(p[:n], b[:n]); c != 0 {
		return c
	}
	if n < len(p) { // b is a part of p
		return 1
	}
	return strings.Compare(a, b[n:])
}

// locate is the key of the node that a name below a prefix has, and the leaf.
func locate(buf []byte, prefix, name string) (key []byte, leaf string) {
	dot := strings.LastIndexByte(name, '.') + 1
	return append(append(buf, prefix...), name[:dot]...), name[dot:]
}

// node is the one of a prefix, made if need be. r.mu is held.
func (r *Registry) node(key []byte) *node {
	n := r.nodes[string(key)]
	if n == nil {
		n = &node{prefix: string(key)}
		r.nodes[n.prefix] = n
	}
	return n
}

// one registers a single name. r.mu is held.
func (r *Registry) one(n *node, k kind, l leaf, own *owner) uint32 {
	if n.loose == nil {
		n.loose = &loose{ids: make(map[looseName]uint32)}
	}
	b := n.loose.open[k]
	if b == nil || len(b.names.Load().leaves[k]) == pageSize || n.loose.by[k] != own {
		b = &block{node: n, own: own}
		b.names.Store(&family{})
		b.first[k] = r.ids[k].take(b, pageSize)
		n.loose.open[k], n.loose.by[k] = b, own
		own.took(b)
	}
	was := b.names.Load()
	next := &family{}
	next.leaves[k] = append(slices.Clip(was.leaves[k]), l)
	b.names.Store(next)
	id := b.first[k] + uint32(len(was.leaves[k]))
	n.loose.ids[looseName{k, l.name}] = id
	r.listed[k]++
	return id
}

// block registers a family below a prefix. It is nil if that has to be done name
// by name. r.mu is held.
func (r *Registry) block(key []byte, f *family, own *owner) *block {
	n := r.nodes[string(key)]
	if n != nil {
		for b := n.blocks; b != nil; b = b.next {
			if b.names.Load() == f {
				b.visit(guest{own: own, all: true})
				return b
			}
		}
	}
	if own != nil && own.gone || r.conf.matcher.active() || n != nil && n.overlaps(f) {
		return nil
	}
	n = r.node(key)
	b := &block{node: n, next: n.blocks, own: own}
	b.names.Store(f)
	for k, list := range f.leaves {
		if len(list) > 0 {
			b.first[k] = r.ids[k].take(b, len(list))
			r.listed[k] += len(list)
		}
	}
	n.blocks = b
	own.took(b)
	return b
}

// remove takes the names of a block away. Snapshots have the lists of blocks, so
// these are the caller's own. r.mu is held.
func (r *Registry) remove(b *block, lists *[kinds][]*block) {
	n, f := b.node, b.names.Load()
	for k, list := range f.leaves {
		if len(list) == 0 {
			continue
		}
		for i := b.first[k] >> pageBits; i <= (b.first[k]+uint32(len(list))-1)>>pageBits; i++ {
			lists[k][i] = nil
		}
		for _, l := range list {
			r.unlist(b, kind(k), l)
		}
	}
	for at := &n.blocks; *at != nil; at = &(*at).next {
		if *at == b {
			*at = b.next
			break
		}
	}
	if n.empty() {
		delete(r.nodes, n.prefix)
	}
}

// unlist takes one name of a block away. r.mu is held.
func (r *Registry) unlist(b *block, k kind, l leaf) {
	if l.gone {
		return
	}
	r.listed[k]--
	if !b.loose() {
		return
	}
	n := b.node.loose
	delete(n.ids, looseName{k, l.name})
	if n.open[k] == b {
		n.open[k], n.by[k] = nil, nil
	}
}

// numbers hands out the ids of a kind, and knows whose they are.
type numbers struct {
	blocks       []*block // by page; nil where there are no names
	hidden, left uint32   // the next id without a name, and how many there are
}

// newNumbers leaves out the first page, whose id 0 is of what is rejected.
func newNumbers() numbers { return numbers{blocks: make([]*block, 1)} }

// take gives a block n ids in a row, and the rest of their last page.
func (x *numbers) take(b *block, n int) (first uint32) {
	first = uint32(len(x.blocks)) << pageBits
	for range (n + pageSize - 1) >> pageBits {
		x.blocks = append(x.blocks, b)
	}
	return first
}

// nameless gives an id that has no name.
func (x *numbers) nameless() uint32 {
	if x.left == 0 {
		x.hidden, x.left = x.take(nil, pageSize), pageSize
	}
	x.left--
	x.hidden++
	return x.hidden - 1
}
