package configload

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// builder makes one message from a tree, walking along its descriptor.
type builder struct {
	*load
	text          bool // the tree comes from the text format
	typeURL, name string
	path          []frame
	depth         int
	failed        bool
	exhausted     bool
	inV2          int // how many messages of v2 are around
	warnings      []*xds.ResourceError
	// line, col is the place of a message that came encoded, 0 in a binary file.
	line, col int32
}

func (l *load) builder(typeURL, name string) *builder {
	return &builder{load: l, typeURL: typeURL, name: name}
}

// fail reports a problem at a node.
func (b *builder) fail(n *node, p *Problem) { b.failAt(n.line, n.col, p) }

func (b *builder) failAt(line, col int32, p *Problem) {
	b.failed = true
	b.add(b.problemAt(line, col, p))
}

func (b *builder) warnAt(line, col int32, p *Problem) {
	b.warnings = append(b.warnings, b.problemAt(line, col, p))
}

func (b *builder) problemAt(line, col int32, p *Problem) *xds.ResourceError {
	return &xds.ResourceError{Type: b.typeURL, Name: b.name, Path: b.pathString(), Pos: b.pos(line, col), Err: p}
}

// visit counts a node against the file's allowance, which only repeated
// aliases can use up, and reports whether to go on.
func (b *builder) visit(n *node) bool {
	b.visits--
	if b.visits >= 0 {
		return true
	}
	if !b.exhausted {
		b.exhausted = true
		b.fail(n, problem(CodeTooLarge, "the file's aliases expand to too many values").
			hint("write the repeated parts as resources of their own, or split the file"))
	}
	b.failed = true
	return false
}

// message fills m from a node. Where m is of a well-known type, the node may
// have its JSON form.
func (b *builder) message(n *node, m protoreflect.Message, at *place) {
	if !b.visit(n) {
		return
	}
	if b.depth++; b.depth > maxDepth {
		b.fail(n, problem(CodeTooLarge, "nested more than %d levels deep", maxDepth))
	} else {
		b.messageForm(n, m, at)
	}
	b.depth--
}

func (b *builder) messageForm(n *node, m protoreflect.Message, at *place) {
	name := m.Descriptor().FullName()
	switch {
	case n.kind == badNode:
		b.fail(n, problem(CodeInvalidValue, "%s", n.text))
	case name == anyName:
		b.any(n, m, at)
	case !b.text && strings.HasPrefix(string(name), wellKnownPrefix) && b.wellKnown(n, m, at):
	case n.kind != mapNode:
		b.fail(n, problem(CodeInvalidValue, "expected a mapping with the fields of %s, got %s", name, n.kind))
	default:
		if name == clusterName {
			n = b.upgradeHosts(n)
		}
		if b.inV2 > 0 {
			n = sourceVersion(name, n)
		}
		b.fields(n, m, at)
	}
}

// fields sets the fields of m from a mapping's entries.
func (b *builder) fields(n *node, m protoreflect.Message, at *place) {
	md := m.Descriptor()
	var set []protoreflect.FieldNumber
	at.kids = make([]place, 0, len(n.items))
	for i := range n.items {
		e := &n.items[i]
		fd := b.lookup(md, e.key)
		if fd == nil || b.inV2 > 0 { // v3 has given a few names of v2 to others
			if up, now := b.upgrade(md, n, e); now != nil {
				e, fd = up, now
			}
		}
		if fd == nil {
			b.unknownField(md, e)
			continue
		}
		b.push(frame{fd: fd})
		if b.mayset(fd, m, e, &set) {
			b.field(fd, e, m, at)
		}
		b.pop()
	}
}

// lookup finds a field by its proto name or, outside the text format, by its
// JSON name.
func (b *builder) lookup(md protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	fds := md.Fields()
	if fd := fds.ByName(protoreflect.Name(key)); fd != nil {
		return fd
	}
	if b.text {
		return nil
	}
	return fds.ByJSONName(key)
}

// mayset reports whether an entry may set its field, and what stands against
// it: the field was set before, or another one of its oneof.
func (b *builder) mayset(fd protoreflect.FieldDescriptor, m protoreflect.Message, e *entry, set *[]protoreflect.FieldNumber) bool {
	if b.text && (fd.IsList() || fd.IsMap()) {
		return true
	}
	if e.first != 0 && !b.text {
		b.failAt(e.line, e.col, problem(CodeDuplicateKey, "duplicate key %q, first on line %d", clip(e.key), e.first))
		return false
	}
	for _, n := range *set {
		if n == fd.Number() {
			if !e.merged {
				b.failAt(e.line, e.col, problem(CodeDuplicateKey, "field %q is set twice", fd.Name()))
			}
			return false
		}
	}
	*set = append(*set, fd.Number())
	if e.val.kind == nullNode {
		return true
	}
	if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() {
		if other := m.WhichOneof(od); other != nil {
			b.failAt(e.line, e.col, problem(CodeInvalidValue, "%q and %q are both set, but only one of %s can be",
				other.Name(), fd.Name(), od.Name()))
			return false
		}
	}
	return true
}

// field sets one field.
func (b *builder) field(fd protoreflect.FieldDescriptor, e *entry, m protoreflect.Message, at *place) {
	var here *place
	if b.text {
		here = at.field(string(fd.Name()), e.line, e.col)
	} else {
		here = at.add(string(fd.Name()), 0, e.line, e.col)
	}
	n := e.val
	switch {
	case !b.visit(n):
	case n.kind == nullNode && !takesNull(fd):
		// As in JSON, null leaves the field unset.
	case fd.IsMap():
		b.mapField(fd, n, m.Mutable(fd).Map(), here)
	case fd.IsList():
		b.list(fd, n, m.Mutable(fd).List(), here)
	case fd.Message() != nil:
		b.message(n, m.Mutable(fd).Message(), here)
	default:
		if v, ok := b.scalar(fd, n); ok {
			m.Set(fd, v)
		}
	}
}

// takesNull reports whether null is a value of a singular field.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if fd.IsList() || fd.IsMap() {
		return false
	}
	return isNullable(fd)
}

// isNullable reports whether null is a value of a field's element type.
func isNullable(fd protoreflect.FieldDescriptor) bool {
	if md := fd.Message(); md != nil {
		return md.FullName() == valueName
	}
	return fd.Enum() != nil && fd.Enum().FullName() == nullValueName
}

// list appends a node's elements. A single element stands for a list of one
// (BS-09).
func (b *builder) list(fd protoreflect.FieldDescriptor, n *node, l protoreflect.List, at *place) {
	elements := n.elements()
	if at.kids == nil {
		at.kids = make([]place, 0, len(elements))
	}
	for i := range elements {
		e := &elements[i]
		index := l.Len()
		b.push(frame{index: index})
		here := at.add("", index, e.line, e.col)
		switch {
		case e.val.kind == nullNode && !isNullable(fd):
			b.fail(e.val, problem(CodeInvalidValue, "a list element must not be null"))
			l.Append(l.NewElement()) // keeps the indices of the others right
		case fd.Message() != nil:
			v := l.NewElement()
			b.message(e.val, v.Message(), here)
			l.Append(v)
		default:
			v, ok := b.scalar(fd, e.val)
			if !ok || !b.visit(e.val) {
				v = l.NewElement()
			}
			l.Append(v)
		}
		b.pop()
	}
}

// mapField sets a map's entries.
func (b *builder) mapField(fd protoreflect.FieldDescriptor, n *node, m protoreflect.Map, at *place) {
	if b.text {
		for _, e := range n.elements() {
			b.textMapEntry(fd, e.val, m, at)
		}
		return
	}
	if n.kind != mapNode {
		b.fail(n, problem(CodeInvalidValue, "expected a mapping, got %s", n.kind))
		return
	}
	for i := range n.items {
		b.mapEntry(fd, &n.items[i], m, at)
	}
}

func (b *builder) mapEntry(fd protoreflect.FieldDescriptor, e *entry, m protoreflect.Map, at *place) {
	b.push(frame{key: e.key, isKey: true})
	defer b.pop()
	k, ok := b.mapKey(fd.MapKey(), e)
	switch {
	case !ok:
	case e.first != 0:
		b.failAt(e.line, e.col, problem(CodeDuplicateKey, "duplicate key %q, first on line %d", clip(e.key), e.first))
	case m.Has(k):
		b.failAt(e.line, e.col, problem(CodeDuplicateKey, "key %q is set twice", clip(e.key)))
	case e.val.kind == nullNode && !isNullable(fd.MapValue()):
		b.fail(e.val, problem(CodeInvalidValue, "the value of a map entry must not be null"))
	default:
		b.mapValue(fd.MapValue(), k, e.val, m, at.add(e.key, 0, e.line, e.col))
	}
}

// mapKey reads an entry's key as the key type of its map.
func (b *builder) mapKey(fd protoreflect.FieldDescriptor, e *entry) (protoreflect.MapKey, bool) {
	n := &node{kind: stringNode, text: e.key, line: e.line, col: e.col}
	if fd.Kind() == protoreflect.BoolKind {
		switch e.key {
		case "true":
			n.kind = trueNode
		case "false":
			n.kind = falseNode
		}
	}
	v, ok := b.scalar(fd, n)
	if !ok {
		return protoreflect.MapKey{}, false
	}
	return v.MapKey(), true
}

func (b *builder) mapValue(fd protoreflect.FieldDescriptor, k protoreflect.MapKey, n *node, m protoreflect.Map, here *place) {
	if fd.Message() != nil {
		v := m.NewValue()
		b.message(n, v.Message(), here)
		m.Set(k, v)
		return
	}
	if v, ok := b.scalar(fd, n); ok && b.visit(n) {
		m.Set(k, v)
	}
}

// textMapEntry sets one entry of a map from the message that the text format
// writes for it.
func (b *builder) textMapEntry(fd protoreflect.FieldDescriptor, n *node, m protoreflect.Map, at *place) {
	if n.kind != mapNode {
		b.fail(n, problem(CodeInvalidValue, "expected a map entry {key: … value: …}, got %s", n.kind))
		return
	}
	key := &entry{line: n.line, col: n.col, val: &node{kind: stringNode}}
	value := &node{kind: mapNode, line: n.line, col: n.col}
	set := map[string]bool{}
	for i := range n.items {
		e := &n.items[i]
		if set[e.key] || e.key != "key" && e.key != "value" {
			b.failAt(e.line, e.col, problem(CodeInvalidValue, "a map entry is {key: … value: …}, once each"))
			return
		}
		set[e.key] = true
		if e.key == "key" {
			key.val = e.val
		} else {
			value = e.val
		}
	}
	b.setTextMapEntry(fd, key, value, set, m, at)
}

func (b *builder) setTextMapEntry(fd protoreflect.FieldDescriptor, key *entry, value *node, set map[string]bool, m protoreflect.Map, at *place) {
	k := fd.MapKey().Default().MapKey()
	if set["key"] {
		v, ok := b.scalar(fd.MapKey(), key.val)
		if !ok {
			return
		}
		k = v.MapKey()
	}
	b.push(frame{key: k.String(), isKey: true})
	defer b.pop()
	here := at.add(k.String(), 0, key.line, key.col)
	if !set["value"] && fd.MapValue().Message() == nil {
		m.Set(k, m.NewValue())
		return
	}
	b.mapValue(fd.MapValue(), k, value, m, here)
}
