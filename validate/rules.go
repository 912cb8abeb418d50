package validate

import (
	"fmt"
	"regexp/syntax"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// message checks what the declared rules cannot say, one message at a time.
// Only what every Envoy release or every gRPC client rejects is an error.
func (c *checker) message(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *listenerv3.Listener:
		c.listener(v)
	case *hcmv3.HttpConnectionManager:
		c.connectionManager(v)
	case *tlsv3.DownstreamTlsContext:
		c.serverTLS(v)
	case *clusterv3.Cluster:
		c.cluster(v)
	case *endpointv3.ClusterLoadAssignment:
		c.assignment(v)
	case *routev3.RouteConfiguration:
		c.routeTable(v)
	case *routev3.ScopedRouteConfiguration:
		c.scope(v)
	case *hcmv3.ScopedRouteConfigurationsList:
		c.inlineScopes(v)
	case *hcmv3.ScopedRoutes_ScopeKeyBuilder:
		c.scopeKey(v)
	case *routev3.RouteAction:
		c.routeAction(v)
	case *routev3.WeightedCluster:
		c.weightedClusters(v)
	case *routev3.RetryPolicy:
		c.retryPolicy(v)
	case *matcherv3.RegexMatcher:
		c.regex(v)
	}
}

// regex checks an expression (BS-35). Go's syntax is RE2's but for \C.
func (c *checker) regex(v *matcherv3.RegexMatcher) {
	if _, err := syntax.Parse(v.GetRegex(), syntax.Perl); err != nil {
		c.fault(codeInvalidRegex, "regex", fmt.Sprintf("the regular expression %q is invalid: %v", v.GetRegex(), err),
			"write it in RE2 syntax, which has no look-around and no back-references")
	}
}
