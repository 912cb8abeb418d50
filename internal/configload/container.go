package configload

import (
	"fmt"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
)

// response reads a list of resources in the shape of a DiscoveryResponse, as
// Envoy's file subscriptions have it (XF-01).
func (l *load) response(n *node) {
	r := &discoveryv3.DiscoveryResponse{}
	b := l.builder("", "")
	b.text = n.textual
	b.message(n.without(resourceField), r.ProtoReflect(), &place{})
	l.pending = append(l.pending, b.warnings...)
	// What is wrong with the envelope does not spoil the resources.
	if !l.checkResponse(r, n.line, n.col) {
		return
	}
	i := 0
	for k := range n.items {
		list := &n.items[k]
		if list.key != resourceField {
			continue
		}
		if list.first != 0 && !n.textual {
			l.fail(list.line, list.col, resourceField, problem(CodeDuplicateKey, "duplicate key %q, first on line %d", list.key, list.first))
		}
		for _, e := range list.val.elements() {
			l.responseItem(e.val, n.textual, wrapper{listType: r.GetTypeUrl()}, fmt.Sprintf("resources[%d]", i))
			i++
		}
	}
}

// checkResponse refuses the fields of an envelope that mean something which a
// file cannot do. The others only matter on a stream.
func (l *load) checkResponse(r *discoveryv3.DiscoveryResponse, line, col int32) bool {
	if url := r.GetTypeUrl(); url != "" {
		if _, p := l.resourceType(l.modern(url), wrapper{}); p != nil {
			l.fail(line, col, "type_url", p)
			return false
		}
	}
	if len(r.GetResourceErrors()) > 0 {
		l.fail(line, col, "resource_errors", problem(CodeUnsupported, "errors of resources cannot be served from a file").
			hint("remove resource_errors"))
	}
	return true
}

func (l *load) responseItem(n *node, textual bool, w wrapper, path string) {
	if textual {
		c := *n
		c.textual = true
		n = &c
	}
	switch {
	case n.kind == badNode:
		l.fail(n.line, n.col, path, problem(CodeInvalidValue, "%s", n.text))
	case n.kind != mapNode:
		l.fail(n.line, n.col, path, problem(CodeInvalidValue, "expected a resource with @type, got %s", n.kind))
	case n.get(typeKey) != nil:
		l.typed(n, w, path)
	case textual && n.get("type_url") != nil:
		l.textAny(n, w, path)
	case n.get("resource") != nil:
		l.wrapper(n, w, path)
	default:
		l.add(&xds.ResourceError{
			Name: writtenName(n), Path: path, Pos: l.pos(n.line, n.col),
			Err: problem(CodeMissingType, "the resource has no @type").hint("add \"@type\": %s", l.typeHint(w)),
		})
	}
}

func (l *load) typeHint(w wrapper) string {
	if w.listType != "" {
		return w.listType
	}
	return xds.TypePrefix + "<message>"
}

// wrapper reads a resource in a Resource message.
func (l *load) wrapper(n *node, w wrapper, path string) {
	r := &discoveryv3.Resource{}
	b := l.builder("", writtenName(n))
	b.text = n.textual
	b.message(n.without("resource"), r.ProtoReflect(), &place{})
	l.pending = append(l.pending, b.warnings...)
	w, ok := l.wrapped(r, w, n.line, n.col, path)
	if !ok || b.failed {
		return
	}
	e := n.get("resource")
	if e == nil || e.val.kind != mapNode {
		l.add(&xds.ResourceError{
			Name: w.name, Path: path, Pos: l.pos(n.line, n.col),
			Err: problem(CodeInvalidValue, "the Resource has no resource").hint("a file cannot send heartbeats"),
		})
		return
	}
	if e.first != 0 {
		l.fail(e.line, e.col, path, problem(CodeDuplicateKey, "field \"resource\" is set twice"))
		return
	}
	l.responseItem(e.val, n.textual, w, path+".resource")
}

// wrapped takes over what a Resource message says about its resource.
func (l *load) wrapped(r *discoveryv3.Resource, w wrapper, line, col int32, path string) (wrapper, bool) {
	fail := func(p *Problem) (wrapper, bool) {
		l.add(&xds.ResourceError{Name: r.GetName(), Path: strings.TrimPrefix(path, "."), Pos: l.pos(line, col), Err: p})
		return w, false
	}
	switch {
	case w.inside:
		return fail(problem(CodeInvalidValue, "a Resource in a Resource"))
	case r.GetResourceName() != nil:
		return fail(problem(CodeUnsupported, "resource_name, with its constraints on dynamic parameters, is not supported in a file").
			hint("use name"))
	case r.GetCacheControl() != nil:
		return fail(problem(CodeUnsupported, "cache_control is not supported in a file").hint("remove it"))
	case r.GetMetadata() != nil:
		return fail(problem(CodeUnsupported, "the metadata of a Resource is not supported in a file").hint("remove it"))
	case r.GetTtl() != nil:
		return fail(problem(CodeUnsupported, "a time to live is not served yet").hint("remove ttl"))
	}
	w.inside = true
	w.name, w.version, w.aliases = r.GetName(), r.GetVersion(), r.GetAliases()
	return w, true
}

func newAny(url, value string) *anypb.Any { return &anypb.Any{TypeUrl: url, Value: []byte(value)} }

// bootstrap reads the static resources of a bootstrap.
func (l *load) bootstrap(n *node) {
	md := (&bootstrapv3.Bootstrap{}).ProtoReflect().Descriptor()
	b := l.builder("", "")
	b.text = n.textual
	var unused []string
	for i := range n.items {
		e := &n.items[i]
		fd := b.lookup(md, e.key)
		switch {
		case fd == nil:
			b.unknownField(md, e)
		case e.first != 0 && !n.textual:
			l.fail(e.line, e.col, string(fd.Name()), problem(CodeDuplicateKey, "duplicate key %q, first on line %d", clip(e.key), e.first))
		case fd.Name() == staticField:
			l.static(e.val, n.textual)
		default:
			unused = append(unused, string(fd.Name()))
		}
	}
	l.pending = append(l.pending, b.warnings...)
	l.noteUnused(unused, n.line, n.col)
}

// noteUnused warns of the parts of a bootstrap that were not used.
func (l *load) noteUnused(unused []string, line, col int32) {
	if len(unused) == 0 {
		return
	}
	slices.Sort(unused)
	unused = slices.Compact(unused)
	p := problem(CodeUnused, "only the static_resources of the bootstrap are used, not its %s", strings.Join(unused, ", "))
	l.pending = append(l.pending, &xds.ResourceError{Pos: l.pos(line, col), Err: p})
}

// attachPending puts the warnings about what stands around resources with the
// first resource of the document. Without a resource to say them with, they are
// problems.
func (l *load) attachPending(first int) {
	for _, w := range l.pending {
		if first == len(l.resources) {
			l.add(w)
			continue
		}
		r := l.resources[first]
		r.Warnings = append(r.Warnings, w)
		r.Positions.warnings = r.Warnings
	}
	l.pending = nil
}

// static reads the lists of a bootstrap's static_resources.
func (l *load) static(n *node, textual bool) {
	md := (&bootstrapv3.Bootstrap_StaticResources{}).ProtoReflect().Descriptor()
	b := l.builder("", "")
	b.text = textual
	defer func() { l.pending = append(l.pending, b.warnings...) }()
	b.push(frame{fd: (&bootstrapv3.Bootstrap{}).ProtoReflect().Descriptor().Fields().ByName(staticField)})
	if n.kind == nullNode {
		return
	}
	if n.kind != mapNode {
		b.fail(n, problem(CodeInvalidValue, "expected a mapping with listeners, clusters and secrets, got %s", n.kind))
		return
	}
	for i := range n.items {
		e := &n.items[i]
		fd := b.lookup(md, e.key)
		switch {
		case fd == nil:
			b.unknownField(md, e)
		case e.first != 0 && !textual:
			b.failAt(e.line, e.col, problem(CodeDuplicateKey, "duplicate key %q, first on line %d", clip(e.key), e.first))
		default:
			l.staticList(fd, e.val, textual)
		}
	}
}

func (l *load) staticList(fd protoreflect.FieldDescriptor, n *node, textual bool) {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(fd.Message().FullName())
	if err != nil {
		l.fail(n.line, n.col, string(fd.Name()), problem(CodeUnknownType, "type %s is not linked into this program", fd.Message().FullName()))
		return
	}
	for _, e := range n.elements() {
		c := *e.val
		c.textual = textual
		l.resource(&c, mt, xds.TypePrefix+string(fd.Message().FullName()), wrapper{})
	}
}

// onlyDocument fills a message from a file that must hold one document.
func (b *builder) onlyDocument(docs []*node, m protoreflect.Message, root *place) {
	docs = slices.DeleteFunc(docs, func(n *node) bool { return n.kind == nullNode })
	if len(docs) == 0 {
		return
	}
	if len(docs) > 1 {
		b.fail(docs[1], problem(CodeDocument, "a second document where one %s is expected", m.Descriptor().FullName()).
			hint("remove it"))
	}
	n := docs[0]
	root.line, root.col = n.line, n.col
	b.text = n.textual
	if n.kind == mapNode {
		e := n.get(typeKey)
		if e != nil && e.val.kind == stringNode && e.val.text == b.typeURL {
			n = n.without(typeKey)
		}
	}
	b.message(n, m, root)
}
