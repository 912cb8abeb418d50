package route

import (
	"strings"
	"unsafe"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// pathIndex finds the routes that can match a path. It yields indices of routes
// in configured order, so that the first whose conditions hold is the match.
type pathIndex struct {
	exact map[string][]uint32
	root  prefixNode
	// folded is the same for routes that do not tell upper from lower case.
	folded *pathIndex
	// rest are the routes that have to be tried for every path.
	rest []uint32
}

// prefixNode is a node of a tree of prefixes whose edges are longer than a
// byte where there is no choice.
type prefixNode struct {
	label  string // the bytes from the parent to here
	first  []byte // the first byte of each child
	kids   []*prefixNode
	routes []uint32 // the routes whose prefix ends here
}

func (x *pathIndex) add(i uint32, p *pathMatcher) {
	if p.fold && (p.kind == pathExact || p.kind == pathPrefix || p.kind == pathSeparated) {
		if x.folded == nil {
			x.folded = &pathIndex{}
		}
		x.folded.insert(i, p)
		return
	}
	x.insert(i, p)
}

func (x *pathIndex) insert(i uint32, p *pathMatcher) {
	switch p.kind {
	case pathExact:
		if x.exact == nil {
			x.exact = map[string][]uint32{}
		}
		x.exact[p.text] = append(x.exact[p.text], i)
	case pathPrefix, pathSeparated:
		n := x.root.insert(p.text)
		n.routes = append(n.routes, i)
	default:
		x.rest = append(x.rest, i)
	}
}

// insert is the node of a prefix, made if need be.
func (n *prefixNode) insert(key string) *prefixNode {
	for key != "" {
		k := strings.IndexByte(string(n.first), key[0])
		if k < 0 {
			kid := &prefixNode{label: key}
			n.first, n.kids = append(n.first, key[0]), append(n.kids, kid)
			return kid
		}
		kid := n.kids[k]
		common := commonPrefix(kid.label, key)
		if common < len(kid.label) {
			upper := &prefixNode{label: kid.label[:common], first: []byte{kid.label[common]}, kids: []*prefixNode{kid}}
			kid.label = kid.label[common:]
			n.kids[k] = upper
			kid = upper
		}
		n, key = kid, key[common:]
	}
	return n
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// maxLists is how many lists of routes are merged; a path with more prefixes
// than that is looked up by trying all routes.
const maxLists = 24

// candidates are lists of routes, each in configured order, to be merged.
type candidates struct {
	lists [maxLists][]uint32
	n     int
	over  bool
}

func (c *candidates) add(list []uint32) {
	if len(list) == 0 {
		return
	}
	if c.n == maxLists {
		c.over = true
		return
	}
	c.lists[c.n] = list
	c.n++
}

// next is the first route of all lists; it is taken out.
func (c *candidates) next() (uint32, bool) {
	best := -1
	for i := range c.n {
		if len(c.lists[i]) > 0 && (best < 0 || c.lists[i][0] < c.lists[best][0]) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	i := c.lists[best][0]
	c.lists[best] = c.lists[best][1:]
	return i, true
}

// collect finds the lists for a path.
func (x *pathIndex) collect(path string, c *candidates) {
	x.find(path, c)
	if x.folded != nil {
		var buf [512]byte
		lower := buf[:0]
		for i := range len(path) {
			lower = append(lower, stringmatch.LowerByte(path[i]))
		}
		// The text is not kept: it lives as long as the call.
		x.folded.find(unsafe.String(unsafe.SliceData(lower), len(lower)), c)
	}
	c.add(x.rest)
}

func (x *pathIndex) find(path string, c *candidates) {
	if x.exact != nil {
		c.add(x.exact[path])
	}
	n := &x.root
	for {
		c.add(n.routes)
		if path == "" {
			return
		}
		k := indexByte(n.first, path[0])
		if k < 0 || !strings.HasPrefix(path, n.kids[k].label) {
			return
		}
		n = n.kids[k]
		path = path[len(n.label):]
	}
}

// indexByte is bytes.IndexByte for lists that are short.
func indexByte(b []byte, c byte) int {
	for i := range b {
		if b[i] == c {
			return i
		}
	}
	return -1
}
