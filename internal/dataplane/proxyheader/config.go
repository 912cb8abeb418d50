package proxyheader

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// Config is how the headers of a transport socket are made.
type Config struct {
	version  int
	passAll  bool
	pass     [256]bool
	added    TLVs
	tlvsTell bool    // connections of other TLVs are not shared
	inner    *Config // of the socket within, or nil
}

// New reads the configuration of a socket; inner is that of the socket within, nil
// if that sends no header of its own. o is for format_string. An error begins with
// the path of its field.
func New(m *upstreamv3.ProxyProtocolUpstreamTransport, inner *Config, o format.Options) (*Config, error) {
	conf := m.GetConfig()
	c := &Config{tlvsTell: m.GetTlvAsPoolKey(), inner: inner}
	switch conf.GetVersion() {
	case corev3.ProxyProtocolConfig_V1:
		c.version = 1
	case corev3.ProxyProtocolConfig_V2:
		c.version = 2
	default:
		return nil, fmt.Errorf("config.version: %d is not one of V1, V2", conf.GetVersion())
	}
	if m.GetAllowUnspecifiedAddress() {
		return nil, errors.New("allow_unspecified_address: known but not built, as in Envoy; remove it")
	}
	if err := c.readPassThrough(conf.GetPassThroughTlvs()); err != nil {
		return nil, fmt.Errorf("config.pass_through_tlvs.%w", err)
	}
	var err error
	if c.added, err = ReadTLVs("config.added_tlvs", conf.GetAddedTlvs(), o); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) readPassThrough(p *corev3.ProxyProtocolPassThroughTLVs) error {
	if p == nil {
		return nil
	}
	switch p.GetMatchType() {
	case corev3.ProxyProtocolPassThroughTLVs_INCLUDE_ALL:
		c.passAll = true
	case corev3.ProxyProtocolPassThroughTLVs_INCLUDE:
	default:
		return fmt.Errorf("match_type: %d is not one of INCLUDE_ALL, INCLUDE", p.GetMatchType())
	}
	for i, t := range p.GetTlvType() {
		if t > 255 {
			return fmt.Errorf("tlv_type[%d]: %d: value must be less than 256", i, t)
		}
		c.pass[t] = true
	}
	return nil
}
