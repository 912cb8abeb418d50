// Package proxyprotocol is the listener filter
// envoy.filters.listener.proxy_protocol: it takes a PROXY protocol header off
// the connection and puts the addresses it names in the place of the socket's.
package proxyprotocol

import (
	"fmt"

	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// TLVState is the key of the filter state under which the filter keeps a [TLVs].
// The header itself is under [inspect.HeaderState].
const TLVState = "envoy.network.proxy_protocol.tlv"

// Type is the kind of filter
// (envoy/extensions/filters/listener/proxy_protocol/v3/proxy_protocol.proto;
// spec LF-08, LF-09). Statistics are "proxy_proto.*" and
// "downstream_cx_proxy_proto_error".
func Type() filter.ListenerType {
	return filter.ListenerType{Config: (*proxyprotocolv3.ProxyProtocol)(nil), New: build}
}

// names are the counters under "proxy_proto.".
func names() []string {
	return []string{
		"versions.v1.found", "versions.v1.disallowed", "versions.v1.error",
		"versions.v2.found", "versions.v2.disallowed", "versions.v2.error",
		"not_found_allowed", "not_found_disallowed",
	}
}

func build(cfg proto.Message, env *filter.Env) (filter.ListenerFactory, error) {
	c, ok := cfg.(*proxyprotocolv3.ProxyProtocol)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a ProxyProtocol", cfg)
	}
	p, err := inspect.NewProxyProtocol(c)
	if err != nil {
		return nil, fmt.Errorf("proxy_protocol: %w", err)
	}
	k := &kind{ids: make(map[string]uint32, len(names())), errors: env.Stats.Counter(inspect.ProxyErrorCounter)}
	for _, n := range names() {
		k.ids[n] = env.Stats.Counter(p.StatPrefix() + n)
	}
	return func() filter.ListenerFilter { return &inspection{kind: k, scan: p.Start()} }, nil
}

// kind is what the connections of a listener share.
type kind struct {
	ids    map[string]uint32
	errors uint32
}

// inspection is the filter of one connection.
type inspection struct {
	kind *kind
	scan inspect.ProxyScan
}

// OnAccept implements filter.ListenerFilter.
func (*inspection) OnAccept(*filter.Accepted) filter.ListenerStatus { return filter.ListenerWait }

// OnData implements filter.ListenerFilter. It consumes the header.
func (i *inspection) OnData(c *filter.Accepted, peeked []byte) (filter.ListenerStatus, int) {
	h, verdict := i.scan.Inspect(peeked)
	if verdict == inspect.NeedMore {
		return filter.ListenerWait, 0
	}
	h.Count(func(name string) { c.Stats.Inc(i.kind.ids[name]) })
	if h.IsError() {
		c.Stats.Inc(i.kind.errors)
	}
	if verdict == inspect.Reject {
		c.Logger.Debug("a connection is closed for its PROXY header", "connection", c.Info.Connection.ID, "error", h.Err)
		return filter.ListenerReject, 0
	}
	if h.Outcome == inspect.ProxyFound {
		store(c.Info, &h)
	}
	return filter.ListenerContinue, h.Length
}

// store makes known what a header says.
func store(info *filter.StreamInfo, h *inspect.ProxyHeader) {
	if h.Proxied {
		info.Connection.Remote, info.Connection.Local = address(h.Source), address(h.Destination)
	}
	for _, f := range h.Metadata {
		info.SetMetadata(f.Namespace, f.Key, structpb.NewStringValue(f.Value))
	}
	if len(h.FilterState) > 0 {
		info.SetState(TLVState, TLVs(h.FilterState))
	}
	info.SetState(inspect.HeaderState, h)
}

func address(a inspect.ProxyAddr) filter.Address {
	if a.AddrPort.IsValid() {
		return filter.IPAddress(a.AddrPort)
	}
	return filter.PipeAddress(a.Unix)
}
