package xdsserver

import (
	"errors"
	"fmt"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
	"github.com/xebec-proxy/xebec/xds"
)

// nodeMatcher decides which clients a CSDS request is about: those that any of
// its matchers matches, or all if it has none (XD-01).
type nodeMatcher []func(*xds.Node) bool

func newNodeMatcher(list []*matcherv3.NodeMatcher) (nodeMatcher, error) {
	var out nodeMatcher
	for i, m := range list {
		f, err := oneNodeMatcher(m)
		if err != nil {
			return nil, fmt.Errorf("node_matchers[%d]: %w", i, err)
		}
		out = append(out, f)
	}
	return out, nil
}

func (m nodeMatcher) matches(n *xds.Node) bool {
	for _, f := range m {
		if f(n) {
			return true
		}
	}
	return len(m) == 0
}

func oneNodeMatcher(m *matcherv3.NodeMatcher) (func(*xds.Node) bool, error) {
	id := func(string) bool { return true }
	if m.GetNodeId() != nil {
		text, err := stringmatch.Compile("", m.GetNodeId())
		if err != nil {
			return nil, fmt.Errorf("node_id: %w", err)
		}
		id = text.Match
	}
	var meta []func(*structpb.Struct) bool
	for i, sm := range m.GetNodeMetadatas() {
		f, err := structMatcher(sm)
		if err != nil {
			return nil, fmt.Errorf("node_metadatas[%d]: %w", i, err)
		}
		meta = append(meta, f)
	}
	return func(n *xds.Node) bool {
		for _, f := range meta {
			if !f(n.Metadata) {
				return false
			}
		}
		return id(n.ID)
	}, nil
}

func structMatcher(m *matcherv3.StructMatcher) (func(*structpb.Struct) bool, error) {
	if len(m.GetPath()) == 0 {
		return nil, errors.New("path is empty")
	}
	value, err := valueMatcher(m.GetValue())
	if err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	return func(s *structpb.Struct) bool {
		v := structpb.NewStructValue(s)
		for _, seg := range m.GetPath() {
			v = v.GetStructValue().GetFields()[seg.GetKey()]
		}
		return value(v)
	}, nil
}

func valueMatcher(m *matcherv3.ValueMatcher) (func(*structpb.Value) bool, error) {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		text, err := stringmatch.Compile("string_match", p.StringMatch)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the field
		}
		return func(v *structpb.Value) bool {
			_, ok := v.GetKind().(*structpb.Value_StringValue)
			return ok && text.Match(v.GetStringValue())
		}, nil
	case *matcherv3.ValueMatcher_BoolMatch:
		return func(v *structpb.Value) bool {
			_, ok := v.GetKind().(*structpb.Value_BoolValue)
			return ok && v.GetBoolValue() == p.BoolMatch
		}, nil
	case *matcherv3.ValueMatcher_PresentMatch:
		return func(v *structpb.Value) bool { return (v != nil) == p.PresentMatch }, nil
	case *matcherv3.ValueMatcher_NullMatch_:
		return func(v *structpb.Value) bool {
			_, ok := v.GetKind().(*structpb.Value_NullValue)
			return ok
		}, nil
	case *matcherv3.ValueMatcher_DoubleMatch:
		return doubleMatcher(p.DoubleMatch), nil
	}
	return nil, fmt.Errorf("a value matcher of type %T is not supported", m.GetMatchPattern())
}

func doubleMatcher(m *matcherv3.DoubleMatcher) func(*structpb.Value) bool {
	return func(v *structpb.Value) bool {
		n, ok := v.GetKind().(*structpb.Value_NumberValue)
		if !ok {
			return false
		}
		if r := m.GetRange(); r != nil {
			return r.GetStart() <= n.NumberValue && n.NumberValue < r.GetEnd()
		}
		return n.NumberValue == m.GetExact()
	}
}
