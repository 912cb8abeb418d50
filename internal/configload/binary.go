package configload

import (
	"fmt"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
)

// binaryFile reads the resources of a binary file, which does not say what
// message it is: an Any names a type, a DiscoveryResponse holds only Anys that
// do, and a Bootstrap is what is left.
func (l *load) binaryFile(data []byte) {
	if len(data) == 0 {
		return
	}
	if single := (&anypb.Any{}); decodesAs(data, single) && strings.HasPrefix(single.GetTypeUrl(), xds.TypePrefix) {
		l.binaryItem(single, wrapper{}, "")
		return
	}
	if response := (&discoveryv3.DiscoveryResponse{}); decodesAs(data, response) && holdsTypes(response) {
		l.binaryResponse(response)
		return
	}
	if bootstrap := (&bootstrapv3.Bootstrap{}); decodesAs(data, bootstrap) {
		l.binaryBootstrap(bootstrap)
		return
	}
	l.fail(0, 0, "", problem(CodeSyntax, "the file is no binary DiscoveryResponse, Any or Bootstrap"))
}

// decodesAs reports whether data decodes into m without fields that m does not
// have at its first level.
func decodesAs(data []byte, m proto.Message) bool {
	return proto.Unmarshal(data, m) == nil && len(m.ProtoReflect().GetUnknown()) == 0
}

func holdsTypes(r *discoveryv3.DiscoveryResponse) bool {
	for _, a := range r.GetResources() {
		if !strings.Contains(a.GetTypeUrl(), "/") || len(a.ProtoReflect().GetUnknown()) > 0 {
			return false
		}
	}
	return r.GetTypeUrl() == "" || strings.Contains(r.GetTypeUrl(), "/")
}

func (l *load) binaryResponse(r *discoveryv3.DiscoveryResponse) {
	if !l.checkResponse(r, 0, 0) {
		return
	}
	for i, a := range r.GetResources() {
		l.binaryItem(a, wrapper{listType: r.GetTypeUrl()}, fmt.Sprintf("resources[%d]", i))
	}
}

// binaryItem reads an encoded resource or an encoded Resource wrapper.
func (l *load) binaryItem(a *anypb.Any, w wrapper, path string) {
	switch strings.TrimPrefix(a.GetTypeUrl(), xds.TypePrefix) {
	case wrapperName:
		inner := &discoveryv3.Resource{}
		if !decodesAs(a.GetValue(), inner) {
			l.fail(w.line, w.col, path, problem(CodeSyntax, "the Any does not hold a valid %s", wrapperName))
			return
		}
		if w, ok := l.wrapped(inner, w, w.line, w.col, path); ok {
			l.binaryItem(inner.GetResource(), w, path)
		}
		return
	case responseName:
		inner := &discoveryv3.DiscoveryResponse{}
		if path == "" && decodesAs(a.GetValue(), inner) {
			l.binaryResponse(inner)
			return
		}
	case bootstrapName:
		inner := &bootstrapv3.Bootstrap{}
		if path == "" && decodesAs(a.GetValue(), inner) {
			l.binaryBootstrap(inner)
			return
		}
	}
	l.binaryResource(a, w, path)
}

func (l *load) binaryResource(a *anypb.Any, w wrapper, path string) {
	if mt, ok := indirect(a.GetTypeUrl()); ok {
		l.indirectBinary(a.GetValue(), mt, a.GetTypeUrl(), w)
		return
	}
	if l.modern(a.GetTypeUrl()) != a.GetTypeUrl() {
		l.upgradeBinary(a, w, path)
		return
	}
	mt, p := l.resourceType(a.GetTypeUrl(), w)
	if p != nil {
		l.fail(w.line, w.col, path, p)
		return
	}
	m := mt.New()
	if err := proto.Unmarshal(a.GetValue(), m.Interface()); err != nil {
		l.add(&xds.ResourceError{Type: a.GetTypeUrl(), Name: w.name, Pos: l.pos(w.line, w.col), Err: problem(CodeSyntax, "decoding: %s", decodeText(err))})
		return
	}
	l.decoded(m, a.GetTypeUrl(), w)
}

// decoded checks a resource that came as an encoded message, and keeps it.
func (l *load) decoded(m protoreflect.Message, url string, w wrapper) *Resource {
	b := l.builder(url, w.name)
	if b.name == "" {
		b.name = nameOf(m)
	}
	b.line, b.col = w.line, w.col
	b.check(m)
	return b.finish(m, w, &place{line: w.line, col: w.col})
}

func (l *load) binaryBootstrap(bs *bootstrapv3.Bootstrap) {
	static := bs.GetStaticResources()
	var unused []string
	bs.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if fd.Name() != staticField {
			unused = append(unused, string(fd.Name()))
		}
		return true
	})
	if len(static.ProtoReflect().GetUnknown()) > 0 {
		l.fail(0, 0, staticField, problem(CodeUnknownField, "the static_resources have fields that this program does not know"))
	}
	static.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		for i := range v.List().Len() {
			m := v.List().Get(i).Message()
			l.decoded(m, xds.TypePrefix+string(m.Descriptor().FullName()), wrapper{})
		}
		return true
	})
	l.noteUnused(unused, 0, 0)
	l.attachPending(0)
}

// onlyBinary decodes a binary file that is one message.
func (b *builder) onlyBinary(data []byte, into proto.Message) {
	if err := proto.Unmarshal(data, into); err != nil {
		b.failAt(b.line, b.col, problem(CodeSyntax, "decoding a binary %s: %s", into.ProtoReflect().Descriptor().FullName(), decodeText(err)))
		return
	}
	b.check(into.ProtoReflect())
}

// check walks a decoded message as message does with a tree: unknown fields and
// types are problems, a TypedStruct is unpacked. It reports whether it changed
// the message.
func (b *builder) check(m protoreflect.Message) (changed bool) {
	if b.depth++; b.depth > maxDepth {
		b.failAt(b.line, b.col, problem(CodeTooLarge, "nested more than %d levels deep", maxDepth))
		b.depth--
		return false
	}
	defer func() { b.depth-- }()
	if raw := m.GetUnknown(); len(raw) > 0 {
		b.unknownNumber(m)
	}
	if m.Descriptor().FullName() == anyName {
		return b.checkAny(&node{line: b.line, col: b.col}, m)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() == nil || fd.IsMap() && fd.MapValue().Message() == nil {
			return true
		}
		b.push(frame{fd: fd})
		defer b.pop()
		switch {
		case fd.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				b.push(frame{key: k.String(), isKey: true})
				changed = b.check(v.Message()) || changed
				b.pop()
				return true
			})
		case fd.IsList():
			for i := range v.List().Len() {
				b.push(frame{index: i})
				changed = b.check(v.List().Get(i).Message()) || changed
				b.pop()
			}
		default:
			changed = b.check(v.Message()) || changed
		}
		return true
	})
	return changed
}

// checkAny checks the content of an Any that came encoded, at a node's place.
func (b *builder) checkAny(n *node, m protoreflect.Message) (changed bool) {
	fds := m.Descriptor().Fields()
	url := m.Get(fds.ByNumber(1)).String()
	if url == "" {
		b.fail(n, problem(CodeMissingType, "an Any without a type"))
		return false
	}
	mt, p := b.resolve(url)
	if p != nil && p.Code == CodeUnknownType && b.loader.KeepUnknownTypes {
		return false
	}
	if p != nil {
		b.fail(n, p)
		return false
	}
	inner := mt.New()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(m.Get(fds.ByNumber(2)).Bytes(), inner.Interface()); err != nil {
		b.fail(n, problem(CodeSyntax, "decoding the %s in an Any: %s", mt.Descriptor().FullName(), decodeText(err)))
		return false
	}
	if isTypedStruct(mt.Descriptor().FullName()) {
		unpacked, u := b.unpackStruct(inner, url, n.line, n.col, &place{})
		changed = u != url
		inner, url = unpacked, u
	} else {
		changed = b.check(inner)
	}
	if changed && inner != nil && !b.failed {
		b.pack(n, m, url, inner)
	}
	return changed
}

// unknownNumber reports what a message holds under numbers that no field has.
func (b *builder) unknownNumber(m protoreflect.Message) {
	p := problem(CodeUnknownField, "Protobuf message (type %s reason INVALID_ARGUMENT: no such field: number %s) has unknown fields",
		m.Descriptor().FullName(), unknownNumbers(m.GetUnknown()))
	if b.loader.AllowUnknownFields {
		b.warnAt(b.line, b.col, p)
		return
	}
	b.failAt(b.line, b.col, p)
}
