package configload

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// parseJSON reads a JSON file: one document, or an array of documents. A comma
// after the last element is allowed, as in Envoy's parser (BS-09).
func (l *load) parseJSON(data []byte) []*node {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	l.visits += len(data) // a tree without aliases is no larger than its text
	r := jsonReader{cursor: newCursor(data)}
	r.space()
	if r.end() {
		return nil
	}
	root := r.value(0)
	if r.err == nil {
		r.space()
		if !r.end() {
			r.fail("unexpected %s after the end of the document; put several documents into an array", r.token())
		}
	}
	if r.err != nil {
		l.fail(r.errLine, r.errCol, "", syntaxProblem(r.err.Error(), keyOfLine(data, int(r.errLine))))
		return nil
	}
	return []*node{root}
}

// cursor walks through a text and knows line and column.
type cursor struct {
	data []byte
	i    int
	// markLine, markCol belong to offset mark; they follow i lazily.
	mark              int
	markLine, markCol int32

	err             error // the first error
	errLine, errCol int32
}

func newCursor(data []byte) cursor { return cursor{data: data, markLine: 1, markCol: 1} }

func (c *cursor) end() bool { return c.i >= len(c.data) }

// place is the line and the column, in characters, of the current offset.
func (c *cursor) place() (line, col int32) {
	passed := c.data[c.mark:c.i]
	if n := bytes.Count(passed, []byte("\n")); n > 0 {
		c.markLine += int32(n)
		c.markCol = 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	c.markCol += int32(utf8.RuneCount(passed))
	c.mark = c.i
	return c.markLine, c.markCol
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
		c.errLine, c.errCol = c.place()
	}
}

// token names what stands at the cursor.
func (c *cursor) token() string {
	if c.end() {
		return "end of the file"
	}
	r, _ := utf8.DecodeRune(c.data[c.i:])
	return strconv.QuoteRune(r)
}

type jsonReader struct{ cursor }

func (r *jsonReader) space() {
	for !r.end() {
		switch r.data[r.i] {
		case ' ', '\t', '\r', '\n':
			r.i++
		default:
			return
		}
	}
}

func (r *jsonReader) value(depth int) *node {
	n := &node{}
	n.line, n.col = r.place()
	switch {
	case depth > maxDepth:
		r.fail("nested more than %d levels deep", maxDepth)
	case r.end():
		r.fail("unexpected end of the file")
	case r.data[r.i] == '{':
		n.kind = mapNode
		r.sequence(n, '}', depth)
		markDuplicates(n.items)
	case r.data[r.i] == '[':
		n.kind = listNode
		r.sequence(n, ']', depth)
	case r.data[r.i] == '"':
		n.kind, n.text = stringNode, r.str()
	default:
		r.literal(n)
	}
	return n
}

// sequence reads the inside of an object or an array.
func (r *jsonReader) sequence(n *node, closing byte, depth int) {
	r.i++
	for r.err == nil {
		r.space()
		if !r.end() && r.data[r.i] == closing {
			r.i++
			return
		}
		e := entry{}
		e.line, e.col = r.place()
		if closing == '}' {
			e.key = r.objectKey()
		}
		if r.err == nil {
			e.val = r.value(depth + 1)
			n.items = append(n.items, e)
		}
		r.space()
		switch {
		case r.err != nil:
		case !r.end() && r.data[r.i] == ',':
			r.i++
		case r.end() || r.data[r.i] != closing:
			r.fail("expected ',' or %q, found %s", closing, r.token())
		}
	}
}

func (r *jsonReader) objectKey() string {
	if r.end() || r.data[r.i] != '"' {
		r.fail("expected a key in double quotes, found %s", r.token())
		return ""
	}
	key := r.str()
	r.space()
	if r.err == nil && (r.end() || r.data[r.i] != ':') {
		r.fail("expected ':' after the key, found %s", r.token())
	}
	r.i++
	r.space()
	return key
}

func (r *jsonReader) literal(n *node) {
	start := r.i
	for !r.end() && strings.IndexByte(" \t\r\n,:]}[{\"", r.data[r.i]) < 0 {
		r.i++
	}
	n.text = string(r.data[start:r.i])
	switch n.text {
	case "null":
		n.kind = nullNode
	case "true":
		n.kind = trueNode
	case "false":
		n.kind = falseNode
	default:
		n.kind = numberNode
		if !isJSONNumber(n.text) {
			r.i = start
			r.fail("expected a value, found %s", r.token())
		}
	}
}

func isJSONNumber(s string) bool {
	t := strings.TrimPrefix(s, "-")
	if !isPlainFloat(t) || t[0] < '0' || t[0] > '9' {
		return false
	}
	if len(t) > 1 && t[0] == '0' && '0' <= t[1] && t[1] <= '9' {
		return false
	}
	dot := strings.IndexByte(t, '.')
	return dot < 0 || countDigits(t[dot+1:]) > 0
}

// str reads a string. Most have no escapes and are copied whole.
func (r *jsonReader) str() string {
	r.i++
	start := r.i
	var buf []byte
	for !r.end() {
		switch c := r.data[r.i]; {
		case c == '"':
			s := string(append(buf, r.data[start:r.i]...))
			if !utf8.ValidString(s) {
				r.fail("the string is not valid UTF-8")
			}
			r.i++
			return s
		case c < 0x20:
			r.fail("control character %U in a string; write it as an escape", c)
			return ""
		case c == '\\':
			buf = append(buf, r.data[start:r.i]...)
			buf = r.escape(buf)
			start = r.i
			if r.err != nil {
				return ""
			}
		default:
			r.i++
		}
	}
	r.fail("the string has no end")
	return ""
}

// escape reads one escape sequence.
func (r *jsonReader) escape(buf []byte) []byte {
	r.i++
	if r.end() {
		r.fail("the string has no end")
		return buf
	}
	c := r.data[r.i]
	if c == 'u' {
		return r.unicodeEscape(buf)
	}
	plain := strings.IndexByte(`"\/bfnrt`, c)
	if plain < 0 {
		r.fail("unknown escape \\%c in a string", c)
		return buf
	}
	r.i++
	return append(buf, "\"\\/\b\f\n\r\t"[plain])
}

func (r *jsonReader) unicodeEscape(buf []byte) []byte {
	u, ok := r.hex4()
	if ok && utf16.IsSurrogate(u) {
		var low rune
		if ok = bytes.HasPrefix(r.data[r.i:], []byte(`\u`)); ok {
			r.i++
			low, ok = r.hex4()
		}
		u = utf16.DecodeRune(u, low)
		ok = ok && u != utf8.RuneError
	}
	if !ok {
		r.fail("malformed \\u escape in a string")
		return buf
	}
	return utf8.AppendRune(buf, u)
}

// hex4 reads the four digits after the letter u at the cursor.
func (r *jsonReader) hex4() (rune, bool) {
	if r.i+5 > len(r.data) {
		return 0, false
	}
	u, err := strconv.ParseUint(string(r.data[r.i+1:r.i+5]), 16, 16)
	r.i += 5
	return rune(u), err == nil
}
