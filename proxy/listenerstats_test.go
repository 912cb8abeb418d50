package proxy_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// Proves ST-02: a listener has the documented statistics from the start, below
// its address, and they count connections and responses. Those for limits,
// timeouts and filters are provoked in TestConnectionLimit, TestTransportTimeout,
// TestOverload… and TestListenerFilter….
func TestListenerStatistics(t *testing.T) {
	cert, key := certificates(t)
	l := strings.Replace(listenChains("l", "{filter_chain_match: {server_names: [acme.com]}, filters: ["+okFilter+"], "+tlsSocket(cert, key)+"}", "listener_filters: ["+tlsInspector+"]"),
		"stat_prefix: l, ", "", 1)
	r := start(t, bootstrapOf(l, ""), func(*proxyrun.Flags, *proxy.Options) {})
	at := r.at("l")
	const scope = "listener.127.0.0.1_0." // as it is configured
	want := strings.Fields(`downstream_cx_active downstream_cx_destroy downstream_cx_overflow downstream_cx_overload_reject downstream_cx_total
		downstream_cx_transport_socket_connect_timeout downstream_global_cx_overflow downstream_listener_filter_error downstream_listener_filter_remote_close
		downstream_pre_cx_active downstream_pre_cx_timeout extension_config_missing
		http.in.downstream_rq_1xx http.in.downstream_rq_2xx http.in.downstream_rq_3xx http.in.downstream_rq_4xx http.in.downstream_rq_5xx http.in.downstream_rq_completed
		network_extension_config_missing no_filter_chain_match
		ssl.connection_error ssl.fail_verify_cert_hash ssl.fail_verify_error ssl.fail_verify_no_cert ssl.fail_verify_san ssl.handshake ssl.no_certificate
		ssl.ocsp_staple_failed ssl.ocsp_staple_omitted ssl.ocsp_staple_requests ssl.ocsp_staple_responses ssl.session_reused`)
	var b strings.Builder
	for _, name := range want {
		b.WriteString(scope + name + ": 0\n")
	}
	b.WriteString(scope + "downstream_cx_length_ms: No recorded values\n")
	var got strings.Builder
	for line := range strings.Lines(r.get(t, "/stats?filter=^"+strings.ReplaceAll(scope, ".", "\\."))) {
		if !strings.Contains(line, ".worker_") {
			got.WriteString(line)
		}
	}
	same(t, "at the start", got.String(), b.String())

	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "acme.com", MinVersion: tls.VersionTLS12}}
	client := &http.Client{Transport: transport}
	for range 2 {
		resp, err := client.Get("https://" + at + "/")
		must(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	r.until(t, scope+"downstream_cx_total: 1", scope+"downstream_cx_active: 1", scope+"downstream_cx_destroy: 0",
		scope+"http.in.downstream_rq_2xx: 2", scope+"http.in.downstream_rq_completed: 2", scope+"http.in.downstream_rq_4xx: 0",
		scope+"ssl.handshake: 1", scope+"ssl.no_certificate: 1", scope+"ssl.connection_error: 0")
	transport.CloseIdleConnections()
	r.until(t, scope+"downstream_cx_active: 0", scope+"downstream_cx_destroy: 1")
	if got := r.stat(t, scope+"downstream_cx_length_ms"); !strings.HasPrefix(got, "P0(") {
		t.Errorf("downstream_cx_length_ms: %s", got)
	}
	// Not TLS: no chain is for it. Of another name: neither.
	c, err := net.Dial("tcp", at)
	must(t, err)
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\n\r\n")
	_, _ = io.ReadAll(c)
	_ = c.Close()
	r.until(t, scope+"no_filter_chain_match: 1", scope+"downstream_cx_total: 1", scope+"downstream_pre_cx_active: 0")
}
