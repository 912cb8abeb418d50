package hcm

import "github.com/xebec-proxy/xebec/internal/dataplane/stats"

// Stats are the statistics "http.<prefix>." of a connection manager (ST-04).
type Stats struct {
	CxActive              stats.Gauge     `stat:"downstream_cx_active"`
	CxDestroy             stats.Counter   `stat:"downstream_cx_destroy"`
	CxDestroyActiveRq     stats.Counter   `stat:"downstream_cx_destroy_active_rq"`
	CxDestroyLocal        stats.Counter   `stat:"downstream_cx_destroy_local"`
	CxDestroyLocalActive  stats.Counter   `stat:"downstream_cx_destroy_local_active_rq"`
	CxDestroyRemote       stats.Counter   `stat:"downstream_cx_destroy_remote"`
	CxDestroyRemoteActive stats.Counter   `stat:"downstream_cx_destroy_remote_active_rq"`
	CxDrainClose          stats.Counter   `stat:"downstream_cx_drain_close"`
	CxHTTP1Active         stats.Gauge     `stat:"downstream_cx_http1_active"`
	CxHTTP1SoftDrain      stats.Gauge     `stat:"downstream_cx_http1_soft_drain"`
	CxHTTP1Total          stats.Counter   `stat:"downstream_cx_http1_total"`
	CxHTTP2Active         stats.Gauge     `stat:"downstream_cx_http2_active"`
	CxHTTP2Total          stats.Counter   `stat:"downstream_cx_http2_total"`
	CxHTTP3Active         stats.Gauge     `stat:"downstream_cx_http3_active"`
	CxHTTP3Total          stats.Counter   `stat:"downstream_cx_http3_total"`
	CxIdleTimeout         stats.Counter   `stat:"downstream_cx_idle_timeout"`
	CxLength              stats.Histogram `stat:"downstream_cx_length_ms,ms"`
	CxMaxDuration         stats.Counter   `stat:"downstream_cx_max_duration_reached"`
	CxMaxRequests         stats.Counter   `stat:"downstream_cx_max_requests_reached"`
	CxOverload            stats.Counter   `stat:"downstream_cx_overload_disable_keepalive"`
	CxProtocolError       stats.Counter   `stat:"downstream_cx_protocol_error"`
	CxRxBuffered          stats.Gauge     `stat:"downstream_cx_rx_bytes_buffered"`
	CxRxTotal             stats.Counter   `stat:"downstream_cx_rx_bytes_total"`
	CxSSLActive           stats.Gauge     `stat:"downstream_cx_ssl_active"`
	CxSSLTotal            stats.Counter   `stat:"downstream_cx_ssl_total"`
	CxTotal               stats.Counter   `stat:"downstream_cx_total"`
	CxTxBuffered          stats.Gauge     `stat:"downstream_cx_tx_bytes_buffered"`
	CxTxTotal             stats.Counter   `stat:"downstream_cx_tx_bytes_total"`
	CxUpgradesActive      stats.Gauge     `stat:"downstream_cx_upgrades_active"`
	CxUpgradesTotal       stats.Counter   `stat:"downstream_cx_upgrades_total"`
	CxDelayedClose        stats.Counter   `stat:"downstream_cx_delayed_close_timeout"`
	FlowPaused            stats.Counter   `stat:"downstream_flow_control_paused_reading_total"`
	FlowResumed           stats.Counter   `stat:"downstream_flow_control_resumed_reading_total"`

	Rq1xx            stats.Counter   `stat:"downstream_rq_1xx"`
	Rq2xx            stats.Counter   `stat:"downstream_rq_2xx"`
	Rq3xx            stats.Counter   `stat:"downstream_rq_3xx"`
	Rq4xx            stats.Counter   `stat:"downstream_rq_4xx"`
	Rq5xx            stats.Counter   `stat:"downstream_rq_5xx"`
	RqActive         stats.Gauge     `stat:"downstream_rq_active"`
	RqCompleted      stats.Counter   `stat:"downstream_rq_completed"`
	RqPathNormFailed stats.Counter   `stat:"downstream_rq_failed_path_normalization"`
	RqHeaderTimeout  stats.Counter   `stat:"downstream_rq_header_timeout"`
	RqHTTP1Total     stats.Counter   `stat:"downstream_rq_http1_total"`
	RqHTTP2Total     stats.Counter   `stat:"downstream_rq_http2_total"`
	RqHTTP3Total     stats.Counter   `stat:"downstream_rq_http3_total"`
	RqIdleTimeout    stats.Counter   `stat:"downstream_rq_idle_timeout"`
	RqMaxDuration    stats.Counter   `stat:"downstream_rq_max_duration_reached"`
	RqNonRelative    stats.Counter   `stat:"downstream_rq_non_relative_path"`
	RqOverloadClose  stats.Counter   `stat:"downstream_rq_overload_close"`
	RqRedirectedNorm stats.Counter   `stat:"downstream_rq_redirected_with_normalized_path"`
	RqRejectedIP     stats.Counter   `stat:"downstream_rq_rejected_via_ip_detection"`
	RqBeforeComplete stats.Counter   `stat:"downstream_rq_response_before_rq_complete"`
	RqRxReset        stats.Counter   `stat:"downstream_rq_rx_reset"`
	RqTime           stats.Histogram `stat:"downstream_rq_time,ms"`
	RqTimeout        stats.Counter   `stat:"downstream_rq_timeout"`
	RqTooLarge       stats.Counter   `stat:"downstream_rq_too_large"`
	RqPremature      stats.Counter   `stat:"downstream_rq_too_many_premature_resets"`
	RqTotal          stats.Counter   `stat:"downstream_rq_total"`
	RqTxReset        stats.Counter   `stat:"downstream_rq_tx_reset"`
	RqWsOnNonWs      stats.Counter   `stat:"downstream_rq_ws_on_non_ws_route"`
	RsTooLarge       stats.Counter   `stat:"rs_too_large"`

	TracingEnabled stats.Counter `stat:"tracing.client_enabled"`
	TracingHealth  stats.Counter `stat:"tracing.health_check"`
	TracingNot     stats.Counter `stat:"tracing.not_traceable"`
	TracingSampled stats.Counter `stat:"tracing.random_sampling"`
	TracingForced  stats.Counter `stat:"tracing.service_forced"`

	NoRoute          stats.Counter `stat:"no_route"`
	NoCluster        stats.Counter `stat:"no_cluster"`
	RqDirectResponse stats.Counter `stat:"rq_direct_response"`
	RqRedirect       stats.Counter `stat:"rq_redirect"`
	RouterTotal      stats.Counter `stat:"rq_total"`
	PassThroughCross stats.Counter `stat:"passthrough_internal_redirect_bad_location"`
	RedirectNoRoute  stats.Counter `stat:"passthrough_internal_redirect_no_route"`
	RedirectPred     stats.Counter `stat:"passthrough_internal_redirect_predicate"`
	RedirectTooMany  stats.Counter `stat:"passthrough_internal_redirect_too_many_redirects"`
	RedirectUnsafe   stats.Counter `stat:"passthrough_internal_redirect_unsafe_scheme"`
	RqOverloadReset  stats.Counter `stat:"rq_reset_after_downstream_response_started"`
}

// ListenerStats are "listener.<address>.http.<prefix>." (ST-02).
type ListenerStats struct {
	Rq1xx       stats.Counter `stat:"downstream_rq_1xx"`
	Rq2xx       stats.Counter `stat:"downstream_rq_2xx"`
	Rq3xx       stats.Counter `stat:"downstream_rq_3xx"`
	Rq4xx       stats.Counter `stat:"downstream_rq_4xx"`
	Rq5xx       stats.Counter `stat:"downstream_rq_5xx"`
	RqCompleted stats.Counter `stat:"downstream_rq_completed"`
}

// CodecStats are the counters "http1." and "http2." of the downstream codecs.
type CodecStats struct {
	H1Dropped       stats.Counter `stat:"http1.dropped_headers_with_underscores"`
	H1Rejected      stats.Counter `stat:"http1.requests_rejected_with_underscores_in_headers"`
	H1Metadata      stats.Counter `stat:"http1.metadata_not_supported_error"`
	H1Flood         stats.Counter `stat:"http1.response_flood"`
	Dropped         stats.Counter `stat:"http2.dropped_headers_with_underscores"`
	Rejected        stats.Counter `stat:"http2.requests_rejected_with_underscores_in_headers"`
	Nghttp2         stats.Counter `stat:"http2.nghttp2_downstream_connections"`
	GoawaySent      stats.Counter `stat:"http2.goaway_sent"`
	HeaderOverflow  stats.Counter `stat:"http2.header_overflow"`
	EmptyFlood      stats.Counter `stat:"http2.inbound_empty_frames_flood"`
	PriorityFlood   stats.Counter `stat:"http2.inbound_priority_frames_flood"`
	WindowFlood     stats.Counter `stat:"http2.inbound_window_update_frames_flood"`
	Keepalive       stats.Counter `stat:"http2.keepalive_timeout"`
	ControlFlood    stats.Counter `stat:"http2.outbound_control_flood"`
	OutboundFlood   stats.Counter `stat:"http2.outbound_flood"`
	HeadersNoStream stats.Counter `stat:"http2.headers_cb_no_stream"`
	RxError         stats.Counter `stat:"http2.rx_messaging_error"`
	RxReset         stats.Counter `stat:"http2.rx_reset"`
	StreamRefused   stats.Counter `stat:"http2.stream_refused_errors"`
	StreamsActive   stats.Gauge   `stat:"http2.streams_active"`
	Trailers        stats.Counter `stat:"http2.trailers"`
	TxFlushTimeout  stats.Counter `stat:"http2.tx_flush_timeout"`
	TxReset         stats.Counter `stat:"http2.tx_reset"`
}
