package format

import (
	"errors"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"
)

// JSON is a compiled json_format: an object a line, with sorted keys. A field
// that is one operator has the operator's type, and null for no value. It is
// immutable and safe for concurrent use (AL-03).
type JSON struct {
	root  node
	empty string
	omit  bool
}

// node is a value of a json_format. One of its fields is set.
type node struct {
	members []member // an object
	object  bool
	list    []node
	array   bool
	parts   []part // a text of several parts
	single  *op    // a text of one operator
	literal string // JSON as it is
}

type member struct {
	key   string // quoted, with the colon
	value node
}

// ParseJSON compiles a json_format; errors are in Envoy's words.
func ParseJSON(s *structpb.Struct, o Options) (*JSON, error) {
	root, err := objectNode(s, &o)
	if err != nil {
		return nil, err
	}
	j := &JSON{root: root, empty: "-", omit: o.OmitEmpty}
	if o.OmitEmpty {
		j.empty = ""
	}
	return j, nil
}

func objectNode(s *structpb.Struct, o *Options) (node, error) {
	n := node{object: true}
	keys := make([]string, 0, len(s.GetFields()))
	for k := range s.GetFields() {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		v, err := valueNode(s.GetFields()[k], o)
		if err != nil {
			return n, err
		}
		n.members = append(n.members, member{string(appendQuoted(nil, k)) + ":", v})
	}
	return n, nil
}

func valueNode(v *structpb.Value, o *Options) (node, error) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		return objectNode(k.StructValue, o)
	case *structpb.Value_ListValue:
		n := node{array: true}
		for _, e := range k.ListValue.GetValues() {
			c, err := valueNode(e, o)
			if err != nil {
				return n, err
			}
			n.list = append(n.list, c)
		}
		return n, nil
	case *structpb.Value_StringValue:
		return textNode(k.StringValue, o)
	case *structpb.Value_NumberValue, *structpb.Value_BoolValue:
		return node{literal: string(appendValue(nil, v))}, nil
	case *structpb.Value_NullValue:
		return node{literal: "null"}, nil
	}
	return node{}, errors.New("a field of json_format has no value; give it a text, a number, a boolean, an object or a list")
}

func textNode(text string, o *Options) (node, error) {
	parts, err := split(text, o)
	if err != nil {
		return node{}, err
	}
	switch {
	case len(parts) == 0:
		return node{literal: `""`}, nil
	case len(parts) == 1 && parts[0].op == nil:
		return node{literal: string(appendQuoted(nil, parts[0].literal))}, nil
	case len(parts) == 1 && parts[0].literal == "":
		return node{single: parts[0].op}, nil
	}
	for i := range parts {
		parts[i].literal = string(appendEscaped(nil, parts[i].literal))
	}
	return node{parts: parts}, nil
}

// AppendLog appends the object and a newline.
func (j *JSON) AppendLog(dst []byte, c *Context) []byte {
	n := len(dst)
	dst, _ = j.append(dst, &j.root, c)
	if len(dst) == n {
		dst = append(dst, "{}"...)
	}
	return append(dst, '\n')
}

// append appends a value; false, and nothing, if it is to be left out.
func (j *JSON) append(dst []byte, n *node, c *Context) ([]byte, bool) {
	switch {
	case n.single != nil:
		dst, ok := n.single.appendJSON(dst, c)
		if !ok && !j.omit {
			return append(dst, "null"...), true
		}
		return dst, ok
	case n.literal != "":
		if j.omit && n.literal == "null" {
			return dst, false
		}
		return append(dst, n.literal...), true
	case n.object:
		return j.appendObject(dst, n, c)
	case n.array:
		return j.appendArray(dst, n, c), true
	}
	dst = append(dst, '"')
	for i := range n.parts {
		p := &n.parts[i]
		dst = append(dst, p.literal...)
		if p.op == nil {
			continue
		}
		start := len(dst)
		var ok bool
		if dst, ok = p.op.append(dst, c); ok {
			dst = escapeFrom(dst, start)
		} else {
			dst = append(dst, j.empty...)
		}
	}
	return append(dst, '"'), true
}

// appendObject leaves out an object without members, if values without a value
// are.
func (j *JSON) appendObject(dst []byte, n *node, c *Context) ([]byte, bool) {
	start, some := len(dst), false
	dst = append(dst, '{')
	for i := range n.members {
		m := &n.members[i]
		before := len(dst)
		if some {
			dst = append(dst, ',')
		}
		dst = append(dst, m.key...)
		var ok bool
		if dst, ok = j.append(dst, &m.value, c); !ok {
			dst = dst[:before]
			continue
		}
		some = true
	}
	if j.omit && !some {
		return dst[:start], false
	}
	return append(dst, '}'), true
}

func (j *JSON) appendArray(dst []byte, n *node, c *Context) []byte {
	dst = append(dst, '[')
	some := false
	for i := range n.list {
		before := len(dst)
		if some {
			dst = append(dst, ',')
		}
		var ok bool
		if dst, ok = j.append(dst, &n.list[i], c); !ok {
			dst = dst[:before]
			continue
		}
		some = true
	}
	return append(dst, ']')
}

// appendJSON appends the value with its type; false, and nothing, if there is
// none.
func (o *op) appendJSON(dst []byte, c *Context) ([]byte, bool) {
	n := len(dst)
	switch {
	case o.number != nil:
		if v, ok := o.number(c); ok {
			return strconv.AppendInt(dst, v, 10), true
		}
		return dst, false
	case o.text == nil:
		shown, ok := o.value(dst, c, true)
		if !ok {
			return dst, false
		}
		if !o.cut || o.whole || shown[n] != '"' {
			return shown, true
		}
		// A text: cut it before it is quoted.
	}
	dst = append(dst, '"')
	dst, ok := o.append(dst, c)
	if !ok {
		return dst[:n], false
	}
	return append(escapeFrom(dst, n+1), '"'), true
}
