package configload

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// Names of the messages that hold resources, and of the fields that do.
const (
	wrapperName   = "envoy.service.discovery.v3.Resource"
	responseName  = "envoy.service.discovery.v3.DiscoveryResponse"
	bootstrapName = "envoy.config.bootstrap.v3.Bootstrap"
	resourceField = "resources"
	staticField   = "static_resources"
	staticCamel   = "staticResources"
)

// wrapper is what stands around a resource: the fields of a Resource message
// and the type its list declares.
type wrapper struct {
	name, version, listType string
	aliases                 []string
	// line, col is where encoded content stands in a text file.
	line, col int32
	// inside is set once a Resource message has been opened.
	inside bool
	// v2 is the resource's type as it is written, if that is one of v2.
	v2 *node
}

// document reads the resources of one document of a file.
func (l *load) document(n *node) {
	switch n.kind {
	case nullNode:
	case listNode:
		for _, e := range n.items {
			l.document(e.val)
		}
	case mapNode:
		first := len(l.resources)
		l.mappingDocument(n)
		l.attachPending(first)
	case badNode:
		l.fail(n.line, n.col, "", problem(CodeInvalidValue, "%s", n.text))
	default:
		l.fail(n.line, n.col, "", unknownDocument("a document that is "+n.kind.String()))
	}
}

func unknownDocument(what string) *Problem {
	return problem(CodeDocument, "%s holds no resources", what).
		hint("a document is a resource with @type, a list resources: or a bootstrap's static_resources:")
}

func (l *load) mappingDocument(n *node) {
	e := n.get(typeKey)
	switch {
	case e != nil:
		l.typed(n, wrapper{}, "")
	case n.get(resourceField) != nil:
		l.response(n)
	case n.get(staticField, staticCamel) != nil:
		l.bootstrap(n)
	case n.textual && n.get("type_url") != nil:
		l.textAny(n, wrapper{}, "")
	case len(n.items) == 0:
		l.fail(n.line, n.col, "", unknownDocument("an empty mapping"))
	default:
		l.fail(n.line, n.col, "", unknownDocument("a document with the key "+clip(n.items[0].key)))
	}
}

// typed reads something that says its type: a resource, or a message around
// resources.
func (l *load) typed(n *node, w wrapper, path string) {
	e := n.get(typeKey)
	if e.val.kind != stringNode {
		l.fail(e.val.line, e.val.col, path, problem(CodeMissingType, "@type must be a string, got %s", e.val.kind))
		return
	}
	body := n.without(typeKey)
	for _, d := range n.items {
		if d.key == typeKey && d.first != 0 {
			l.fail(d.line, d.col, path, problem(CodeDuplicateKey, "duplicate key %q, first on line %d", typeKey, d.first))
			return
		}
	}
	switch strings.TrimPrefix(e.val.text, xds.TypePrefix) {
	case wrapperName:
		l.wrapper(body, w, path)
		return
	case responseName:
		if path == "" {
			l.response(body)
			return
		}
	case bootstrapName:
		if path == "" {
			l.bootstrap(body)
			return
		}
	}
	if mt, ok := indirect(e.val.text); ok {
		l.indirectNode(body, mt, e.val.text, w)
		return
	}
	url := l.modern(e.val.text)
	mt, p := l.resourceType(url, w)
	if p != nil {
		l.add(&xds.ResourceError{Name: writtenName(body), Path: path, Pos: l.pos(e.val.line, e.val.col), Err: p})
		return
	}
	if url != e.val.text {
		w.v2 = e.val
	}
	l.resource(body, mt, url, w)
}

// textAny reads an Any of the text format that has its content encoded.
func (l *load) textAny(n *node, w wrapper, path string) {
	a := struct{ url, value string }{}
	for _, e := range n.items {
		switch {
		case e.key == "type_url" && e.val.kind == stringNode && a.url == "":
			a.url = e.val.text
		case e.key == "value" && e.val.kind == stringNode && a.value == "":
			a.value = e.val.text
		default:
			l.fail(e.line, e.col, path, problem(CodeInvalidValue, "an Any has a type_url and a value, once each, not %q", clip(e.key)))
			return
		}
	}
	w.line, w.col = n.line, n.col
	l.binaryItem(newAny(a.url, a.value), w, path)
}

// resourceType finds the message of a type URL that a resource may have.
func (l *load) resourceType(url string, w wrapper) (protoreflect.MessageType, *Problem) {
	mt, p := l.resolve(url)
	if p != nil && p.Code == CodeV2 {
		return nil, p
	}
	if !slices.ContainsFunc(xds.Types(), func(t xds.Type) bool { return t.URL == url }) {
		return nil, problem(CodeUnknownType, "type %q is no resource type", clipLong(url)).hint("%s", resourceTypeHint(url))
	}
	if p != nil {
		return nil, p
	}
	if w.listType != "" && l.modern(w.listType) != url {
		return nil, problem(CodeInvalidValue, "a resource of type %q in a list of type_url %q", url, clipLong(w.listType))
	}
	return mt, nil
}

func resourceTypeHint(url string) string {
	var names []string
	for _, t := range xds.Types() {
		if t.URL == xds.TypePrefix+url {
			return "write " + t.URL
		}
		names = append(names, strings.TrimPrefix(t.URL, xds.TypePrefix))
	}
	return "the resource types are " + xds.TypePrefix + " and one of " + strings.Join(names, ", ")
}

// resource reads one resource.
func (l *load) resource(n *node, mt protoreflect.MessageType, url string, w wrapper) *Resource {
	b := l.builder(url, w.name)
	if b.name == "" {
		b.name = writtenName(n)
	}
	b.text = n.textual
	root := &place{line: n.line, col: n.col}
	m := mt.New()
	if w.v2 != nil {
		b.inV2++
		b.readAsV3(w.v2, url)
	}
	b.message(n, m, root)
	return b.finish(m, w, root)
}

// finish keeps a resource if it is whole and the first of its name.
func (b *builder) finish(m protoreflect.Message, w wrapper, root *place) *Resource {
	if b.failed {
		return nil
	}
	r := &Resource{
		Message: m.Interface(), TypeURL: b.typeURL, Name: w.name,
		Version: w.version, Aliases: w.aliases,
		Pos: b.pos(root.line, root.col), Positions: &Positions{file: b.file, root: root, warnings: b.warnings}, Warnings: b.warnings,
	}
	if r.Name == "" {
		r.Name = nameOf(m)
	}
	if r.Name == "" {
		b.failAt(root.line, root.col, problem(CodeMissingName, "the resource has no name").hint("%s", namingHint(m)))
		return nil
	}
	key := xds.Key{Type: r.TypeURL, Name: r.Name}
	if first, ok := b.seen[key]; ok {
		b.name = r.Name
		b.failAt(root.line, root.col, problem(CodeDuplicateResource, "the name is taken by the resource at %s", first))
		return nil
	}
	b.seen[key] = r.Pos
	b.resources = append(b.resources, r)
	return r
}

// nameField is the field that holds a resource's name, or nil.
func nameField(md protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	for _, name := range []protoreflect.Name{"cluster_name", "name"} {
		fd := md.Fields().ByName(name)
		if fd != nil && fd.Kind() == protoreflect.StringKind && !fd.IsList() {
			return fd
		}
	}
	return nil
}

func nameOf(m protoreflect.Message) string {
	if fd := nameField(m.Descriptor()); fd != nil {
		return m.Get(fd).String()
	}
	return ""
}

func namingHint(m protoreflect.Message) string {
	if fd := nameField(m.Descriptor()); fd != nil {
		return "set " + string(fd.Name())
	}
	return "put it into a " + wrapperName + " with a name"
}

// writtenName is a resource's name before it is decoded.
func writtenName(n *node) string {
	if e := n.get("cluster_name", "clusterName", "name"); e != nil && e.val.kind == stringNode {
		return e.val.text
	}
	return ""
}

// unknownNumbers lists the field numbers in encoded unknown fields.
func unknownNumbers(raw []byte) string {
	var numbers []string
	for len(raw) > 0 && len(numbers) < 8 {
		num, _, n := protowire.ConsumeField(raw)
		if n < 0 {
			break
		}
		if s := fmt.Sprint(num); !slices.Contains(numbers, s) {
			numbers = append(numbers, s)
		}
		raw = raw[n:]
	}
	return strings.Join(numbers, ", ")
}
