// Package httpinspector is the listener filter
// envoy.filters.listener.http_inspector: it tells HTTP/1.0, HTTP/1.1 and HTTP/2
// with prior knowledge from the first line, for the choice of a filter chain by
// application protocol.
package httpinspector

import (
	"fmt"

	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// Type is the kind of filter
// (envoy/extensions/filters/listener/http_inspector/v3/http_inspector.proto;
// spec LF-10). Statistics are "http_inspector.*".
func Type() filter.ListenerType {
	return filter.ListenerType{Config: (*httpinspectorv3.HttpInspector)(nil), New: build}
}

// outcomes are what an inspection can come to; each has a counter.
const outcomes = inspect.HTTPTooLong + 1

// counters are the ids of the counters by outcome.
type counters [outcomes]uint32

func build(cfg proto.Message, env *filter.Env) (filter.ListenerFactory, error) {
	if _, ok := cfg.(*httpinspectorv3.HttpInspector); !ok {
		return nil, fmt.Errorf("a configuration of type %T is not an HttpInspector", cfg)
	}
	var ids counters
	for o := range outcomes {
		ids[o] = env.Stats.Counter("http_inspector." + o.Counter())
	}
	return func() filter.ListenerFilter { return &inspection{ids: &ids} }, nil
}

// inspection is the filter of one connection.
type inspection struct {
	ids  *counters
	scan inspect.HTTPScan
}

// OnAccept implements filter.ListenerFilter. A connection known to be TLS is
// left alone.
func (*inspection) OnAccept(c *filter.Accepted) filter.ListenerStatus {
	if c.TransportProtocol != "" && c.TransportProtocol != "raw_buffer" {
		return filter.ListenerContinue
	}
	return filter.ListenerWait
}

// OnData implements filter.ListenerFilter. It consumes nothing.
func (i *inspection) OnData(c *filter.Accepted, peeked []byte) (filter.ListenerStatus, int) {
	found, verdict := i.scan.Inspect(peeked)
	if verdict == inspect.NeedMore {
		return filter.ListenerWait, 0
	}
	c.Stats.Inc(i.ids[found])
	if verdict == inspect.Reject {
		return filter.ListenerReject, 0
	}
	if p := found.ApplicationProtocol(); p != "" {
		c.ApplicationProtocols = []string{p}
	}
	return filter.ListenerContinue, 0
}
