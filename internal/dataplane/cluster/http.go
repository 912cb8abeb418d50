package cluster

import (
	"errors"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// ProtocolMode is how the protocol to the upstream is chosen (CM-18).
type ProtocolMode uint8

// The protocol modes.
const (
	// ExplicitHTTP1 and ExplicitHTTP2 always use that protocol.
	ExplicitHTTP1 ProtocolMode = iota
	ExplicitHTTP2
	// DownstreamProtocol uses that of the client's request.
	DownstreamProtocol
	// AutoProtocol uses what ALPN agrees on.
	AutoProtocol
)

// HTTPOptions are a cluster's HttpProtocolOptions with their defaults, from
// the extension or from the deprecated fields of Cluster.
type HTTPOptions struct {
	Mode  ProtocolMode
	HTTP1 HTTP1Options
	HTTP2 HTTP2Options

	// IdleTimeout closes connections without a request; default one hour, 0
	// never.
	IdleTimeout time.Duration
	// MaxConnectionDuration drains older connections, MaxStreamDuration resets
	// older streams; 0 means no limit.
	MaxConnectionDuration time.Duration
	// MaxConnectionDurationJitter adds up to this percentage.
	MaxConnectionDurationJitter float64
	MaxStreamDuration           time.Duration
	// MaxHeadersCount limits the headers of a response; default 100.
	MaxHeadersCount uint32
	// MaxResponseHeadersKB limits the headers of a response in KiB; default 60,
	// and 80 of a response of HTTP/1.
	MaxResponseHeadersKB, MaxResponseHeadersH1KB uint32
	// MaxRequestsPerConnection drains a connection after as many; 0 no limit.
	MaxRequestsPerConnection uint32
	// Underscores is what happens to header names with one.
	Underscores corev3.HttpProtocolOptions_HeadersWithUnderscoresAction

	// AutoSNI takes the server name from the Host header or OverrideSNIHeader,
	// AutoSAN checks the certificate for the same name.
	AutoSNI, AutoSAN bool
	// Filters are the upstream HTTP filters, the codec last (HF-13).
	Filters           []*hcmv3.HttpFilter
	OverrideSNIHeader string
}

// HTTP1Options are Http1ProtocolOptions for upstream connections.
type HTTP1Options struct {
	// ProperCase and PreserveCase are the header_key_format.
	ProperCase, PreserveCase bool
	EnableTrailers           bool
	AllowChunkedLength       bool
	// StreamErrorOnInvalidMessage keeps the connection of a broken message.
	StreamErrorOnInvalidMessage bool
	// SendFullyQualifiedURL writes the absolute form of the target.
	SendFullyQualifiedURL bool
	AllowCustomMethods    bool
	AcceptHTTP10          bool
}

// HTTP2Options are Http2ProtocolOptions with their defaults.
type HTTP2Options struct {
	HpackTableSize                          uint32 // 4096
	MaxConcurrentStreams                    uint32 // 1024
	InitialStreamWindowSize                 uint32 // 16 MiB
	InitialConnectionWindowSize             uint32 // 24 MiB
	AllowConnect                            bool
	MaxOutboundFrames                       uint32 // 10000
	MaxOutboundControlFrames                uint32 // 1000
	MaxConsecutiveInboundEmptyFrames        uint32 // 1
	MaxInboundPriorityFramesPerStream       uint32 // 100
	MaxInboundWindowUpdatesPerDataFrameSent uint32 // 10
	// StreamErrorOnInvalidMessage resets the stream instead of the connection.
	StreamErrorOnInvalidMessage bool
	// Keepalive is nil without connection_keepalive.
	Keepalive *Keepalive
}

// Keepalive is HTTP/2's connection_keepalive (CM-23).
type Keepalive struct {
	// Interval of PINGs; 0 sends none at intervals.
	Interval time.Duration
	// IntervalJitter adds up to this percentage; default 15.
	IntervalJitter float64
	// Timeout closes a connection that does not answer.
	Timeout time.Duration
	// ConnectionIdleInterval sends a PING before a stream on a connection that
	// was idle as long; 0 does not.
	ConnectionIdleInterval time.Duration
}

const httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// newHTTPOptions reads the extension, or without it the deprecated fields.
func newHTTPOptions(c *clusterv3.Cluster) (HTTPOptions, error) {
	var ext *httpv3.HttpProtocolOptions
	for name, config := range c.GetTypedExtensionProtocolOptions() {
		if name != httpOptionsKey {
			return HTTPOptions{}, fmt.Errorf("typed_extension_protocol_options: Didn't find a registered network or http filter or protocol options implementation for name: '%s'", name)
		}
		ext = &httpv3.HttpProtocolOptions{}
		if err := unpack(config, ext); err != nil {
			return HTTPOptions{}, fmt.Errorf("typed_extension_protocol_options[%s].%w", name, err)
		}
	}
	if ext == nil {
		return deprecatedOptions(c)
	}
	o, err := extensionOptions(c, ext)
	if err != nil {
		return o, fmt.Errorf("typed_extension_protocol_options[%s].%w", httpOptionsKey, err)
	}
	return o, nil
}

func extensionOptions(c *clusterv3.Cluster, ext *httpv3.HttpProtocolOptions) (HTTPOptions, error) {
	if err := refuseHTTP(ext); err != nil {
		return HTTPOptions{}, err
	}
	o, err := commonOptions(ext.GetCommonHttpProtocolOptions(), ext.GetUpstreamHttpProtocolOptions())
	if err != nil {
		return o, err
	}
	o.Filters = ext.GetHttpFilters()
	var h1 *corev3.Http1ProtocolOptions
	var h2 *corev3.Http2ProtocolOptions
	switch v := ext.GetUpstreamProtocolOptions().(type) {
	case *httpv3.HttpProtocolOptions_ExplicitHttpConfig_:
		h1, h2 = v.ExplicitHttpConfig.GetHttpProtocolOptions(), v.ExplicitHttpConfig.GetHttp2ProtocolOptions()
		if v.ExplicitHttpConfig.GetHttp3ProtocolOptions() != nil {
			return o, errors.New("explicit_http_config.http3_protocol_options: HTTP/3 is known but not built")
		}
		if h2 != nil {
			o.Mode = ExplicitHTTP2
		}
	case *httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig:
		o.Mode = DownstreamProtocol
		h1, h2 = v.UseDownstreamProtocolConfig.GetHttpProtocolOptions(), v.UseDownstreamProtocolConfig.GetHttp2ProtocolOptions()
		if v.UseDownstreamProtocolConfig.GetHttp3ProtocolOptions() != nil {
			return o, errors.New("use_downstream_protocol_config.http3_protocol_options: HTTP/3 is known but not built")
		}
	case *httpv3.HttpProtocolOptions_AutoConfig:
		o.Mode = AutoProtocol
		h1, h2 = v.AutoConfig.GetHttpProtocolOptions(), v.AutoConfig.GetHttp2ProtocolOptions()
		if v.AutoConfig.GetHttp3ProtocolOptions() != nil || v.AutoConfig.GetAlternateProtocolsCacheOptions() != nil {
			return o, errors.New("auto_config: HTTP/3 (http3_protocol_options, alternate_protocols_cache_options) is known but not built")
		}
		if !usesTLS(c) {
			return o, fmt.Errorf("auto_config: ALPN configured for cluster %s which has a non-ALPN transport socket", c.GetName())
		}
	}
	return o, o.codecs(h1, h2)
}

// refuseHTTP names what is not built of the extension.
func refuseHTTP(ext *httpv3.HttpProtocolOptions) error {
	switch {
	case ext.GetHeaderValidationConfig() != nil:
		return errors.New("header_validation_config: known but not built")
	case ext.GetOutlierDetection() != nil:
		return errors.New("outlier_detection: known but not built")
	case len(ext.GetRequestMirrorPolicies()) > 0:
		return errors.New("request_mirror_policies: known but not built; configure them at the route")
	case len(ext.GetHashPolicy()) > 0:
		return errors.New("hash_policy: known but not built; configure it at the route")
	case ext.GetRetryPolicy() != nil:
		return errors.New("retry_policy: known but not built; configure it at the route")
	}
	return nil
}

// deprecatedOptions reads the fields of Cluster that the extension replaces.
func deprecatedOptions(c *clusterv3.Cluster) (HTTPOptions, error) {
	//nolint:staticcheck // deprecated, and still in use
	common, up := c.GetCommonHttpProtocolOptions(), c.GetUpstreamHttpProtocolOptions()
	o, err := commonOptions(common, up)
	if err != nil {
		return o, err
	}
	if n := c.GetMaxRequestsPerConnection(); n != nil && common.GetMaxRequestsPerConnection() == nil { //nolint:staticcheck // deprecated
		o.MaxRequestsPerConnection = n.GetValue()
	}
	h1, h2 := c.GetHttpProtocolOptions(), c.GetHttp2ProtocolOptions() //nolint:staticcheck // deprecated
	switch {
	case c.GetProtocolSelection() == clusterv3.Cluster_USE_DOWNSTREAM_PROTOCOL: //nolint:staticcheck // deprecated
		o.Mode = DownstreamProtocol
	case h2 != nil:
		o.Mode = ExplicitHTTP2
	}
	return o, o.codecs(h1, h2)
}

func commonOptions(c *corev3.HttpProtocolOptions, up *corev3.UpstreamHttpProtocolOptions) (HTTPOptions, error) {
	o := HTTPOptions{
		IdleTimeout:              time.Hour,
		MaxHeadersCount:          uint32Or(c.GetMaxHeadersCount(), 100),
		MaxResponseHeadersKB:     uint32Or(c.GetMaxResponseHeadersKb(), 60),
		MaxResponseHeadersH1KB:   uint32Or(c.GetMaxResponseHeadersKb(), 80),
		MaxRequestsPerConnection: c.GetMaxRequestsPerConnection().GetValue(),
		Underscores:              c.GetHeadersWithUnderscoresAction(),
		AutoSNI:                  up.GetAutoSni(), AutoSAN: up.GetAutoSanValidation(),
		OverrideSNIHeader: up.GetOverrideAutoSniHeader(),
	}
	if j := c.GetMaxConnectionDurationJitter(); j != nil {
		o.MaxConnectionDurationJitter = j.GetValue()
	}
	return o, errors.Join(
		durationInto(&o.IdleTimeout, "common_http_protocol_options.idle_timeout", c.GetIdleTimeout()),
		durationInto(&o.MaxConnectionDuration, "common_http_protocol_options.max_connection_duration", c.GetMaxConnectionDuration()),
		durationInto(&o.MaxStreamDuration, "common_http_protocol_options.max_stream_duration", c.GetMaxStreamDuration()),
	)
}

func (o *HTTPOptions) codecs(h1 *corev3.Http1ProtocolOptions, h2 *corev3.Http2ProtocolOptions) error {
	var err error
	if o.HTTP1, err = newHTTP1(h1); err != nil {
		return fmt.Errorf("http_protocol_options.%w", err)
	}
	if o.HTTP2, err = newHTTP2(h2); err != nil {
		return fmt.Errorf("http2_protocol_options.%w", err)
	}
	return nil
}

func newHTTP1(h *corev3.Http1ProtocolOptions) (HTTP1Options, error) {
	o := HTTP1Options{
		ProperCase:                  h.GetHeaderKeyFormat().GetProperCaseWords() != nil,
		EnableTrailers:              h.GetEnableTrailers(),
		AllowChunkedLength:          h.GetAllowChunkedLength(),
		StreamErrorOnInvalidMessage: h.GetOverrideStreamErrorOnInvalidHttpMessage().GetValue(),
		SendFullyQualifiedURL:       h.GetSendFullyQualifiedUrl(),
		AllowCustomMethods:          h.GetAllowCustomMethods(),
		AcceptHTTP10:                h.GetAcceptHttp_10(),
	}
	if f := h.GetHeaderKeyFormat().GetStatefulFormatter(); f != nil {
		const preserve = "envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig"
		if name := string(f.GetTypedConfig().MessageName()); name != preserve {
			return o, fmt.Errorf("header_key_format.stateful_formatter: %s is not known; use %s", name, preserve)
		}
		o.PreserveCase = true
	}
	if len(h.GetIgnoreHttp_11Upgrade()) > 0 {
		return o, errors.New("ignore_http_11_upgrade: known but not built upstream")
	}
	return o, nil
}

func newHTTP2(h *corev3.Http2ProtocolOptions) (HTTP2Options, error) {
	o := HTTP2Options{
		HpackTableSize:                          uint32Or(h.GetHpackTableSize(), 4096),
		MaxConcurrentStreams:                    uint32Or(h.GetMaxConcurrentStreams(), 1024),
		InitialStreamWindowSize:                 uint32Or(h.GetInitialStreamWindowSize(), 16<<20),
		InitialConnectionWindowSize:             uint32Or(h.GetInitialConnectionWindowSize(), 24<<20),
		AllowConnect:                            h.GetAllowConnect(),
		MaxOutboundFrames:                       uint32Or(h.GetMaxOutboundFrames(), 10000),
		MaxOutboundControlFrames:                uint32Or(h.GetMaxOutboundControlFrames(), 1000),
		MaxConsecutiveInboundEmptyFrames:        uint32Or(h.GetMaxConsecutiveInboundFramesWithEmptyPayload(), 1),
		MaxInboundPriorityFramesPerStream:       uint32Or(h.GetMaxInboundPriorityFramesPerStream(), 100),
		MaxInboundWindowUpdatesPerDataFrameSent: uint32Or(h.GetMaxInboundWindowUpdateFramesPerDataFrameSent(), 10),
		StreamErrorOnInvalidMessage:             h.GetStreamErrorOnInvalidHttpMessaging(), //nolint:staticcheck // deprecated, and still in use
	}
	if v := h.GetOverrideStreamErrorOnInvalidHttpMessage(); v != nil {
		o.StreamErrorOnInvalidMessage = v.GetValue()
	}
	if h.GetAllowMetadata() {
		return o, errors.New("allow_metadata: HTTP/2 METADATA is known but not built")
	}
	if len(h.GetCustomSettingsParameters()) > 0 {
		return o, errors.New("custom_settings_parameters: known but not built; use the named fields")
	}
	k := h.GetConnectionKeepalive()
	if k == nil {
		return o, nil
	}
	o.Keepalive = &Keepalive{IntervalJitter: 15}
	if k.GetIntervalJitter() != nil {
		o.Keepalive.IntervalJitter = k.GetIntervalJitter().GetValue()
	}
	return o, errors.Join(
		durationInto(&o.Keepalive.Interval, "connection_keepalive.interval", k.GetInterval()),
		durationInto(&o.Keepalive.Timeout, "connection_keepalive.timeout", k.GetTimeout()),
		durationInto(&o.Keepalive.ConnectionIdleInterval, "connection_keepalive.connection_idle_interval", k.GetConnectionIdleInterval()),
	)
}

// durationInto sets to unless d is absent. The text is Envoy's.
func durationInto(to *time.Duration, path string, d *durationpb.Duration) error {
	if d == nil {
		return nil
	}
	if err := d.CheckValid(); err != nil {
		return fmt.Errorf("%s: Invalid duration: %w", path, err)
	}
	if d.AsDuration() < 0 {
		return fmt.Errorf("%s: Invalid duration: Expected positive duration: %s", path, d.AsDuration())
	}
	*to = d.AsDuration()
	return nil
}

func uint32Or(v *wrapperspb.UInt32Value, def uint32) uint32 {
	if v == nil {
		return def
	}
	return v.GetValue()
}
