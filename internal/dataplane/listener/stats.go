package listener

import "github.com/xebec-proxy/xebec/internal/dataplane/stats"

// Stats are the statistics "listener.<address>." (ST-02).
type Stats struct {
	CxActive         stats.Gauge     `stat:"downstream_cx_active"`
	CxDestroy        stats.Counter   `stat:"downstream_cx_destroy"`
	CxLength         stats.Histogram `stat:"downstream_cx_length_ms,ms"`
	CxOverflow       stats.Counter   `stat:"downstream_cx_overflow"`
	CxOverload       stats.Counter   `stat:"downstream_cx_overload_reject"`
	CxTotal          stats.Counter   `stat:"downstream_cx_total"`
	CxHandshakeTime  stats.Counter   `stat:"downstream_cx_transport_socket_connect_timeout"`
	GlobalOverflow   stats.Counter   `stat:"downstream_global_cx_overflow"`
	ListenerFilter   stats.Counter   `stat:"downstream_listener_filter_error"`
	ListenerRemote   stats.Counter   `stat:"downstream_listener_filter_remote_close"`
	PreCxActive      stats.Gauge     `stat:"downstream_pre_cx_active"`
	PreCxTimeout     stats.Counter   `stat:"downstream_pre_cx_timeout"`
	ExtensionMissing stats.Counter   `stat:"extension_config_missing"`
	NetworkMissing   stats.Counter   `stat:"network_extension_config_missing"`
	NoChain          stats.Counter   `stat:"no_filter_chain_match"`
}

// SSLStats are "listener.<address>.ssl." (TS-20).
type SSLStats struct {
	ConnectionError    stats.Counter `stat:"ssl.connection_error"`
	Handshake          stats.Counter `stat:"ssl.handshake"`
	SessionReused      stats.Counter `stat:"ssl.session_reused"`
	NoCertificate      stats.Counter `stat:"ssl.no_certificate"`
	FailVerifyNoCert   stats.Counter `stat:"ssl.fail_verify_no_cert"`
	FailVerifyError    stats.Counter `stat:"ssl.fail_verify_error"`
	FailVerifySAN      stats.Counter `stat:"ssl.fail_verify_san"`
	FailVerifyCertHash stats.Counter `stat:"ssl.fail_verify_cert_hash"`
	StapleFailed       stats.Counter `stat:"ssl.ocsp_staple_failed"`
	StapleOmitted      stats.Counter `stat:"ssl.ocsp_staple_omitted"`
	StapleRequests     stats.Counter `stat:"ssl.ocsp_staple_requests"`
	StapleResponses    stats.Counter `stat:"ssl.ocsp_staple_responses"`
}
