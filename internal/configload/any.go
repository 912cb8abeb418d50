package configload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	udpaTypedStruct protoreflect.FullName = "udpa.type.v1.TypedStruct"
	xdsTypedStruct  protoreflect.FullName = "xds.type.v3.TypedStruct"
)

func isTypedStruct(name protoreflect.FullName) bool {
	return name == udpaTypedStruct || name == xdsTypedStruct
}

// any fills a google.protobuf.Any. Its type alone picks the message (BS-12).
func (b *builder) any(n *node, m protoreflect.Message, at *place) {
	if n.kind != mapNode {
		b.fail(n, problem(CodeInvalidValue, "expected a mapping with @type, got %s", n.kind))
		return
	}
	e := n.get(typeKey)
	if e == nil && b.text && n.get("type_url", "value") != nil {
		b.fields(n, m, at)
		b.checkAny(n, m)
		return
	}
	if e == nil && len(n.items) == 0 && b.bareFilterConfig() {
		return
	}
	if e == nil {
		p := problem(CodeMissingType, "an extension's configuration needs an @type")
		if n.get("type_url", "typeUrl") != nil {
			p = p.hint("write type_url as \"@type\"")
		} else {
			p = p.hint("add \"@type\": type.googleapis.com/<message>")
		}
		b.fail(n, p)
		return
	}
	if b.keepsUnknown(e, m) {
		return
	}
	mt, url := b.anyType(n, e)
	if mt == nil {
		return
	}
	body := n.without(typeKey)
	inner := mt.New()
	if url != e.val.text {
		b.readAsV3(e.val, url)
		b.inV2++
		defer func() { b.inV2-- }()
	}
	switch {
	case isTypedStruct(mt.Descriptor().FullName()):
		inner, url = b.typedStruct(body, inner, url, at)
	case !b.text && hasOwnJSON(mt.Descriptor().FullName()):
		b.anyValue(body, inner, at)
	default:
		b.message(body, inner, at)
	}
	if inner != nil && !b.failed {
		b.pack(n, m, url, inner)
	}
}

// bareFilterConfig reports that the Any is the config of a FilterConfig, which may
// be empty: it turns a filter on that is off by default (HF-11).
func (b *builder) bareFilterConfig() bool {
	if len(b.path) == 0 {
		return false
	}
	fd := b.path[len(b.path)-1].fd
	return fd != nil && fd.FullName() == "envoy.config.route.v3.FilterConfig.config"
}

// keepsUnknown keeps the type URL of an Any whose type is not linked in, if the
// caller wants that.
func (b *builder) keepsUnknown(e *entry, m protoreflect.Message) bool {
	if !b.loader.KeepUnknownTypes || e.val.kind != stringNode || e.first != 0 {
		return false
	}
	if _, p := b.resolve(e.val.text); p == nil || p.Code != CodeUnknownType || !strings.Contains(e.val.text, "/") {
		return false
	}
	m.Set(m.Descriptor().Fields().ByNumber(1), protoreflect.ValueOfString(e.val.text))
	return true
}

// anyType resolves the type of an Any from its @type entry.
func (b *builder) anyType(n *node, e *entry) (protoreflect.MessageType, string) {
	for i := range n.items {
		if n.items[i].key == typeKey && n.items[i].first != 0 {
			b.failAt(n.items[i].line, n.items[i].col,
				problem(CodeDuplicateKey, "duplicate key %q, first on line %d", typeKey, n.items[i].first))
			return nil, ""
		}
	}
	if e.val.kind != stringNode {
		b.fail(e.val, problem(CodeMissingType, "@type must be a string, got %s", e.val.kind))
		return nil, ""
	}
	url := b.modern(e.val.text)
	mt, p := b.resolve(url)
	if p != nil {
		b.fail(e.val, p)
		return nil, ""
	}
	return mt, url
}

// readAsV3 says that a type of v2 was read as the one of v3.
func (b *builder) readAsV3(at *node, url string) {
	b.warnAt(at.line, at.col, problem(CodeDeprecated, "the v2 type was read as %s", url).hint("write %s", url))
}

// resolve finds the message type of a type URL.
func (l *load) resolve(url string) (protoreflect.MessageType, *Problem) {
	i := strings.LastIndexByte(url, '/')
	name := protoreflect.FullName(url[i+1:])
	if isV2(string(name)) {
		return nil, l.v2Problem(url)
	}
	if i < 0 {
		return nil, problem(CodeUnknownType, "@type %q is no type URL", clip(url)).hint("write type.googleapis.com/%s", clip(url))
	}
	mt, err := l.loader.types().FindMessageByName(name)
	if err != nil {
		p := problem(CodeUnknownType, "unknown type %q", clipLong(url))
		if near, ok := l.suggest.message(name); ok {
			return nil, p.hint("did you mean %s?", near)
		}
		return nil, p.hint("this program knows no message of that name")
	}
	return mt, nil
}

// anyValue fills a message with a JSON form of its own from the key value.
func (b *builder) anyValue(body *node, inner protoreflect.Message, at *place) {
	e := body.get("value")
	for i := range body.items {
		if o := &body.items[i]; o.key != "value" {
			b.unknownField(inner.Descriptor(), o)
		} else if o.first != 0 {
			b.failAt(o.line, o.col, problem(CodeDuplicateKey, "duplicate key \"value\", first on line %d", o.first))
		}
	}
	switch {
	case e != nil:
		b.message(e.val, inner, at)
	case inner.Descriptor().FullName() != emptyName:
		b.fail(body, problem(CodeInvalidValue, "a %s in an Any is written under the key value", inner.Descriptor().FullName()))
	}
}

// typedStruct unpacks a TypedStruct into the message it names (BS-13). If that
// message is not linked in, the TypedStruct stays as it is, for a client that
// knows it.
func (b *builder) typedStruct(body *node, outer protoreflect.Message, url string, at *place) (protoreflect.Message, string) {
	if b.text {
		b.message(body, outer, at)
		if b.failed {
			return nil, ""
		}
		return b.unpackStruct(outer, url, body.line, body.col, at)
	}
	e, v := body.get("type_url", "typeUrl"), body.get("value")
	if e == nil || e.val.kind != stringNode || e.val.text == "" {
		b.fail(body, problem(CodeMissingType, "a TypedStruct needs a type_url"))
		return nil, ""
	}
	mt, p := b.resolve(e.val.text)
	if p != nil && p.Code == CodeV2 {
		b.fail(e.val, p)
		return nil, ""
	}
	if p != nil {
		b.message(body, outer, at)
		return outer, url
	}
	for i := range body.items {
		if o := &body.items[i]; o != e && o != v {
			b.structEntry(outer.Descriptor(), o)
		}
	}
	inner := mt.New()
	if v != nil && v.val.kind != nullNode {
		b.message(v.val, inner, at)
	}
	return inner, e.val.text
}

// structEntry reports an entry that a TypedStruct has too many of.
func (b *builder) structEntry(md protoreflect.MessageDescriptor, e *entry) {
	if b.lookup(md, e.key) == nil {
		b.unknownField(md, e)
		return
	}
	b.failAt(e.line, e.col, problem(CodeDuplicateKey, "duplicate key %q", clip(e.key)))
}

// unpackStruct is the message that a decoded TypedStruct stands for, or the
// TypedStruct itself.
func (b *builder) unpackStruct(outer protoreflect.Message, url string, line, col int32, at *place) (protoreflect.Message, string) {
	fds := outer.Descriptor().Fields()
	innerURL := outer.Get(fds.ByName("type_url")).String()
	mt, p := b.resolve(innerURL)
	if p != nil && p.Code == CodeV2 {
		b.failAt(line, col, p)
		return nil, ""
	}
	if p != nil {
		return outer, url
	}
	inner := mt.New()
	text := b.text
	b.text = false
	b.message(structNode(outer.Get(fds.ByName("value")).Message(), line, col), inner, at)
	b.text = text
	return inner, innerURL
}

// pack encodes a message into an Any.
func (b *builder) pack(n *node, m protoreflect.Message, url string, inner protoreflect.Message) {
	value, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(inner.Interface())
	if err != nil {
		b.fail(n, problem(CodeInvalidValue, "encoding %s: %s", inner.Descriptor().FullName(), decodeText(err)))
		return
	}
	fds := m.Descriptor().Fields()
	m.Set(fds.ByNumber(1), protoreflect.ValueOfString(url))
	m.Set(fds.ByNumber(2), protoreflect.ValueOfBytes(value))
}

func sortEntries(items []entry) {
	slices.SortFunc(items, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func clipLong(s string) string {
	const longest = 256
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
