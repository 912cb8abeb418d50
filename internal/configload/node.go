package configload

import "slices"

// kind is what a node of the tree is.
type kind uint8

const (
	nullNode kind = iota
	falseNode
	trueNode
	numberNode
	stringNode
	identNode // a bare word of the text format
	listNode
	mapNode
	badNode // something that cannot be used; text says why
)

func (k kind) String() string {
	return [...]string{
		"null", "a boolean", "a boolean", "a number", "a string", "a word", "a list", "a mapping", "nothing usable",
	}[k]
}

// node is one value of a parsed file. Nodes are immutable after parsing, so an
// alias in YAML shares the node of its anchor.
type node struct {
	kind      kind
	textual   bool // set on the root of a text-format file
	line, col int32
	// text is a scalar's content: a number as strconv reads it, a boolean as it
	// was written.
	text string
	// items are a mapping's entries, or a list's elements (without keys).
	items []entry
}

// entry is one entry of a mapping or one element of a list.
type entry struct {
	key       string
	line, col int32 // of the key, or of the element
	first     int32 // line of the same key's first entry, if this is a duplicate
	merged    bool  // came in by a YAML merge key, so it yields to written ones
	val       *node
}

// get finds a mapping's first entry with one of the keys.
func (n *node) get(keys ...string) *entry {
	for i := range n.items {
		if slices.Contains(keys, n.items[i].key) {
			return &n.items[i]
		}
	}
	return nil
}

// without is a mapping less the entries of some keys.
func (n *node) without(keys ...string) *node {
	c := *n
	c.items = make([]entry, 0, len(n.items))
	for _, e := range n.items {
		if !slices.Contains(keys, e.key) {
			c.items = append(c.items, e)
		}
	}
	return &c
}

// elements is a list's elements, or the node itself as the only one: Envoy
// takes a single element in place of a list (BS-09).
func (n *node) elements() []entry {
	switch n.kind {
	case listNode:
		return n.items
	case nullNode:
		return nil
	}
	return []entry{{line: n.line, col: n.col, val: n}}
}

// smallMapping is up to how many entries duplicates are found by comparing all
// pairs, which beats building an index.
const smallMapping = 16

// markDuplicates notes on each repeated key where it stood first.
func markDuplicates(items []entry) {
	if len(items) <= smallMapping {
		for i := range items {
			for j := range i {
				if items[j].key == items[i].key {
					items[i].first = items[j].line
					break
				}
			}
		}
		return
	}
	lines := make(map[string]int32, len(items))
	for i := range items {
		if line, ok := lines[items[i].key]; ok {
			items[i].first = line
		} else {
			lines[items[i].key] = items[i].line
		}
	}
}
