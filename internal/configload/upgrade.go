package configload

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

const clusterName protoreflect.FullName = "envoy.config.cluster.v3.Cluster"

// isV2 reports whether a message name belongs to Envoy's v2 API (BS-21).
func isV2(name string) bool {
	if !strings.HasPrefix(name, "envoy.") {
		return false
	}
	if strings.HasPrefix(name, "envoy.api.v2.") || strings.HasPrefix(name, "envoy.config.filter.") {
		return true
	}
	for part := range strings.SplitSeq(name, ".") {
		if part == "v2" || strings.HasPrefix(part, "v2alpha") {
			return true
		}
	}
	return false
}

func (l *load) v2Problem(url string) *Problem {
	p := problem(CodeV2, "type %q belongs to the v2 API, which is not supported", clipLong(url))
	if near, ok := l.suggest.successor(url[strings.LastIndexByte(url, '.')+1:]); ok {
		return p.hint("the v3 API has %s", near)
	}
	return p.hint("use the v3 type")
}

// unknownField reports an entry that is no field of its message (BS-16).
func (b *builder) unknownField(md protoreflect.MessageDescriptor, e *entry) {
	if e.val.kind == badNode && (e.key == "?" || e.key == "<<") {
		b.failAt(e.val.line, e.val.col, problem(CodeInvalidValue, "%s", e.val.text))
		return
	}
	// The path of an unknown field includes its name.
	b.push(frame{key: e.key, unknown: true})
	defer b.pop()
	if p := v2Field(md, e.key); p != nil {
		b.failAt(e.line, e.col, p)
		return
	}
	p := problem(CodeUnknownField, "Protobuf message (type %s reason INVALID_ARGUMENT: no such field: '%s') has unknown fields",
		md.FullName(), clip(e.key))
	if near, ok := nearest(e.key, fieldNames(md)); ok {
		p = p.hint("did you mean %q?", near)
	}
	if b.loader.AllowUnknownFields {
		b.warnAt(e.line, e.col, p)
		return
	}
	b.failAt(e.line, e.col, p)
}

// v2Field explains the fields that v2 configuration has in the place of
// typed_config and transport_socket.
func v2Field(md protoreflect.MessageDescriptor, key string) *Problem {
	fds := md.Fields()
	switch {
	case key == "config" && fds.ByName("typed_config") != nil:
		return problem(CodeV2, "the untyped field 'config' belongs to the v2 API, which is not supported").
			hint("write typed_config with an @type")
	case key == "tls_context" && fds.ByName("transport_socket") != nil:
		return problem(CodeV2, "the field 'tls_context' belongs to the v2 API, which is not supported").
			hint("write a transport_socket with a typed_config")
	}
	return nil
}

func fieldNames(md protoreflect.MessageDescriptor) []string {
	names := make([]string, md.Fields().Len())
	for i := range names {
		names[i] = string(md.Fields().Get(i).Name())
	}
	return names
}

// upgradeHosts turns the v2 field hosts of a cluster into a load assignment of
// one locality (BS-07).
func (b *builder) upgradeHosts(n *node) *node {
	hosts := n.get("hosts")
	if hosts == nil || hosts.val.kind == nullNode {
		return n
	}
	if n.get("load_assignment", "loadAssignment") != nil {
		b.failAt(hosts.line, hosts.col, problem(CodeInvalidValue, "hosts and load_assignment are both set").
			hint("move the addresses of hosts into load_assignment"))
		return n.without("hosts")
	}
	at := func(n node) *node { n.line, n.col = hosts.line, hosts.col; return &n }
	wrap := func(key string, v *node) entry { return entry{key: key, line: v.line, col: v.col, val: v} }
	endpoints := at(node{kind: listNode})
	for i := range n.items {
		if n.items[i].key != "hosts" {
			continue
		}
		if first := n.items[i].first; first != 0 && !b.text {
			b.failAt(n.items[i].line, n.items[i].col, problem(CodeDuplicateKey, "duplicate key \"hosts\", first on line %d", first))
		}
		for _, h := range n.items[i].val.elements() {
			address := &node{kind: mapNode, line: h.line, col: h.col, items: []entry{wrap("address", h.val)}}
			endpoint := &node{kind: mapNode, line: h.line, col: h.col, items: []entry{wrap("endpoint", address)}}
			endpoints.items = append(endpoints.items, entry{line: h.line, col: h.col, val: endpoint})
		}
	}
	assignment := at(node{kind: mapNode})
	if name := n.get("name"); name != nil && name.val.kind == stringNode {
		assignment.items = append(assignment.items, *name)
		assignment.items[0].key = "cluster_name"
	}
	locality := at(node{kind: mapNode, items: []entry{wrap("lb_endpoints", endpoints)}})
	assignment.items = append(assignment.items, wrap("endpoints", locality))
	b.warnAt(hosts.line, hosts.col, problem(CodeDeprecated, "the v2 field hosts was read as a load_assignment").
		hint("write load_assignment"))
	up := n.without("hosts")
	up.items = append(up.items, entry{key: "load_assignment", line: hosts.line, col: hosts.col, val: assignment})
	return up
}
