package configload

import (
	"strings"
)

// typeKey is the key under which JSON and YAML write the type of an Any. The
// expanded Any of the text format, [type.googleapis.com/pkg.Message] {…}, is
// read into the same shape.
const typeKey = "@type"

// parseText reads a file in protobuf's text format, which is the fields of one
// message.
func (l *load) parseText(data []byte) []*node {
	l.visits += len(data)
	r := textReader{cursor: newCursor(data)}
	root := &node{kind: mapNode, textual: true}
	r.space()
	root.line, root.col = r.place()
	r.fields(root, 0, 0)
	if r.err != nil {
		reason := r.err.Error()
		l.fail(r.errLine, r.errCol, "", problem(CodeSyntax, "malformed text format: %s", reason))
		return nil
	}
	if len(root.items) == 0 {
		return nil
	}
	return []*node{root}
}

type textReader struct{ cursor }

func (r *textReader) space() {
	for !r.end() {
		switch c := r.data[r.i]; {
		case strings.IndexByte(" \t\r\n\v\f", c) >= 0:
			r.i++
		case c == '#':
			for !r.end() && r.data[r.i] != '\n' {
				r.i++
			}
		default:
			return
		}
	}
}

// accept takes a character if it is next, and the space after it.
func (r *textReader) accept(c byte) bool {
	if r.end() || r.data[r.i] != c {
		return false
	}
	r.i++
	r.space()
	return true
}

// fields reads fields up to the closing character, 0 meaning the end of the
// file.
func (r *textReader) fields(n *node, closing byte, depth int) {
	if depth > maxDepth {
		r.fail("nested more than %d levels deep", maxDepth)
	}
	for r.err == nil {
		switch {
		case r.end() && closing == 0:
			return
		case closing != 0 && r.accept(closing):
			return
		case !r.end() && r.data[r.i] == '[':
			r.expanded(n, depth)
		default:
			r.field(n, depth)
		}
		if !r.accept(',') {
			r.accept(';')
		}
	}
}

func (r *textReader) field(n *node, depth int) {
	e := entry{}
	e.line, e.col = r.place()
	if e.key = r.word(); e.key == "" {
		r.fail("expected a field name, found %s", r.token())
		return
	}
	r.space()
	colon := r.accept(':')
	e.val = r.value(colon, depth+1)
	n.items = append(n.items, e)
}

// expanded reads [type.googleapis.com/pkg.Message] {…} as the fields of the
// message and an entry with its type.
func (r *textReader) expanded(n *node, depth int) {
	e := entry{key: typeKey}
	e.line, e.col = r.place()
	r.accept('[')
	start := r.i
	for !r.end() && r.data[r.i] != ']' && r.data[r.i] != '\n' {
		r.i++
	}
	url := strings.TrimSpace(string(r.data[start:r.i]))
	if !r.accept(']') {
		r.fail("the type in brackets has no end")
		return
	}
	r.space()
	r.accept(':')
	v := r.value(false, depth+1)
	if r.err != nil {
		return
	}
	e.val = &node{kind: stringNode, text: url, line: e.line, col: e.col}
	if n.get(typeKey) != nil {
		e.first = n.get(typeKey).line
	}
	n.items = append(n.items, e)
	n.items = append(n.items, v.items...)
}

// value reads a value; without a colon before it, it must be a message or a
// list of them.
func (r *textReader) value(colon bool, depth int) *node {
	n := &node{}
	n.line, n.col = r.place()
	switch {
	case r.err != nil:
	case r.end():
		r.fail("unexpected end of the file")
	case r.accept('{'):
		n.kind = mapNode
		r.fields(n, '}', depth)
	case r.accept('<'):
		n.kind = mapNode
		r.fields(n, '>', depth)
	case r.accept('['):
		n.kind = listNode
		r.list(n, colon, depth)
	case !colon:
		r.fail("expected ':' or '{', found %s", r.token())
	default:
		r.scalar(n)
	}
	return n
}

func (r *textReader) list(n *node, colon bool, depth int) {
	if depth > maxDepth {
		r.fail("nested more than %d levels deep", maxDepth)
	}
	if r.accept(']') {
		return
	}
	for r.err == nil {
		if !r.end() && r.data[r.i] == '[' {
			r.fail("a list in a list")
			return
		}
		v := r.value(colon, depth+1)
		n.items = append(n.items, entry{line: v.line, col: v.col, val: v})
		if r.accept(']') {
			return
		}
		if !r.accept(',') {
			r.fail("expected ',' or ']', found %s", r.token())
		}
	}
}

// scalar reads a string (several literals in a row are one), a number or a
// bare word.
func (r *textReader) scalar(n *node) {
	if c := r.data[r.i]; c == '"' || c == '\'' {
		n.kind = stringNode
		var b strings.Builder
		for r.err == nil && !r.end() && (r.data[r.i] == '"' || r.data[r.i] == '\'') {
			r.literal(&b)
			r.space()
		}
		n.text = b.String()
		return
	}
	if r.accept('-') {
		n.text = "-"
	}
	n.kind = identNode
	if r.end() || !isWordStart(r.data[r.i]) {
		n.kind = numberNode
	}
	start := r.i
	for !r.end() && (isWordByte(r.data[r.i]) || n.kind == numberNode && r.numberSign()) {
		r.i++
	}
	if r.i == start {
		r.fail("expected a value, found %s", r.token())
	}
	n.text += string(r.data[start:r.i])
	r.space()
}

// numberSign reports whether the cursor is at a character that only numbers
// contain: a point, or the sign of an exponent.
func (r *textReader) numberSign() bool {
	c := r.data[r.i]
	if c == '.' {
		return true
	}
	return (c == '+' || c == '-') && r.i > 0 && r.data[r.i-1]|0x20 == 'e'
}

func (r *textReader) word() string {
	start := r.i
	if r.end() || !isWordStart(r.data[r.i]) {
		return ""
	}
	for !r.end() && isWordByte(r.data[r.i]) {
		r.i++
	}
	return string(r.data[start:r.i])
}

func isWordStart(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }

func isWordByte(c byte) bool { return isWordStart(c) || '0' <= c && c <= '9' }
