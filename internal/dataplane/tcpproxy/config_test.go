package tcpproxy

import (
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func registry(t *testing.T) *stats.Registry {
	t.Helper()
	r, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// namesOf are the names of a registry's statistics without "tcp.p.", in order.
func namesOf(t *testing.T, r *stats.Registry) []string {
	t.Helper()
	snap, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := stats.ParseOptions(url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := stats.Render(&b, snap, o); err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(b.String()) {
		if name, ok := strings.CutPrefix(line, "tcp.p."); ok {
			names = append(names, name[:strings.IndexByte(name, ':')])
		}
	}
	slices.Sort(names)
	return names
}

func configOf(t *testing.T, reg *stats.Registry, text string) (*Config, error) {
	t.Helper()
	var m tcpv3.TcpProxy
	if err := protojson.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return New(&m, &Env{
		Stats: reg, ClusterExists: func(string) bool { return true },
		Logs:               func(string, []*accesslogv3.AccessLog) (accesslog.Logs, error) { return nil, nil },
		CheckClusterSource: func(string, *corev3.ConfigSource) error { return nil },
	})
}

func must(t *testing.T, text string) *Config {
	t.Helper()
	c, err := configOf(t, registry(t), text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Partly proves NF-07: a connection's life is drawn out by chance, by up to the
// configured part of it; the pause before an attempt doubles and is cut down by
// chance; what is not given has Envoy's values.
func TestTimes(t *testing.T) {
	const most = math.MaxUint64
	bare := must(t, `{"statPrefix": "p", "cluster": "c"}`)
	if bare.idle != time.Hour || bare.attempts != 1 || bare.age(most) != 0 || bare.wait(3, most) != 0 || bare.log != (logging{}) {
		t.Errorf("by default %+v", bare)
	}
	c := must(t, `{"statPrefix": "p", "cluster": "c", "idleTimeout": "0s", "maxConnectAttempts": 9,
		"maxDownstreamConnectionDuration": "100s", "maxDownstreamConnectionDurationJitterPercentage": {"value": 50}, "backoffOptions": {"baseInterval": "1s"}}`)
	if c.idle != 0 || c.attempts != 9 {
		t.Errorf("%+v", c)
	}
	for random, want := range map[uint64]time.Duration{0: 100 * time.Second, most/2 + 1: 125 * time.Second} {
		if got := c.age(random); got != want {
			t.Errorf("with %d a connection lasts %v, not %v", random, got, want)
		}
	}
	if got := c.age(most); got <= 149*time.Second || got > 150*time.Second {
		t.Errorf("at most a connection lasts %v", got)
	}
	for attempts, below := range []time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 60: 10 * time.Second} {
		if below == 0 {
			continue
		}
		if got := c.wait(attempts, uint64(below)-1); got != below-1 {
			t.Errorf("after %d attempts it waits up to %v, not up to %v", attempts, got, below)
		}
		if got := c.wait(attempts, uint64(below)); got != 0 {
			t.Errorf("after %d attempts it can wait %v", attempts, below)
		}
	}
	short := must(t, `{"statPrefix": "p", "cluster": "c", "backoffOptions": {"baseInterval": "1s", "maxInterval": "3s"}}`)
	if got := short.wait(8, uint64(3*time.Second)-1); got != 3*time.Second-1 {
		t.Errorf("with a longest interval of 3s it waits %v", got)
	}
}

// Partly proves NF-07: what Envoy refuses is refused in its words, and what is
// not built by name.
func TestRefusedConfigurations(t *testing.T) {
	for field, want := range map[string]string{
		`"accessLogOptions": {}, "flushAccessLogOnConnected": true`:                "Only one of flush_access_log_on_connected or access_log_options can be specified.",
		`"accessLogOptions": {}, "accessLogFlushInterval": "1s"`:                   "Only one of access_log_flush_interval or access_log_options can be specified.",
		`"backoffOptions": {"baseInterval": "2s", "maxInterval": "1s"}`:            "backoff_options.max_interval: must be greater than or equal to the base_interval",
		`"tunnelingConfig": {"hostname": "a"}, "maxEarlyDataBytes": 1`:             "max_early_data_bytes, tunneling_config: known but not built in this version",
		`"checkDrainClose": true, "downstreamIdleTimeout": "1s"`:                   "check_drain_close, downstream_idle_timeout: known but not built in this version",
		`"upstreamIdleTimeout": "1s", "upstreamConnectMode": "ON_DOWNSTREAM_DATA"`: "upstream_connect_mode, upstream_idle_timeout: known but not built in this version",
		`"proxyProtocolTlvs": [{"type": 1}]`:                                       "proxy_protocol_tlvs[0]: Invalid TLV configuration: one of 'value' or 'format_string' must be set.",
		`"proxyProtocolTlvs": [{"type": 1, "value": "YQ=="}, {"type": 1, "value": "YQ==", "formatString": {"textFormatSource": {"inlineString": "a"}}}]`: "proxy_protocol_tlvs[1]: Invalid TLV configuration: only one of 'value' or 'format_string' may be set.",
		`"proxyProtocolTlvs": [{"type": 1, "formatString": {"textFormatSource": {"inlineString": "%NOSUCH%"}}}]`:                                         "proxy_protocol_tlvs[0].format_string: Not supported field in StreamInfo: NOSUCH",
		`"proxyProtocolTlvMergePolicy": 7`: "proxy_protocol_tlv_merge_policy: 7 is no policy",
	} {
		_, err := configOf(t, registry(t), `{"statPrefix": "p", "cluster": "c", `+field+`}`)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Partly proves NF-08: the statistics have the names that Envoy 1.40 gives them,
// those of clusters on demand only where these are configured.
func TestStatisticsAreEnvoys(t *testing.T) {
	want := []string{
		"downstream_cx_drain_close", "downstream_cx_no_route", "downstream_cx_overload_close", "downstream_cx_rx_bytes_buffered", "downstream_cx_rx_bytes_total",
		"downstream_cx_total", "downstream_cx_tx_bytes_buffered", "downstream_cx_tx_bytes_total", "downstream_flow_control_paused_reading_total",
		"downstream_flow_control_resumed_reading_total", "early_data_received_count_total", "idle_timeout", "max_downstream_connection_duration",
		"route_delayed_total", "upstream_flush_active", "upstream_flush_total",
	}
	onDemand := []string{"on_demand_cluster_attempt", "on_demand_cluster_missing", "on_demand_cluster_success", "on_demand_cluster_timeout"}
	for field, want := range map[string][]string{
		"": want,
		`, "onDemand": {"odcdsConfig": {"ads": {}}}`: slices.Sorted(slices.Values(slices.Concat(want, onDemand))),
	} {
		reg := registry(t)
		if _, err := configOf(t, reg, `{"statPrefix": "p", "cluster": "c"`+field+`}`); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, namesOf(t, reg)); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
}
