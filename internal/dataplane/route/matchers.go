package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter/header"
)

// HeaderMatch compiles a header matcher for conditions outside routes. The path
// is the field's, for errors; env may be the zero value.
func HeaderMatch(path string, m *routev3.HeaderMatcher, env Env) (func(*header.Map) bool, error) {
	b := builder{env: &env}
	h := b.headerMatcher(path, m)
	return h.match, b.result()
}

// ValueMatch compiles a matcher of metadata values (type/matcher/v3/value.proto)
// for conditions outside routes.
func ValueMatch(path string, m *matcherv3.ValueMatcher, env Env) (func(*structpb.Value) bool, error) {
	b := builder{env: &env}
	v := b.valueMatcher(path, m)
	return v.match, b.result()
}
