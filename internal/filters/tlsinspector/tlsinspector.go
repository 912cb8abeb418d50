// Package tlsinspector is the listener filter envoy.filters.listener.tls_inspector:
// it reads a TLS ClientHello without consuming it, for the choice of a filter
// chain by transport protocol, server name and application protocols.
package tlsinspector

import (
	"fmt"

	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// Namespace holds the dynamic metadata that the filter sets: failure_reason.
const Namespace = "envoy.filters.listener.tls_inspector"

// Type is the kind of filter
// (envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.proto; spec
// LF-04, LF-06). Statistics are "tls_inspector.*".
func Type() filter.ListenerType {
	return filter.ListenerType{Config: (*tlsinspectorv3.TlsInspector)(nil), New: build}
}

// names are the counters under "tls_inspector.".
func names() []string {
	return []string{
		"client_hello_too_large", "tls_found", "tls_not_found", "alpn_found", "alpn_not_found",
		"sni_found", "sni_not_found",
	}
}

func build(cfg proto.Message, env *filter.Env) (filter.ListenerFactory, error) {
	c, ok := cfg.(*tlsinspectorv3.TlsInspector)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a TlsInspector", cfg)
	}
	inspector, err := inspect.NewTLSInspector(c)
	if err != nil {
		return nil, fmt.Errorf("tls_inspector: %w", err)
	}
	ids := make(map[string]uint32, len(names()))
	for _, n := range names() {
		ids[n] = env.Stats.Counter("tls_inspector." + n)
	}
	return func() filter.ListenerFilter { return &inspection{ids: ids, scan: inspector.Start()} }, nil
}

// inspection is the filter of one connection.
type inspection struct {
	ids  map[string]uint32
	scan inspect.HelloScan
}

// OnAccept implements filter.ListenerFilter.
func (*inspection) OnAccept(*filter.Accepted) filter.ListenerStatus { return filter.ListenerWait }

// OnData implements filter.ListenerFilter. It consumes nothing.
func (i *inspection) OnData(c *filter.Accepted, peeked []byte) (filter.ListenerStatus, int) {
	hello, verdict := i.scan.Inspect(peeked)
	if verdict == inspect.NeedMore {
		return filter.ListenerWait, 0
	}
	hello.Count(func(name string) { c.Stats.Inc(i.ids[name]) })
	if reason := hello.FailureReason(); reason != "" {
		c.Info.SetMetadata(Namespace, "failure_reason", structpb.NewStringValue(reason))
	}
	if verdict == inspect.Reject {
		return filter.ListenerReject, 0
	}
	c.TransportProtocol = hello.Transport()
	if hello.Outcome == inspect.HelloFound {
		c.Info.Connection.RequestedServerName = hello.SNI
		c.ApplicationProtocols = hello.ALPN
	}
	return filter.ListenerContinue, 0
}
