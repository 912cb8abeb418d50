package filter

import (
	"net/netip"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Address is one end of a connection: IP and port, or a UNIX socket's path.
type Address struct {
	IP   netip.AddrPort
	Pipe string
}

// IPAddress is the address of an IP and a port.
func IPAddress(a netip.AddrPort) Address {
	return Address{IP: netip.AddrPortFrom(a.Addr().Unmap(), a.Port())}
}

// PipeAddress is the address of a UNIX socket.
func PipeAddress(path string) Address { return Address{Pipe: path} }

// IsValid reports whether there is an address.
func (a *Address) IsValid() bool { return a.IP.IsValid() || a.Pipe != "" }

// String is the address as Envoy prints it: "10.0.0.1:80", "[::1]:80", a path.
// It allocates; AppendTo does not.
func (a *Address) String() string {
	if !a.IP.IsValid() {
		return a.Pipe
	}
	return a.IP.String()
}

// AppendTo appends what String returns.
func (a *Address) AppendTo(dst []byte) []byte {
	if !a.IP.IsValid() {
		return append(dst, a.Pipe...)
	}
	return a.IP.AppendTo(dst)
}

// Protocol is an HTTP version.
type Protocol uint8

// HTTP versions.
const (
	NoProtocol Protocol = iota
	HTTP10
	HTTP11
	HTTP2
	HTTP3
)

// String is %PROTOCOL%.
func (p Protocol) String() string {
	return [...]string{"", "HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"}[p]
}

// CertInfo is what is known of a certificate.
type CertInfo struct {
	URISANs, DNSSANs, IPSANs, EmailSANs, OtherNameSANs []string
	Subject, Issuer, Serial                            string
	// Fingerprints are lower-case hex.
	Fingerprint256, Fingerprint1 string
	NotBefore, NotAfter          time.Time
	// PEM is the certificate URL-encoded as Envoy does, Chain the whole chain.
	PEM, Chain string
	// ChainFingerprints256, ChainFingerprints1 and ChainSerials are those of
	// all certificates presented, leaf first.
	ChainFingerprints256, ChainFingerprints1, ChainSerials []string
}

// TLSInfo is what is known of a TLS connection.
type TLSInfo struct {
	// Version and Cipher are spelled as Envoy does: "TLSv1.3",
	// "TLS_AES_128_GCM_SHA256".
	Version, Cipher, ALPN, SNI, SessionID string
	// Group is the name of the group of the key agreement, such as "X25519".
	Group string
	// PeerPresented and PeerValidated tell of the peer's certificate.
	PeerPresented, PeerValidated, Resumed bool
	// Peer is the peer's certificate or nil, Local ours.
	Peer, Local *CertInfo
}

// ConnectionInfo is what is known of a downstream connection; its streams share it.
type ConnectionInfo struct {
	// ID is %CONNECTION_ID%.
	ID uint64
	// Local and Remote are the addresses in force, which listener filters may change.
	Local, Remote Address
	direct        *[2]Address // local and remote; nil: those in force
	// RequestedServerName is the SNI.
	RequestedServerName string
	// FilterChain is the name of the chain.
	FilterChain string
	// TLS is nil on plain text.
	TLS *TLSInfo
	// HandshakeDone is when TLS was up, since the process started; 0 if not.
	HandshakeDone time.Duration
	// Start is when it was accepted.
	Start time.Duration
	// ListenerMetadata and FilterChainMetadata are the configuration's.
	ListenerMetadata, FilterChainMetadata *corev3.Metadata
	end                                   *ConnectionEnd // nil while nothing is known
}

// KeepDirect makes the present addresses those of the socket, whatever those in force
// become. It is called before anything may change them.
func (i *ConnectionInfo) KeepDirect() {
	if i.direct == nil {
		i.direct = &[2]Address{i.Local, i.Remote}
	}
}

// DirectLocal is the socket's own local address (%DOWNSTREAM_DIRECT_LOCAL_ADDRESS%). It
// is not to be changed.
func (i *ConnectionInfo) DirectLocal() *Address {
	if i.direct == nil {
		return &i.Local
	}
	return &i.direct[0]
}

// DirectRemote is where the socket is connected to
// (%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%). It is not to be changed.
func (i *ConnectionInfo) DirectRemote() *Address {
	if i.direct == nil {
		return &i.Remote
	}
	return &i.direct[1]
}

// End is how the connection ended, or is about to, as far as is known.
func (i *ConnectionInfo) End() ConnectionEnd {
	if i.end == nil {
		return ConnectionEnd{}
	}
	return *i.end
}

// Ending is what End tells, to be filled in.
func (i *ConnectionInfo) Ending() *ConnectionEnd {
	if i.end == nil {
		i.end = &ConnectionEnd{}
	}
	return i.end
}

// ConnectionEnd is how a connection ended, or is about to.
type ConnectionEnd struct {
	// TransportFailure is %DOWNSTREAM_TRANSPORT_FAILURE_REASON%.
	TransportFailure string
	// TerminationDetails is %CONNECTION_TERMINATION_DETAILS%.
	TerminationDetails string
	// LocalCloseReason is %DOWNSTREAM_LOCAL_CLOSE_REASON%, Detected how the
	// connection was found to end.
	LocalCloseReason string
	Detected         DetectedClose
}

// DetectedClose is how a connection was found to end.
type DetectedClose uint8

// The ways a connection ends; ClosedNormally is also one that is open.
const (
	ClosedNormally DetectedClose = iota
	ClosedByLocalReset
	ClosedByRemoteReset
)

// String is the type as access logs show it.
func (t DetectedClose) String() string {
	return [...]string{"Normal", "LocalReset", "RemoteReset"}[t]
}

// UpstreamInfo is what is known of the last upstream attempt.
type UpstreamInfo struct {
	// Host is %UPSTREAM_HOST%: the chosen host's address.
	Host Address
	// HostName is the endpoint's hostname.
	HostName string
	// Local is the address of our end.
	Local Address
	// ConnectionID identifies the upstream connection.
	ConnectionID uint64
	// Protocol is what is spoken with it.
	Protocol Protocol
	// TLS is nil on plain text.
	TLS *TLSInfo
	// TransportFailure is %UPSTREAM_TRANSPORT_FAILURE_REASON%.
	TransportFailure string
	// Metadata and LocalityMetadata are the endpoint's.
	Metadata *corev3.Metadata
	// Zone, Region and SubZone are the host's locality.
	Region, Zone, SubZone string
	// PoolReady is how long the request waited for a connection, or for the
	// answer that it gets none, once PoolAnswered says so. There may be an answer
	// although no host was chosen.
	PoolReady    time.Duration
	PoolAnswered bool
	// WireSent and WireReceived count bytes on the upstream connection.
	WireSent, WireReceived uint64
	// Attempted lists the hosts that were connected to, oldest first; of an HTTP
	// request only that of the last attempt, as in Envoy.
	Attempted []Address
	// AttemptedNames and AttemptedIDs are the names of these hosts, and the
	// connections that were used.
	AttemptedNames []string
	AttemptedIDs   []uint64
	// ConnectStart, ConnectEnd and HandshakeEnd are the instants of the
	// connection's making, since the process started; 0 if they have not come.
	ConnectStart, ConnectEnd, HandshakeEnd time.Duration
	// BodyStart is when the first byte of the response's body came; 0 if it has not.
	BodyStart time.Duration
	// LocalCloseReason is %UPSTREAM_LOCAL_CLOSE_REASON%, DetectedClose how the
	// connection was found to end.
	LocalCloseReason string
	DetectedClose    DetectedClose
}

// Timing are the instants of a stream, since the process started; -1 while
// they have not come.
type Timing struct {
	Start          time.Duration
	LastRx         time.Duration // last byte of the request received
	FirstUpstream  time.Duration // first byte sent upstream
	LastUpstreamTx time.Duration
	FirstUpstrRx   time.Duration
	LastUpstreamRx time.Duration
	FirstTx        time.Duration // first byte of the response sent
	LastTx         time.Duration
	End            time.Duration
}

// Reset says that nothing has happened but the start.
func (t *Timing) Reset(start time.Duration) {
	t.Start = start // one by one: a whole value would be made elsewhere and copied
	t.LastRx, t.FirstUpstream, t.LastUpstreamTx, t.FirstUpstrRx = -1, -1, -1, -1
	t.LastUpstreamRx, t.FirstTx, t.LastTx, t.End = -1, -1, -1, -1
}

// StreamInfo is what is known of a stream, or of a connection that has no
// streams. Filters, access logs and formatters share it (HF-14). It is confined
// to the worker and lives as long as the stream.
type StreamInfo struct {
	// StartTime is the wall time of the start.
	StartTime time.Time
	Timing    Timing

	// Protocol is the downstream HTTP version.
	Protocol Protocol
	// ResponseCode is 0 when there was none.
	ResponseCode int
	// Details is %RESPONSE_CODE_DETAILS%.
	Details string
	// Flags are %RESPONSE_FLAGS%.
	Flags Flags

	// Bytes of bodies, and of everything on the wire.
	BytesReceived, BytesSent                                       uint64
	DownstreamWireReceived, DownstreamWireSent                     uint64
	RequestHeadersBytes, ResponseHeadersBytes, ResponseTrailersLen uint64

	// RouteName, VirtualHost and Cluster are the route's.
	RouteName, VirtualHost, Cluster string
	// ClusterStatName is the cluster's alt_stat_name, if it has one.
	ClusterStatName string
	// VirtualCluster is %VIRTUAL_CLUSTER_NAME%.
	VirtualCluster string
	// RouteMetadata, VirtualHostMetadata and ClusterMetadata are the
	// configuration's, nil without.
	RouteMetadata, VirtualHostMetadata, ClusterMetadata *corev3.Metadata
	// Attempts is %UPSTREAM_REQUEST_ATTEMPT_COUNT%.
	Attempts int
	// RequestID is the stream's x-request-id.
	RequestID string
	// StreamID identifies the stream in logs.
	StreamID uint64
	// HealthCheck says that a filter found the request to be a health check.
	HealthCheck bool
	// LocalReplyBody is %LOCAL_REPLY_BODY%.
	LocalReplyBody string

	// Remote is the stream's trusted client (HC-30), in place of the
	// connection's remote address when valid.
	Remote Address
	// Connection is the downstream connection.
	Connection *ConnectionInfo
	// Upstream is the last attempt, if HasUpstream.
	Upstream    UpstreamInfo
	HasUpstream bool
	// UpstreamAsked is set where a connection was asked for although no host may
	// be known, as of a connection of tcp_proxy.
	UpstreamAsked bool

	// Metadata is the dynamic metadata by namespace; nil until somebody adds.
	Metadata map[string]*structpb.Struct
	// State is the filter state by key; nil until somebody adds. Values that
	// have a String method are shown in access logs, those that are [Hashable]
	// can be balanced by.
	State map[string]any
}

// SetMetadata sets a field of the dynamic metadata.
func (i *StreamInfo) SetMetadata(namespace, key string, v *structpb.Value) {
	if i.Metadata == nil {
		i.Metadata = map[string]*structpb.Struct{}
	}
	s := i.Metadata[namespace]
	if s == nil {
		s = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		i.Metadata[namespace] = s
	}
	s.Fields[key] = v
}

// SetState sets an object of the filter state.
func (i *StreamInfo) SetState(key string, v any) {
	if i.State == nil {
		i.State = map[string]any{}
	}
	i.State[key] = v
}

// Hashable is an object of the filter state that a hash_policy's filter_state can
// take (RT-24, NF-07).
type Hashable interface {
	// Hash is the object's hash, or false if it has none just now. It must not
	// block.
	Hash() (hash uint64, ok bool)
}
