package configload

import (
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/xds"
)

// indirect finds the message of what stands for resources: a redirect (XN-10), or a
// list collection of any resource type (XN-08). All list collections are alike on the
// wire, so they are read as the one whose message has room for all entries.
func indirect(url string) (protoreflect.MessageType, bool) {
	if url == xds.LocatorType {
		return (&xdscorev3.ResourceLocator{}).ProtoReflect().Type(), true
	}
	if slices.ContainsFunc(xds.Types(), func(t xds.Type) bool { return url == xds.CollectionType(t.URL) }) {
		return (&listenerv3.ListenerCollection{}).ProtoReflect().Type(), true
	}
	return nil, false
}

// indirectNode reads a redirect or a list collection from a tree.
func (l *load) indirectNode(n *node, mt protoreflect.MessageType, url string, w wrapper) {
	b := l.builder(url, w.name)
	b.text = n.textual
	root := &place{line: n.line, col: n.col}
	m := mt.New()
	b.message(n, m, root)
	b.finishIndirect(m, url, w, root)
}

// indirectBinary reads one that came as an encoded message.
func (l *load) indirectBinary(data []byte, mt protoreflect.MessageType, url string, w wrapper) {
	b := l.builder(url, w.name)
	b.line, b.col = w.line, w.col
	m := mt.New()
	if err := proto.Unmarshal(data, m.Interface()); err != nil {
		b.failAt(w.line, w.col, problem(CodeSyntax, "decoding: %s", decodeText(err)))
		return
	}
	b.check(m)
	b.finishIndirect(m, url, w, &place{line: w.line, col: w.col})
}

// finishIndirect keeps a redirect or a list collection as a resource of the type that
// it stands for.
func (b *builder) finishIndirect(m protoreflect.Message, url string, w wrapper, root *place) {
	if b.failed {
		return
	}
	typeURL, err := standsFor(m.Interface(), url, w.name)
	switch {
	case w.name == "":
		b.failAt(root.line, root.col, problem(CodeMissingName, "the resource has no name").hint("%s", namingHint(m)))
		return
	case err != nil:
		b.failAt(root.line, root.col, problem(CodeInvalidValue, "%s", err))
		return
	case w.listType != "" && w.listType != typeURL:
		b.failAt(root.line, root.col, problem(CodeInvalidValue, "a resource of type %q in a list of type_url %q", typeURL, clipLong(w.listType)))
		return
	}
	b.typeURL = typeURL
	if r := b.finish(m, w, root); r != nil {
		r.BodyType = url
	}
}

// standsFor is the type of the resources that a message stands for, or why it cannot.
func standsFor(m proto.Message, url, name string) (string, error) {
	if p, ok := m.(*xdscorev3.ResourceLocator); ok {
		to, err := xds.LocatorFromProto(p)
		if err != nil {
			return "", err //nolint:wrapcheck // says it all
		}
		element, list := to.URN.ElementType()
		if !list {
			element = to.URN.Type
		}
		typeURL := xds.TypePrefix + element
		if xds.IsURN(name) {
			u, err := xds.ParseURN(name)
			if err == nil {
				err = u.CheckType(typeURL)
			}
			if err != nil {
				return "", err //nolint:wrapcheck // says it all
			}
		}
		return typeURL, xds.CheckRedirect(typeURL, name, to) //nolint:wrapcheck // says it all
	}
	typeURL := strings.TrimSuffix(url, "Collection")
	if err := xds.CheckCollectionName(typeURL, name); err != nil {
		return "", err //nolint:wrapcheck // says it all
	}
	body, err := proto.Marshal(m)
	if err != nil {
		return "", err //nolint:wrapcheck // it was decoded before
	}
	return typeURL, xds.CheckCollection(typeURL, body) //nolint:wrapcheck // says it all
}

// Build makes the resource that a server serves. Options come after what the file says
// of it, so they win. It fails only for a message that cannot be encoded.
func (r *Resource) Build(opts ...xds.Option) (*xds.Resource, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Message)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says of what
	}
	all := []xds.Option{xds.WithOrigin(r.Pos), xds.WithVersion(r.Version), xds.WithAliases(r.Aliases...)}
	if r.BodyType != "" {
		all = append(all, xds.WithBodyType(r.BodyType))
	}
	return xds.NewResource(r.TypeURL, r.Name, body, append(all, opts...)...), nil
}
