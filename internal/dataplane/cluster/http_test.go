package cluster

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
)

func defaultHTTP() HTTPOptions {
	return HTTPOptions{
		IdleTimeout: time.Hour, MaxHeadersCount: 100, MaxResponseHeadersKB: 60, MaxResponseHeadersH1KB: 80,
		HTTP2: HTTP2Options{
			HpackTableSize: 4096, MaxConcurrentStreams: 1024, InitialStreamWindowSize: 16 << 20, InitialConnectionWindowSize: 24 << 20,
			MaxOutboundFrames: 10000, MaxOutboundControlFrames: 1000, MaxConsecutiveInboundEmptyFrames: 1,
			MaxInboundPriorityFramesPerStream: 100, MaxInboundWindowUpdatesPerDataFrameSent: 10,
		},
	}
}

// Proves the parsing of CM-18 and CM-22.
func TestHTTPOptions(t *testing.T) {
	tls := object{"transport_socket": object{"name": "tls", "typed_config": packed("envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", nil)}}
	h1 := object{
		"enable_trailers": true, "allow_chunked_length": true, "send_fully_qualified_url": true, "allow_custom_methods": true,
		"override_stream_error_on_invalid_http_message": true, "header_key_format": object{"proper_case_words": object{}},
	}
	wantH1 := HTTP1Options{
		ProperCase: true, EnableTrailers: true, AllowChunkedLength: true, StreamErrorOnInvalidMessage: true,
		SendFullyQualifiedURL: true, AllowCustomMethods: true,
	}
	preserve := object{"header_key_format": object{"stateful_formatter": object{
		"name": "p", "typed_config": packed("envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig", nil),
	}}}
	h2 := object{
		"hpack_table_size": 1, "max_concurrent_streams": 2, "initial_stream_window_size": 65536, "initial_connection_window_size": 65537,
		"allow_connect": true, "max_outbound_frames": 3, "max_outbound_control_frames": 4, "max_consecutive_inbound_frames_with_empty_payload": 5,
		"max_inbound_priority_frames_per_stream": 6, "max_inbound_window_update_frames_per_data_frame_sent": 7,
		"override_stream_error_on_invalid_http_message": true,
		"connection_keepalive":                          object{"interval": "1s", "timeout": "2s", "connection_idle_interval": "3s", "interval_jitter": object{"value": 4}},
	}
	wantH2 := HTTP2Options{
		1, 2, 65536, 65537, true, 3, 4, 5, 6, 7, true,
		&Keepalive{Interval: time.Second, Timeout: 2 * time.Second, ConnectionIdleInterval: 3 * time.Second, IntervalJitter: 4},
	}
	common := object{
		"idle_timeout": "0s", "max_connection_duration": "5s", "max_stream_duration": "6s", "max_headers_count": 7,
		"max_response_headers_kb": 8, "max_requests_per_connection": 9, "headers_with_underscores_action": "DROP_HEADER",
	}
	upstream := object{"auto_sni": true, "auto_san_validation": true, "override_auto_sni_header": "x-sni"}
	withCommon := func(o *HTTPOptions) {
		o.IdleTimeout, o.MaxConnectionDuration, o.MaxStreamDuration = 0, 5*time.Second, 6*time.Second
		o.MaxHeadersCount, o.MaxResponseHeadersKB, o.MaxResponseHeadersH1KB, o.MaxRequestsPerConnection = 7, 8, 8, 9
		o.Underscores = corev3.HttpProtocolOptions_DROP_HEADER
		o.AutoSNI, o.AutoSAN, o.OverrideSNIHeader = true, true, "x-sni"
	}
	tests := []struct {
		name string
		conf object
		want func(*HTTPOptions)
	}{
		{"nothing", nil, func(*HTTPOptions) {}},
		{"explicit HTTP/1", httpExt(object{"explicit_http_config": object{"http_protocol_options": h1}}), func(o *HTTPOptions) { o.HTTP1 = wantH1 }},
		{"preserved case", httpExt(object{"explicit_http_config": object{"http_protocol_options": preserve}}), func(o *HTTPOptions) { o.HTTP1.PreserveCase = true }},
		{"explicit HTTP/2", httpExt(object{"explicit_http_config": object{"http2_protocol_options": h2}}), func(o *HTTPOptions) { o.Mode, o.HTTP2 = ExplicitHTTP2, wantH2 }},
		{
			"of the client", httpExt(object{"use_downstream_protocol_config": object{"http_protocol_options": h1, "http2_protocol_options": h2}}),
			func(o *HTTPOptions) { o.Mode, o.HTTP1, o.HTTP2 = DownstreamProtocol, wantH1, wantH2 },
		},
		{
			"by ALPN", httpExt(object{"auto_config": object{"http_protocol_options": h1, "http2_protocol_options": h2}}).with(tls),
			func(o *HTTPOptions) { o.Mode, o.HTTP1, o.HTTP2 = AutoProtocol, wantH1, wantH2 },
		},
		{
			"common", httpExt(object{"explicit_http_config": object{"http_protocol_options": object{}}, "common_http_protocol_options": common, "upstream_http_protocol_options": upstream}),
			withCommon,
		},
		{
			"deprecated fields",
			object{"common_http_protocol_options": common, "upstream_http_protocol_options": upstream, "http_protocol_options": h1, "http2_protocol_options": h2},
			func(o *HTTPOptions) { withCommon(o); o.Mode, o.HTTP1, o.HTTP2 = ExplicitHTTP2, wantH1, wantH2 },
		},
		{"deprecated selection", object{"protocol_selection": "USE_DOWNSTREAM_PROTOCOL", "http2_protocol_options": object{}}, func(o *HTTPOptions) { o.Mode = DownstreamProtocol }},
		{"deprecated requests", object{"max_requests_per_connection": 4}, func(o *HTTPOptions) { o.MaxRequestsPerConnection = 4 }},
		{
			"the extension wins", httpExt(object{"explicit_http_config": object{"http_protocol_options": object{}}}).with(object{"http2_protocol_options": h2, "max_requests_per_connection": 4}),
			func(*HTTPOptions) {},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := build(t, object{"name": "c"}.with(tt.conf).String())
			want := defaultHTTP()
			tt.want(&want)
			if diff := cmp.Diff(want, c.HTTP); diff != "" {
				t.Error(diff)
			}
		})
	}
}
