package configload

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
)

// What follows is done only for loaders with a Successor: messages of v2 are read as
// the v3 ones that followed them (XV-05). v3 kept names and meaning of most fields,
// so that the tree is all that has to change, where v3 has dropped a field.

// Upgrade reads an encoded message of v2 as the one of v3 that followed it.
func (l *Loader) Upgrade(typeURL string, body []byte) (*Resource, []*xds.ResourceError) {
	ld := newLoad(l, "")
	ld.upgradeBinary(&anypb.Any{TypeUrl: typeURL, Value: body}, wrapper{}, "")
	if errs := ld.problems(); len(errs) > 0 || len(ld.resources) != 1 {
		return nil, errs
	}
	return ld.resources[0], nil
}

// modern is a type URL, in v3 if the type is one of v2.
func (l *load) modern(url string) string {
	name := protoreflect.FullName(url[strings.LastIndexByte(url, '/')+1:])
	if l.loader.Successor == nil || !isV2(string(name)) {
		return url
	}
	if v3, ok := l.loader.Successor(name); ok {
		return xds.TypePrefix + string(v3)
	}
	return url
}

// upgradeBinary reads an encoded message of v2 by way of JSON, which names the
// fields that v3 does not have.
func (l *load) upgradeBinary(a *anypb.Any, w wrapper, path string) {
	mt, err := l.loader.types().FindMessageByName(a.MessageName())
	if err != nil {
		l.fail(w.line, w.col, path, problem(CodeUnknownType, "unknown type %q", clipLong(a.GetTypeUrl())))
		return
	}
	m := mt.New()
	if err := proto.Unmarshal(a.GetValue(), m.Interface()); err != nil {
		l.fail(w.line, w.col, path, problem(CodeSyntax, "decoding: %s", decodeText(err)))
		return
	}
	if u := m.GetUnknown(); len(u) > 0 {
		l.fail(w.line, w.col, path, problem(CodeUnknownField, "%s has unknown fields", a.MessageName()))
		return
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&anypb.Any{TypeUrl: a.GetTypeUrl(), Value: a.GetValue()})
	if err != nil {
		l.fail(w.line, w.col, path, problem(CodeInvalidValue, "%s", decodeText(err)))
		return
	}
	for _, n := range l.parseJSON(text) {
		l.typed(n, w, path)
	}
}

// upgrade is the field, and the entry for it, that took the place of one which v3 has
// dropped; otherwise the entry as it is, without a field.
func (b *builder) upgrade(md protoreflect.MessageDescriptor, n *node, e *entry) (*entry, protoreflect.FieldDescriptor) {
	if b.loader.Successor == nil || b.text {
		return e, nil
	}
	for _, d := range v2Fields(md.FullName()) {
		if e.key != d.old && e.key != lowerCamel(d.old) {
			continue
		}
		val := e.val
		if d.to != nil {
			val = d.to(b, n, val)
		}
		fd := md.Fields().ByName(protoreflect.Name(d.is))
		if val == nil || fd == nil {
			break
		}
		b.warnAt(e.line, e.col, problem(CodeDeprecated, "the v2 field %s was read as %s", d.old, d.is).hint("write %s", d.is))
		up := *e
		up.key, up.val = d.is, val
		return &up, fd
	}
	return e, nil
}

// sourceVersion says v3 where a config source of v2 says nothing or v2: a v3 client
// takes no other. One that names v2 for another server is left to be refused.
func sourceVersion(message protoreflect.FullName, n *node) *node {
	key := ""
	switch message {
	case "envoy.config.core.v3.ConfigSource":
		key = "resource_api_version"
	case "envoy.config.core.v3.ApiConfigSource":
		key = "transport_api_version"
	default:
		return n
	}
	if e := n.get(key, lowerCamel(key)); e != nil {
		own := key == "resource_api_version" && n.get("ads", "self") != nil
		if e.val.text != "AUTO" && e.val.text != "0" && (!own || e.val.text != "V2" && e.val.text != "1") {
			return n
		}
	}
	up := n.without(key, lowerCamel(key))
	up.items = append(up.items, entry{key: key, line: n.line, col: n.col, val: stringAt(n, "V3")})
	return up
}

func lowerCamel(s string) string {
	parts := strings.Split(s, "_")
	for i := 1; i < len(parts); i++ {
		parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
	}
	return strings.Join(parts, "")
}

// v2FieldRule is about a field that v3 has dropped and the one that took its place. to makes
// its value; nil keeps it. It is given the message's mapping and the value, and may
// return nil.
type v2FieldRule struct {
	old, is string
	to      func(b *builder, n, v *node) *node
}

// v2Fields are the rules for a message of v3.
func v2Fields(message protoreflect.FullName) []v2FieldRule {
	regex := func(old, is string) v2FieldRule { return v2FieldRule{old, is, asRegex} }
	switch message {
	case clusterName:
		return []v2FieldRule{
			{"tls_context", "transport_socket", tlsSocket("Upstream")},
			{"drain_connections_on_host_removal", "ignore_health_on_host_removal", nil},
		}
	case "envoy.config.listener.v3.FilterChain":
		return []v2FieldRule{{"tls_context", "transport_socket", tlsSocket("Downstream")}}
	case "envoy.config.route.v3.VirtualHost", "envoy.config.route.v3.Route", "envoy.config.route.v3.WeightedCluster.ClusterWeight":
		return []v2FieldRule{{"per_filter_config", "typed_per_filter_config", perFilter}}
	case "envoy.config.route.v3.RouteAction":
		return []v2FieldRule{
			{"host_rewrite", "host_rewrite_literal", nil},
			{"auto_host_rewrite_header", "host_rewrite_header", nil},
			{"request_mirror_policy", "request_mirror_policies", nil}, // one stands for a list of one
		}
	case "envoy.config.route.v3.RouteMatch":
		return []v2FieldRule{regex("regex", "safe_regex")}
	case "envoy.config.route.v3.HeaderMatcher":
		return []v2FieldRule{regex("regex_match", "safe_regex_match")}
	case "envoy.type.matcher.v3.StringMatcher":
		return []v2FieldRule{regex("regex", "safe_regex")}
	case "envoy.config.route.v3.CorsPolicy":
		return []v2FieldRule{{"allow_origin", "allow_origin_string_match", func(_ *builder, _, v *node) *node {
			return eachOf(v, func(n *node) *node { return mapAt(n, "exact", n) })
		}}, {"allow_origin_regex", "allow_origin_string_match", func(b *builder, n, v *node) *node {
			return eachOf(v, func(o *node) *node { return mapAt(o, "safe_regex", asRegex(b, n, o)) })
		}}}
	case "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext":
		return []v2FieldRule{{"verify_subject_alt_name", "match_subject_alt_names", func(_ *builder, _, v *node) *node {
			return eachOf(v, func(n *node) *node { return mapAt(n, "exact", n) })
		}}}
	case "envoy.config.core.v3.HealthCheck.HttpHealthCheck":
		return []v2FieldRule{
			{"service_name", "service_name_matcher", func(_ *builder, _, v *node) *node { return mapAt(v, "prefix", v) }},
			{"use_http2", "codec_client_type", func(_ *builder, _, v *node) *node {
				return stringAt(v, map[bool]string{true: "HTTP2", false: "HTTP1"}[v.kind == trueNode])
			}},
		}
	}
	if v3, ok := configTypes()[message]; ok {
		return []v2FieldRule{{"config", "typed_config", func(b *builder, n, v *node) *node { return typedConfig(b, n, v, v3) }}}
	}
	return nil
}

// asRegex is a regular expression of v2. It was ECMAScript's there, is RE2's now, and
// is refused by the client where RE2 does not know it.
func asRegex(_ *builder, _, v *node) *node { return mapAt(v, "regex", v) }

// tlsSocket is the transport socket that the TLS context of one side was.
func tlsSocket(side string) func(*builder, *node, *node) *node {
	return func(b *builder, _, v *node) *node {
		if v.kind != mapNode {
			return nil
		}
		socket := mapAt(v, "name", stringAt(v, "envoy.transport_sockets.tls"))
		return with(socket, "typed_config", withType(v, tlsPrefix+side+"TlsContext"))
	}
}

const tlsPrefix = "envoy.extensions.transport_sockets.tls.v3."

// typedConfig gives the struct of a filter or the like the type that its name stood
// for.
func typedConfig(b *builder, n, v *node, types map[string]string) *node {
	name := n.get("name")
	if name == nil || v.kind != mapNode {
		return nil
	}
	v3 := types[name.val.text]
	if v3 == tlsPrefix+"TlsContext" {
		side := "Upstream"
		if b.within("envoy.config.listener.v3.FilterChain.transport_socket") {
			side = "Downstream"
		}
		v3 = tlsPrefix + side + "TlsContext"
	}
	if v3 == "" {
		return nil
	}
	return withType(v, v3)
}

// within reports whether the message being read is in a field.
func (b *builder) within(field protoreflect.FullName) bool {
	return slices.ContainsFunc(b.path, func(f frame) bool { return f.fd != nil && f.fd.FullName() == field })
}

// perFilter gives each filter's struct its type.
func perFilter(_ *builder, _, v *node) *node {
	if v.kind != mapNode {
		return nil
	}
	up := *v
	up.items = slices.Clone(v.items)
	for i := range up.items {
		v3 := perFilterTypes()[up.items[i].key]
		if v3 == "" || up.items[i].val.kind != mapNode {
			return nil
		}
		up.items[i].val = withType(up.items[i].val, v3)
	}
	return &up
}

func withType(v *node, v3 string) *node {
	return with(v, typeKey, stringAt(v, xds.TypePrefix+v3))
}

func with(n *node, key string, v *node) *node {
	up := *n
	up.items = append(slices.Clone(n.items), entry{key: key, line: v.line, col: v.col, val: v})
	return &up
}

func stringAt(at *node, text string) *node {
	return &node{kind: stringNode, line: at.line, col: at.col, text: text}
}

func mapAt(at *node, key string, v *node) *node {
	return &node{kind: mapNode, line: at.line, col: at.col, items: []entry{{key: key, line: at.line, col: at.col, val: v}}}
}

func eachOf(v *node, f func(*node) *node) *node {
	list := &node{kind: listNode, line: v.line, col: v.col}
	for _, e := range v.elements() {
		list.items = append(list.items, entry{line: e.line, col: e.col, val: f(e.val)})
	}
	return list
}
