package support

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bounds that the API declares.
const (
	maxPriority = 128
	maxPort     = 65535
)

// Plain reports whether an assignment is of addresses with ports, weights, health,
// localities and priorities only, all within the API's bounds. Most are, and they are what
// changes most often. Neither [Catalog.Check] nor ValidateAll has anything to say of
// such a one; Plain says so for a fraction of what these take. Of others it says
// nothing. Safe for concurrent use.
func Plain(la *endpointv3.ClusterLoadAssignment) bool {
	if la.GetClusterName() == "" || len(la.GetNamedEndpoints()) > 0 || la.GetPolicy() != nil || strange(la) {
		return false
	}
	for _, l := range la.GetEndpoints() {
		if !plainLocality(l) {
			return false
		}
	}
	return true
}

func plainLocality(l *endpointv3.LocalityLbEndpoints) bool {
	if l == nil || l.GetMetadata() != nil || l.GetLbConfig() != nil || l.GetProximity() != nil || l.GetPriority() > maxPriority || strange(l) {
		return false
	}
	if w := l.GetLoadBalancingWeight(); w != nil && w.GetValue() == 0 {
		return false
	}
	if at := l.GetLocality(); at != nil && strange(at) {
		return false
	}
	for _, e := range l.GetLbEndpoints() {
		if !plainEndpoint(e) {
			return false
		}
	}
	return true
}

func plainEndpoint(e *endpointv3.LbEndpoint) bool {
	if e == nil || e.GetMetadata() != nil || strange(e) {
		return false
	}
	if w := e.GetLoadBalancingWeight(); w != nil && w.GetValue() == 0 {
		return false
	}
	p := e.GetEndpoint()
	if p == nil || p.GetHealthCheckConfig() != nil || len(p.GetAdditionalAddresses()) > 0 || p.GetObservabilityName() != "" || strange(p) {
		return false
	}
	a := p.GetAddress()
	return a != nil && plainAddress(a.GetSocketAddress()) && !strange(a)
}

func plainAddress(s *corev3.SocketAddress) bool {
	_, port := s.GetPortSpecifier().(*corev3.SocketAddress_PortValue)
	return port && s.GetPortValue() <= maxPort && s.GetAddress() != "" && s.GetProtocol() == corev3.SocketAddress_TCP &&
		s.GetResolverName() == "" && s.GetNetworkNamespaceFilepath() == "" && !s.GetIpv4Compat() && !strange(s)
}

// strange reports whether a message has fields that nobody knows.
func strange(m interface{ ProtoReflect() protoreflect.Message }) bool {
	return len(m.ProtoReflect().GetUnknown()) > 0
}
