package chainmatch

import (
	"net/netip"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/matchtree"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Transport protocols as listener filters report them.
const (
	// RawBuffer is plain text, or what no listener filter recognised.
	RawBuffer = "raw_buffer"
	// TLS is a connection that starts with a ClientHello.
	TLS = "tls"
)

// Input is what a connection shows once its listener filters are done. Its
// addresses have no zone. An IPv4-mapped IPv6 address is an IPv6 address here:
// whoever accepts on a dual-stack socket unmaps its addresses first.
type Input struct {
	// DestPort is the port of the connection's local address, original or
	// restored; 0 for a Unix socket.
	DestPort uint16
	// DestIP is the local address; invalid for a Unix socket.
	DestIP netip.Addr
	// SNI is the requested server name in lower case, empty without one.
	SNI string
	// Transport is the detected transport protocol; empty means RawBuffer.
	Transport string
	// ALPN holds the application protocols the client offers, in its order.
	ALPN []string
	// DirectSource is the address of the physical peer; invalid for a Unix
	// socket.
	DirectSource netip.Addr
	// Source is the remote address, as restored by a PROXY header if any;
	// invalid for a Unix socket.
	Source netip.Addr
	// SourcePort is the port that goes with Source; 0 for a Unix socket.
	SourcePort uint16
	// Stream has the connection's dynamic metadata and filter state; nil without
	// any. Only a filter_chain_matcher looks at them.
	Stream *filter.StreamInfo
	// Stats counts what a filter_chain_matcher counts; it may be nil.
	Stats *stats.Shard
}

// Matcher is the compiled form of a listener's filter chains. It is immutable
// and safe for concurrent use.
type Matcher struct {
	ports    portLevel
	needsTLS bool
	tree     *matchtree.Tree[*Input, int] // decides instead, if there is one

	looksIntoTLS bool
	notes        []string
}

// Match returns the index of the chain to use, or -1 when none fits: the
// caller then takes the default chain or closes the connection. It allocates
// nothing, unless a filter_chain_matcher decides. Source: spec FC-01 to FC-06,
// FC-13.
func (m *Matcher) Match(in *Input) int {
	if m.tree != nil {
		return m.byTree(in)
	}
	level, ok := m.ports[in.DestPort]
	if !ok {
		if level, ok = m.ports[0]; !ok {
			return -1
		}
	}
	servers, ok := level.lookup(standIn(in.DestIP))
	if !ok {
		return -1
	}
	transports, ok := servers.lookup(in.SNI)
	if !ok {
		return -1
	}
	transport := in.Transport
	if transport == "" {
		transport = RawBuffer
	}
	protocols, ok := transports.lookup(transport)
	if !ok {
		return -1
	}
	direct, ok := protocols.lookup(in.ALPN)
	if !ok {
		return -1
	}
	types, ok := direct.lookup(standIn(in.DirectSource))
	if !ok {
		return -1
	}
	return types.match(in)
}

func (l *typeLevel) match(in *Input) int {
	level := l[listenerv3.FilterChainMatch_EXTERNAL]
	if isLocal(in) {
		level = l[listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK]
	}
	if level == nil {
		if level = l[listenerv3.FilterChainMatch_ANY]; level == nil {
			return -1
		}
	}
	ports, ok := level.lookup(standIn(in.Source))
	if !ok {
		return -1
	}
	index, ok := ports.lookup(in.SourcePort)
	if !ok {
		return -1
	}
	return index
}

// NeedsTLSInspector reports whether some chain can only be told apart by what
// a ClientHello shows: transport protocol tls, or server names or application
// protocols without another transport protocol. A listener that has no
// tls_inspector then gets one. Source: spec LF-05.
func (m *Matcher) NeedsTLSInspector() bool { return m.needsTLS }

// isLocal is SAME_IP_OR_LOOPBACK: a Unix socket, the loopback address itself
// (not the rest of 127.0.0.0/8), or equal addresses at both ends.
func isLocal(in *Input) bool {
	if !in.Source.IsValid() {
		return true
	}
	return in.Source == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || in.Source == netip.IPv6Loopback() || in.Source == in.DestIP
}

// standIn gives a Unix socket the address Envoy uses for it,
// 255.255.255.255, so that 0.0.0.0/0 contains it.
func standIn(a netip.Addr) netip.Addr {
	if !a.IsValid() {
		return netip.AddrFrom4([4]byte{255, 255, 255, 255})
	}
	return a
}
