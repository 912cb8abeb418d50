package cluster

import (
	"context"
	"sync"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Registry hands out the numbers of statistics below one prefix; the scope of
// "cluster.<name>" of the proxy's statistics. Safe for concurrent use.
type Registry = stats.Registrar

// HostRegistry hands out counters without a name, for the hosts, reads them
// and takes them back. Safe for concurrent use. stats.Hidden is one.
type HostRegistry interface {
	Counter() stats.Counter
	Sum(ctx context.Context, counters []stats.Counter, gauges []stats.Gauge) ([]uint64, []int64, error)
	// Discard gives counters back that nothing counts by any more. It may be
	// called on any goroutine and must not block.
	Discard(counters []stats.Counter)
}

// Sink counts for goroutines that are not workers. Safe for concurrent use.
type Sink interface {
	Add(c stats.Counter, n uint64)
	GaugeSet(g stats.Gauge, v int64)
	GaugeSetUint(g stats.Gauge, v uint64)
}

// Stats are the numbers of a cluster's statistics, under Envoy's names (ST-05).
// The fields are set once; workers count by them in their own shards.
type Stats struct {
	BindErrors             stats.Counter `stat:"bind_errors"`
	OriginalDstHostInvalid stats.Counter `stat:"original_dst_host_invalid"`
	RetryOrShadowAbandoned stats.Counter `stat:"retry_or_shadow_abandoned"`

	AssignmentStale           stats.Counter `stat:"assignment_stale"`
	AssignmentTimeoutReceived stats.Counter `stat:"assignment_timeout_received"`
	AssignmentUseCached       stats.Counter `stat:"assignment_use_cached"`

	UpdateAttempt   stats.Counter `stat:"update_attempt"`
	UpdateEmpty     stats.Counter `stat:"update_empty"`
	UpdateFailure   stats.Counter `stat:"update_failure"`
	UpdateNoRebuild stats.Counter `stat:"update_no_rebuild"`
	UpdateSuccess   stats.Counter `stat:"update_success"`

	MembershipChange   stats.Counter `stat:"membership_change"`
	MembershipDegraded stats.Gauge   `stat:"membership_degraded"`
	MembershipExcluded stats.Gauge   `stat:"membership_excluded"`
	MembershipHealthy  stats.Gauge   `stat:"membership_healthy"`
	MembershipTotal    stats.Gauge   `stat:"membership_total"`
	MaxHostWeight      stats.Gauge   `stat:"max_host_weight"`
	Version            stats.Gauge   `stat:"version"`
	WarmingState       stats.Gauge   `stat:"warming_state"`

	LbHealthyPanic             stats.Counter `stat:"lb_healthy_panic"`
	LbLocalClusterNotOK        stats.Counter `stat:"lb_local_cluster_not_ok"`
	LbRecalculateZoneStructure stats.Counter `stat:"lb_recalculate_zone_structures"`
	LbSubsetsActive            stats.Gauge   `stat:"lb_subsets_active"`
	LbSubsetsCreated           stats.Counter `stat:"lb_subsets_created"`
	LbSubsetsFallback          stats.Counter `stat:"lb_subsets_fallback"`
	LbSubsetsFallbackPanic     stats.Counter `stat:"lb_subsets_fallback_panic"`
	LbSubsetsRemoved           stats.Counter `stat:"lb_subsets_removed"`
	LbSubsetsSelected          stats.Counter `stat:"lb_subsets_selected"`
	LbZoneClusterTooSmall      stats.Counter `stat:"lb_zone_cluster_too_small"`
	LbZoneNoCapacityLeft       stats.Counter `stat:"lb_zone_no_capacity_left"`
	LbZoneRoutingAllDirectly   stats.Counter `stat:"lb_zone_routing_all_directly"`
	LbZoneRoutingCrossZone     stats.Counter `stat:"lb_zone_routing_cross_zone"`
	LbZoneRoutingSampled       stats.Counter `stat:"lb_zone_routing_sampled"`

	UpstreamCxActive                    stats.Gauge     `stat:"upstream_cx_active"`
	UpstreamCxCloseNotify               stats.Counter   `stat:"upstream_cx_close_notify"`
	UpstreamCxConnectAttemptsExceeded   stats.Counter   `stat:"upstream_cx_connect_attempts_exceeded"`
	UpstreamCxConnectFail               stats.Counter   `stat:"upstream_cx_connect_fail"`
	UpstreamCxConnectTimeout            stats.Counter   `stat:"upstream_cx_connect_timeout"`
	UpstreamCxConnectWith0RTT           stats.Counter   `stat:"upstream_cx_connect_with_0_rtt"`
	UpstreamCxConnectMs                 stats.Histogram `stat:"upstream_cx_connect_ms,ms"`
	UpstreamCxDestroy                   stats.Counter   `stat:"upstream_cx_destroy"`
	UpstreamCxDestroyLocal              stats.Counter   `stat:"upstream_cx_destroy_local"`
	UpstreamCxDestroyLocalWithActiveRq  stats.Counter   `stat:"upstream_cx_destroy_local_with_active_rq"`
	UpstreamCxDestroyRemote             stats.Counter   `stat:"upstream_cx_destroy_remote"`
	UpstreamCxDestroyRemoteWithActiveRq stats.Counter   `stat:"upstream_cx_destroy_remote_with_active_rq"`
	UpstreamCxDestroyWithActiveRq       stats.Counter   `stat:"upstream_cx_destroy_with_active_rq"`
	UpstreamCxHTTP1Total                stats.Counter   `stat:"upstream_cx_http1_total"`
	UpstreamCxHTTP2Total                stats.Counter   `stat:"upstream_cx_http2_total"`
	UpstreamCxHTTP3Total                stats.Counter   `stat:"upstream_cx_http3_total"`
	UpstreamCxIdleTimeout               stats.Counter   `stat:"upstream_cx_idle_timeout"`
	UpstreamCxLengthMs                  stats.Histogram `stat:"upstream_cx_length_ms,ms"`
	UpstreamCxMaxDurationReached        stats.Counter   `stat:"upstream_cx_max_duration_reached"`
	UpstreamCxMaxRequests               stats.Counter   `stat:"upstream_cx_max_requests"`
	UpstreamCxNoneHealthy               stats.Counter   `stat:"upstream_cx_none_healthy"`
	UpstreamCxOverflow                  stats.Counter   `stat:"upstream_cx_overflow"`
	UpstreamCxPoolOverflow              stats.Counter   `stat:"upstream_cx_pool_overflow"`
	UpstreamCxPreconnectSkipped         stats.Counter   `stat:"upstream_cx_preconnect_skipped"`
	UpstreamCxProtocolError             stats.Counter   `stat:"upstream_cx_protocol_error"`
	UpstreamCxRxBytesBuffered           stats.Gauge     `stat:"upstream_cx_rx_bytes_buffered"`
	UpstreamCxRxBytesTotal              stats.Counter   `stat:"upstream_cx_rx_bytes_total"`
	UpstreamCxTotal                     stats.Counter   `stat:"upstream_cx_total"`
	UpstreamCxTxBytesBuffered           stats.Gauge     `stat:"upstream_cx_tx_bytes_buffered"`
	UpstreamCxTxBytesTotal              stats.Counter   `stat:"upstream_cx_tx_bytes_total"`

	UpstreamFlowControlBackedUpTotal       stats.Counter `stat:"upstream_flow_control_backed_up_total"`
	UpstreamFlowControlDrainedTotal        stats.Counter `stat:"upstream_flow_control_drained_total"`
	UpstreamFlowControlPausedReadingTotal  stats.Counter `stat:"upstream_flow_control_paused_reading_total"`
	UpstreamFlowControlResumedReadingTotal stats.Counter `stat:"upstream_flow_control_resumed_reading_total"`
	UpstreamHTTP3Broken                    stats.Counter `stat:"upstream_http3_broken"`
	UpstreamInternalRedirectFailedTotal    stats.Counter `stat:"upstream_internal_redirect_failed_total"`
	UpstreamInternalRedirectSucceededTotal stats.Counter `stat:"upstream_internal_redirect_succeeded_total"`
	UpstreamQueueOverloaded                stats.Gauge   `stat:"upstream_queue_overloaded"`

	UpstreamRq0RTT                    stats.Counter   `stat:"upstream_rq_0rtt"`
	UpstreamRqActive                  stats.Gauge     `stat:"upstream_rq_active"`
	UpstreamRqActiveOverflow          stats.Counter   `stat:"upstream_rq_active_overflow"`
	UpstreamRqCancelled               stats.Counter   `stat:"upstream_rq_cancelled"`
	UpstreamRqCompleted               stats.Counter   `stat:"upstream_rq_completed"`
	UpstreamRqMaintenanceMode         stats.Counter   `stat:"upstream_rq_maintenance_mode"`
	UpstreamRqMaxDurationReached      stats.Counter   `stat:"upstream_rq_max_duration_reached"`
	UpstreamRqPendingActive           stats.Gauge     `stat:"upstream_rq_pending_active"`
	UpstreamRqPendingFailureEject     stats.Counter   `stat:"upstream_rq_pending_failure_eject"`
	UpstreamRqPendingOverflow         stats.Counter   `stat:"upstream_rq_pending_overflow"`
	UpstreamRqPendingTotal            stats.Counter   `stat:"upstream_rq_pending_total"`
	UpstreamRqPerCx                   stats.Histogram `stat:"upstream_rq_per_cx"`
	UpstreamRqPerTryIdleTimeout       stats.Counter   `stat:"upstream_rq_per_try_idle_timeout"`
	UpstreamRqPerTryTimeout           stats.Counter   `stat:"upstream_rq_per_try_timeout"`
	UpstreamRqRetry                   stats.Counter   `stat:"upstream_rq_retry"`
	UpstreamRqRetryBackoffExponential stats.Counter   `stat:"upstream_rq_retry_backoff_exponential"`
	UpstreamRqRetryBackoffRatelimited stats.Counter   `stat:"upstream_rq_retry_backoff_ratelimited"`
	UpstreamRqRetryLimitExceeded      stats.Counter   `stat:"upstream_rq_retry_limit_exceeded"`
	UpstreamRqRetryOverflow           stats.Counter   `stat:"upstream_rq_retry_overflow"`
	UpstreamRqRetrySuccess            stats.Counter   `stat:"upstream_rq_retry_success"`
	UpstreamRqRxReset                 stats.Counter   `stat:"upstream_rq_rx_reset"`
	UpstreamRqRxResetNoError          stats.Counter   `stat:"upstream_rq_rx_reset_no_error"`
	UpstreamRqTimeout                 stats.Counter   `stat:"upstream_rq_timeout"`
	UpstreamRqTotal                   stats.Counter   `stat:"upstream_rq_total"`
	UpstreamRqTxReset                 stats.Counter   `stat:"upstream_rq_tx_reset"`

	// Codes are the counters by response code.
	Codes Codes
	// SSL are the counters of the TLS transport socket; all zero in a cluster
	// without one.
	SSL SSLStats

	// Discovery are those of EDS, nil in other clusters.
	Discovery *DiscoveryStats

	hash     hashGauges
	subsets  *subsetGauge // nil of clusters without
	breakers [routePriorities]breakerGauges
	matches  []stats.Counter // total_match_count of the transport socket matches; last the default
	leds     func() *LEDSStats
	http1    func() *HTTP1Stats
	http2    func() *HTTP2Stats
}

// SSLStats are the counters of a cluster's TLS transport socket.
type SSLStats struct {
	ConnectionError     stats.Counter `stat:"ssl.connection_error"`
	FailVerifyCertHash  stats.Counter `stat:"ssl.fail_verify_cert_hash"`
	FailVerifyError     stats.Counter `stat:"ssl.fail_verify_error"`
	FailVerifyNoCert    stats.Counter `stat:"ssl.fail_verify_no_cert"`
	FailVerifySAN       stats.Counter `stat:"ssl.fail_verify_san"`
	Handshake           stats.Counter `stat:"ssl.handshake"`
	NoCertificate       stats.Counter `stat:"ssl.no_certificate"`
	OCSPStapleFailed    stats.Counter `stat:"ssl.ocsp_staple_failed"`
	OCSPStapleOmitted   stats.Counter `stat:"ssl.ocsp_staple_omitted"`
	OCSPStapleRequests  stats.Counter `stat:"ssl.ocsp_staple_requests"`
	OCSPStapleResponses stats.Counter `stat:"ssl.ocsp_staple_responses"`
	SessionReused       stats.Counter `stat:"ssl.session_reused"`
}

// HTTP1Stats are the counters of the HTTP/1 codec.
type HTTP1Stats struct {
	DroppedHeadersWithUnderscores            stats.Counter `stat:"http1.dropped_headers_with_underscores"`
	MetadataNotSupportedError                stats.Counter `stat:"http1.metadata_not_supported_error"`
	RequestsRejectedWithUnderscoresInHeaders stats.Counter `stat:"http1.requests_rejected_with_underscores_in_headers"`
	ResponseFlood                            stats.Counter `stat:"http1.response_flood"`
}

// HTTP2Stats are the statistics of the HTTP/2 codec.
type HTTP2Stats struct {
	CookiesTotalBytesTooLarge                stats.Counter   `stat:"http2.cookies_total_bytes_too_large"`
	DeferredStreamClose                      stats.Gauge     `stat:"http2.deferred_stream_close"`
	DroppedHeadersWithUnderscores            stats.Counter   `stat:"http2.dropped_headers_with_underscores"`
	GoawaySent                               stats.Counter   `stat:"http2.goaway_sent"`
	HeaderListSizeTooLarge                   stats.Counter   `stat:"http2.header_list_size_too_large"`
	HeaderOverflow                           stats.Counter   `stat:"http2.header_overflow"`
	HeadersCbNoStream                        stats.Counter   `stat:"http2.headers_cb_no_stream"`
	InboundEmptyFramesFlood                  stats.Counter   `stat:"http2.inbound_empty_frames_flood"`
	InboundPriorityFramesFlood               stats.Counter   `stat:"http2.inbound_priority_frames_flood"`
	InboundWindowUpdateFramesFlood           stats.Counter   `stat:"http2.inbound_window_update_frames_flood"`
	KeepaliveTimeout                         stats.Counter   `stat:"http2.keepalive_timeout"`
	MetadataEmptyFrames                      stats.Counter   `stat:"http2.metadata_empty_frames"`
	Nghttp2DownstreamConnections             stats.Counter   `stat:"http2.nghttp2_downstream_connections"`
	Nghttp2UpstreamConnections               stats.Counter   `stat:"http2.nghttp2_upstream_connections"`
	Oghttp2DownstreamConnections             stats.Counter   `stat:"http2.oghttp2_downstream_connections"`
	Oghttp2UpstreamConnections               stats.Counter   `stat:"http2.oghttp2_upstream_connections"`
	OutboundControlFlood                     stats.Counter   `stat:"http2.outbound_control_flood"`
	OutboundControlFramesActive              stats.Gauge     `stat:"http2.outbound_control_frames_active"`
	OutboundFlood                            stats.Counter   `stat:"http2.outbound_flood"`
	OutboundFramesActive                     stats.Gauge     `stat:"http2.outbound_frames_active"`
	PendingSendBytes                         stats.Gauge     `stat:"http2.pending_send_bytes"`
	RequestsRejectedWithUnderscoresInHeaders stats.Counter   `stat:"http2.requests_rejected_with_underscores_in_headers"`
	RxMessagingError                         stats.Counter   `stat:"http2.rx_messaging_error"`
	RxReset                                  stats.Counter   `stat:"http2.rx_reset"`
	StreamRefusedErrors                      stats.Counter   `stat:"http2.stream_refused_errors"`
	StreamsActive                            stats.Gauge     `stat:"http2.streams_active"`
	Trailers                                 stats.Counter   `stat:"http2.trailers"`
	TxFlushTimeout                           stats.Counter   `stat:"http2.tx_flush_timeout"`
	TxReset                                  stats.Counter   `stat:"http2.tx_reset"`
	CookieCount                              stats.Histogram `stat:"http2.cookie_count"`
	CookieSize                               stats.Histogram `stat:"http2.cookie_size"`
	HeaderCount                              stats.Histogram `stat:"http2.header_count"`
	HeaderListSize                           stats.Histogram `stat:"http2.header_list_size"`
}

// breakerGauges are the gauges of one breaker set (CB-06).
type breakerGauges struct {
	CxOpen        stats.Gauge `stat:"cx_open"`
	CxPoolOpen    stats.Gauge `stat:"cx_pool_open"`
	RqOpen        stats.Gauge `stat:"rq_open"`
	RqPendingOpen stats.Gauge `stat:"rq_pending_open"`
	RqRetryOpen   stats.Gauge `stat:"rq_retry_open"`

	left *remainingGauges // nil without track_remaining
}

// matchStats is the counter of the hosts that have the cluster's own transport
// socket.
type matchStats struct {
	Total stats.Counter `stat:"total_match_count"`
}

type remainingGauges struct {
	Cx      stats.Gauge `stat:"remaining_cx"`
	CxPools stats.Gauge `stat:"remaining_cx_pools"`
	Pending stats.Gauge `stat:"remaining_pending"`
	Retries stats.Gauge `stat:"remaining_retries"`
	Rq      stats.Gauge `stat:"remaining_rq"`
}

// HTTP1 are the statistics of the HTTP/1 codec, which appear at the cluster's
// first HTTP/1 connection, as in Envoy. Safe for concurrent use.
func (s *Stats) HTTP1() *HTTP1Stats { return s.http1() }

// HTTP2 are the statistics of the HTTP/2 codec, which appear at the cluster's
// first HTTP/2 connection. Safe for concurrent use.
func (s *Stats) HTTP2() *HTTP2Stats { return s.http2() }

// DiscoveryStats are the statistics of an EDS cluster's subscription.
type DiscoveryStats struct {
	UpdateRejected   stats.Counter   `stat:"update_rejected"`
	InitFetchTimeout stats.Counter   `stat:"init_fetch_timeout"`
	UpdateDuration   stats.Histogram `stat:"update_duration,ms"`
	UpdateTime       stats.Gauge     `stat:"update_time"`
}

// LEDSStats are the statistics of the subscriptions to the collections of a
// cluster's endpoints, all in one.
type LEDSStats struct {
	InitFetchTimeout stats.Counter   `stat:"leds.init_fetch_timeout"`
	UpdateAttempt    stats.Counter   `stat:"leds.update_attempt"`
	UpdateEmpty      stats.Counter   `stat:"leds.update_empty"`
	UpdateFailure    stats.Counter   `stat:"leds.update_failure"`
	UpdateRejected   stats.Counter   `stat:"leds.update_rejected"`
	UpdateSuccess    stats.Counter   `stat:"leds.update_success"`
	UpdateDuration   stats.Histogram `stat:"leds.update_duration,ms"`
	UpdateTime       stats.Gauge     `stat:"leds.update_time"`
	Version          stats.Gauge     `stat:"leds.version"`
}

// LEDS are the statistics of collections of endpoints, which appear with the
// first, as in Envoy. Safe for concurrent use.
func (s *Stats) LEDS() *LEDSStats { return s.leds() }

func (s *Stats) registerDiscovery(reg Registry) {
	s.Discovery = &DiscoveryStats{}
	stats.Fill(reg, "", s.Discovery)
}

func newStats(reg Registry, breakers [routePriorities]*Breaker, matches []TransportSocketMatch, tls bool) *Stats {
	s := &Stats{}
	stats.Fill(reg, "", s)
	s.Codes.init(reg)
	for p := range s.breakers {
		prefix := "circuit_breakers." + RoutePriority(p).String() + "."
		stats.Fill(reg, prefix, &s.breakers[p])
		if breakers[p].track {
			s.breakers[p].left = &remainingGauges{}
			stats.Fill(reg, prefix, s.breakers[p].left)
		}
	}
	for i := range matches {
		s.matches = append(s.matches, reg.Counter(matches[i].Name+".total_match_count"))
	}
	var own matchStats
	stats.Fill(reg, "default.", &own)
	s.matches = append(s.matches, own.Total)
	if tls {
		stats.Fill(reg, "", &s.SSL)
	}
	s.leds = sync.OnceValue(func() *LEDSStats { l := &LEDSStats{}; stats.Fill(reg, "", l); return l })
	s.http1 = sync.OnceValue(func() *HTTP1Stats { h := &HTTP1Stats{}; stats.Fill(reg, "", h); return h })
	s.http2 = sync.OnceValue(func() *HTTP2Stats { h := &HTTP2Stats{}; stats.Fill(reg, "", h); return h })
	return s
}
