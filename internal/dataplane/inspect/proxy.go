package inspect

import (
	"errors"
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxy_protocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
)

// ProxyProtocolNamespace holds the metadata of rules that name no namespace.
const ProxyProtocolNamespace = "envoy.filters.listener.proxy_protocol"

// HeaderState is the key of the filter state under which the proxy_protocol filter
// keeps the [*ProxyHeader] of a connection, for PROXY headers upstream.
const HeaderState = "envoy.network.proxy_protocol_options"

// HeaderLengthV2 is the length of a version 2 header without addresses and
// extensions, which the last two bytes of it count.
const HeaderLengthV2 = 16

// ProxyProtocol is the configuration of a proxy_protocol listener filter. It is
// immutable and safe for concurrent use.
type ProxyProtocol struct {
	allowWithout  bool
	disallowed    [3]bool // by version
	rules         map[byte]*proxy_protocolv3.ProxyProtocol_KeyValuePair
	inFilterState bool
	passAll       bool
	pass          [256]bool
	statPrefix    string
}

// NewProxyProtocol reads the configuration; nil means all defaults: every
// connection must start with a header, of either version, and no TLV is kept.
// Source: envoy/extensions/filters/listener/proxy_protocol/v3/proxy_protocol.proto;
// spec LF-08, LF-09.
func NewProxyProtocol(c *proxy_protocolv3.ProxyProtocol) (*ProxyProtocol, error) {
	p := &ProxyProtocol{
		allowWithout: c.GetAllowRequestsWithoutProxyProtocol(),
		rules:        map[byte]*proxy_protocolv3.ProxyProtocol_KeyValuePair{},
		statPrefix:   "proxy_proto.",
	}
	if prefix := c.GetStatPrefix(); prefix != "" {
		p.statPrefix += prefix + "."
	}
	err := errors.Join(p.readVersions(c.GetDisallowedVersions()), p.readRules(c.GetRules()),
		p.readPassThrough(c.GetPassThroughTlvs()), p.readLocation(c.GetTlvLocation()))
	if err != nil {
		return nil, err
	}
	return p, nil
}

// StatPrefix is what the names that [ProxyHeader.Count] gives stand under:
// "proxy_proto." or "proxy_proto.<stat_prefix>.".
func (p *ProxyProtocol) StatPrefix() string { return p.statPrefix }

func (p *ProxyProtocol) readVersions(list []corev3.ProxyProtocolConfig_Version) error {
	for i, v := range list {
		switch v {
		case corev3.ProxyProtocolConfig_V1:
			p.disallowed[1] = true
		case corev3.ProxyProtocolConfig_V2:
			p.disallowed[2] = true
		default:
			return fmt.Errorf("disallowed_versions[%d]: %d is not one of V1, V2", i, v)
		}
	}
	if p.disallowed[1] && p.disallowed[2] {
		return errors.New("Proxy Protocol filter is misconfigured: all proxy protocol versions are disallowed.") //nolint:revive,staticcheck // Envoy's text
	}
	return nil
}

func (p *ProxyProtocol) readRules(rules []*proxy_protocolv3.ProxyProtocol_Rule) error {
	for i, r := range rules {
		if r.GetTlvType() > 255 {
			return fmt.Errorf("rules[%d].tlv_type: %d: value must be less than 256", i, r.GetTlvType())
		}
		pair := r.GetOnTlvPresent()
		if pair != nil && pair.GetKey() == "" {
			return fmt.Errorf("rules[%d].on_tlv_present.key: value length must be at least 1 characters", i)
		}
		if e := pair.GetValueStringEncoding(); e < 0 || e > proxy_protocolv3.ProxyProtocol_KeyValuePair_BASE64 {
			return fmt.Errorf("rules[%d].on_tlv_present.value_string_encoding: %d is not one of SANITIZED_UTF8, BASE64", i, e)
		}
		p.rules[byte(r.GetTlvType())] = pair
	}
	return nil
}

func (p *ProxyProtocol) readPassThrough(c *corev3.ProxyProtocolPassThroughTLVs) error {
	if c == nil {
		return nil
	}
	switch c.GetMatchType() {
	case corev3.ProxyProtocolPassThroughTLVs_INCLUDE_ALL:
		p.passAll = true
	case corev3.ProxyProtocolPassThroughTLVs_INCLUDE:
	default:
		return fmt.Errorf("pass_through_tlvs.match_type: %d is not one of INCLUDE_ALL, INCLUDE", c.GetMatchType())
	}
	for i, t := range c.GetTlvType() {
		if t > 255 {
			return fmt.Errorf("pass_through_tlvs.tlv_type[%d]: %d: value must be less than 256", i, t)
		}
		p.pass[t] = true
	}
	return nil
}

func (p *ProxyProtocol) readLocation(l proxy_protocolv3.ProxyProtocol_TlvLocation) error {
	switch l {
	case proxy_protocolv3.ProxyProtocol_DYNAMIC_METADATA:
	case proxy_protocolv3.ProxyProtocol_FILTER_STATE:
		p.inFilterState = true
	default:
		return fmt.Errorf("tlv_location: %d is not one of DYNAMIC_METADATA, FILTER_STATE", l)
	}
	return nil
}

// ProxyOutcome is what an inspection for a PROXY header came to.
type ProxyOutcome uint8

const (
	// ProxyNotFound means that the first bytes are not a PROXY header: allowed
	// or not, as the verdict says.
	ProxyNotFound ProxyOutcome = iota
	// ProxyFound means a valid header.
	ProxyFound
	// ProxyDisallowed means a header of a version in disallowed_versions.
	ProxyDisallowed
	// ProxyError means a header that is not valid.
	ProxyError
)

// ProxyAddr is one end of the connection that a PROXY header speaks of.
type ProxyAddr struct {
	// AddrPort is the address of TCP or UDP; invalid for a Unix socket.
	AddrPort netip.AddrPort
	// Unix is the path of a Unix socket, empty for an unnamed one.
	Unix string
}

// TLV is an extension of a version 2 header.
type TLV struct {
	Type  byte
	Value []byte
}

// TLVField is a TLV that a rule asks to be stored.
type TLVField struct {
	// Namespace is that of the dynamic metadata; empty for filter state.
	Namespace string
	Key       string
	// Value is the text to store, in the encoding of the rule.
	Value string
	// Raw is the value as received, for typed metadata.
	Raw []byte
}

// ProxyHeader is the result of an inspection for a PROXY header.
type ProxyHeader struct {
	Outcome ProxyOutcome
	// Version is 1 or 2; 0 for ProxyNotFound.
	Version int
	// Length counts the bytes of the header, which must be consumed; 0 unless
	// Outcome is ProxyFound.
	Length int
	// Proxied is false for LOCAL and UNKNOWN headers: the connection keeps its
	// own addresses.
	Proxied bool
	// Source and Destination replace the remote and the local address when
	// Proxied. Both are of one family.
	Source, Destination ProxyAddr
	// TLVs holds the extensions in order; nil for LOCAL.
	TLVs []TLV
	// PassThrough holds those of TLVs that pass_through_tlvs keeps for upstream
	// PROXY headers.
	PassThrough []TLV
	// Metadata holds what the rules store in dynamic metadata: of each type the
	// first TLV.
	Metadata []TLVField
	// FilterState holds what the rules store in the filter state
	// envoy.network.proxy_protocol.tlv instead: of each type the last TLV.
	FilterState []TLVField
	// Err says what is wrong; nil when the verdict is Done.
	Err error
}

// ProxyErrorCounter is the counter, under no prefix, of connections closed
// because their PROXY header is missing or malformed.
const ProxyErrorCounter = "downstream_cx_proxy_proto_error"

// Count calls inc with the name, without [ProxyProtocol.StatPrefix], of each
// counter that the result adds one to. Whether ProxyErrorCounter grows as well
// is for [ProxyHeader.IsError] to say.
func (h *ProxyHeader) Count(inc func(counter string)) {
	v := "versions.v1."
	if h.Version == 2 {
		v = "versions.v2."
	}
	switch h.Outcome {
	case ProxyFound:
		inc(v + "found")
	case ProxyDisallowed:
		inc(v + "found")
		inc(v + "disallowed")
	case ProxyError:
		inc(v + "error")
	default:
		if h.Err == nil {
			inc("not_found_allowed")
		} else {
			inc("not_found_disallowed")
		}
	}
}

// IsError reports whether the result adds one to ProxyErrorCounter.
func (h *ProxyHeader) IsError() bool {
	return h.Outcome == ProxyError || h.Outcome == ProxyNotFound && h.Err != nil
}
