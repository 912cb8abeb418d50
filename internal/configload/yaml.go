package configload

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	ignoreTag = "!ignore"
	mergeTag  = "!!merge"
)

// parseYAML reads the documents of a YAML file. Each is parsed on its own, so
// that a malformed one does not hide the others.
func (l *load) parseYAML(data []byte) []*node {
	var docs []*node
	for _, c := range splitYAML(data) {
		root, p := decodeYAML(c.text)
		if p != nil {
			l.fail(int32(p.line+c.line), 0, "", p.problem(c.text))
			continue
		}
		if root == nil {
			continue
		}
		v := yamlReader{line: c.line, merges: baseVisits, done: map[*yaml.Node]*node{}}
		n := v.value(root, 0)
		l.visits += aliasFactor * v.count
		docs = append(docs, n)
	}
	return docs
}

// yamlReader turns the nodes of one YAML document into ours. Anchors are
// converted once and shared by their aliases.
type yamlReader struct {
	line   int // lines before the document
	count  int // nodes written in the document
	merges int // entries that merge keys may still bring in
	done   map[*yaml.Node]*node
}

func (r *yamlReader) bad(y *yaml.Node, format string, args ...any) *node {
	return &node{kind: badNode, text: fmt.Sprintf(format, args...), line: int32(y.Line + r.line), col: int32(y.Column)}
}

// value converts a node. Anchored nodes are in done: as nil while they are
// being converted, so that an alias inside its own anchor is found.
func (r *yamlReader) value(y *yaml.Node, depth int) *node {
	if depth > maxDepth {
		return r.bad(y, "nested more than %d levels deep", maxDepth)
	}
	if y.Kind == yaml.AliasNode {
		return r.alias(y, depth)
	}
	if y.Anchor == "" {
		return r.plain(y, depth)
	}
	if n := r.done[y]; n != nil {
		return n
	}
	r.done[y] = nil
	n := r.plain(y, depth)
	r.done[y] = n
	return n
}

func (r *yamlReader) alias(y *yaml.Node, depth int) *node {
	if n, ok := r.done[y.Alias]; ok {
		if n == nil {
			return r.bad(y, "alias *%s stands inside its own anchor", y.Value)
		}
		return n
	}
	return r.value(y.Alias, depth)
}

func (r *yamlReader) plain(y *yaml.Node, depth int) *node {
	r.count++
	n := &node{line: int32(y.Line + r.line), col: int32(y.Column)}
	if tag := unknownTag(y); tag != "" {
		if tag == ignoreTag {
			return r.bad(y, "tag !ignore belongs before the key, not before its value")
		}
		return r.bad(y, "unknown tag %s", clip(tag))
	}
	switch y.Kind {
	case yaml.DocumentNode:
		return r.value(y.Content[0], depth)
	case yaml.ScalarNode:
		n.kind, n.text = yamlScalar(y)
	case yaml.SequenceNode:
		n.kind = listNode
		n.items = make([]entry, 0, len(y.Content))
		for _, c := range y.Content {
			v := r.value(c, depth+1)
			n.items = append(n.items, entry{line: int32(c.Line + r.line), col: int32(c.Column), val: v})
		}
	case yaml.MappingNode:
		n.kind = mapNode
		r.mapping(y, n, depth)
	}
	return n
}

// unknownTag is the explicit tag of a node if it is not one of YAML's own.
func unknownTag(y *yaml.Node) string {
	if y.Style&yaml.TaggedStyle == 0 || strings.HasPrefix(y.Tag, "!!") {
		return ""
	}
	return y.Tag
}

func (r *yamlReader) mapping(y *yaml.Node, n *node, depth int) {
	n.items = make([]entry, 0, len(y.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		switch {
		case k.Style&yaml.TaggedStyle != 0 && k.Tag == ignoreTag:
			// Anchors inside are converted when an alias asks for them (BS-11).
		case k.Kind == yaml.ScalarNode && k.Tag == mergeTag:
			merges = append(merges, v)
		default:
			n.items = append(n.items, r.entry(k, v, depth))
		}
	}
	markDuplicates(n.items)
	for _, m := range merges {
		r.merge(m, n, depth)
	}
}

func (r *yamlReader) entry(k, v *yaml.Node, depth int) entry {
	r.count++
	e := entry{line: int32(k.Line + r.line), col: int32(k.Column)}
	if k.Kind == yaml.AliasNode {
		k = k.Alias
	}
	if k.Kind != yaml.ScalarNode {
		e.key, e.val = "?", r.bad(k, "a key must be a scalar")
		return e
	}
	e.key, e.val = k.Value, r.value(v, depth+1)
	return e
}

// merge adds the entries of a merge key's value that are not there yet; a
// mapping earlier in a list of mappings wins over a later one.
func (r *yamlReader) merge(m *yaml.Node, n *node, depth int) {
	src := r.value(m, depth+1)
	from := []entry{{val: src}}
	if src.kind == listNode {
		from = src.items
	}
	have := make(map[string]bool, len(n.items))
	for _, e := range n.items {
		have[e.key] = true
	}
	for _, f := range from {
		if f.val.kind != mapNode {
			n.items = append(n.items, entry{key: "<<", line: int32(m.Line + r.line), col: int32(m.Column), val: mergeProblem(f.val)})
			return
		}
		for _, e := range f.val.items {
			if r.merges--; r.merges < 0 {
				bad := r.bad(m, "merge keys bring in more than %d entries", baseVisits)
				n.items = append(n.items, entry{key: "<<", line: bad.line, col: bad.col, val: bad})
				return
			}
			if have[e.key] {
				continue
			}
			have[e.key] = true
			e.merged = true
			n.items = append(n.items, e)
		}
	}
}

func mergeProblem(n *node) *node {
	if n.kind == badNode {
		return n
	}
	return &node{kind: badNode, text: "the value of a merge key must be a mapping or a list of mappings", line: n.line, col: n.col}
}

// yamlScalar types a scalar as Envoy does (BS-10).
func yamlScalar(y *yaml.Node) (kind, string) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if y.Style&yaml.TaggedStyle != 0 {
		if slices.Contains([]string{"!!int", "!!float", "!!bool", "!!null"}, y.Tag) {
			return plainScalar(y.Value)
		}
		return stringNode, y.Value
	}
	if y.Style&quoted != 0 {
		return stringNode, y.Value
	}
	return plainScalar(y.Value)
}
