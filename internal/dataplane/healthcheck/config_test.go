package healthcheck

import (
	"strings"
	"testing"

	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "google.golang.org/protobuf/types/known/structpb"
)

// required are the fields that each check has.
const required = `"timeout": "1s", "interval": "2s", "unhealthy_threshold": 3, "healthy_threshold": 2`

// Proves HK-06, and partly proves HK-01, HK-03, HK-04, HK-05: what is not valid or not built is refused by the name of its field, in Envoy's words.
func TestReadRefuses(t *testing.T) {
	http := func(fields string) string {
		return `{` + required + `, "http_health_check": {"path": "/"` + fields + `}}`
	}
	tcp := func(fields string) string { return `{` + required + `, "tcp_health_check": {` + fields + `}}` }
	plain := func(fields string) string { return `{` + required + `, "tcp_health_check": {}, ` + fields + `}` }
	for _, tt := range []struct{ name, checks, want string }{
		{"redis", `{` + required + `, "custom_health_check": {"name": "envoy.health_checkers.redis"}}`, "health_checks[0].custom_health_check: envoy.health_checkers.redis is known but not built"},
		{"thrift", `{` + required + `, "custom_health_check": {"name": "envoy.health_checkers.thrift"}}`, "custom_health_check: envoy.health_checkers.thrift is known but not built"},
		{"alt_port", plain(`"alt_port": 3`), "health_checks[0].alt_port: known but not built"},
		{"event_service", plain(`"event_service": {"grpc_service": {"envoy_grpc": {"cluster_name": "x"}}}`), "event_service: known but not built"},
		{"use_alpn_protocol", http(`, "use_alpn_protocol": true`), "http_health_check.use_alpn_protocol: known but not built"},
		{"HTTP/3", http(`, "codec_client_type": "HTTP3"`), "http_health_check.codec_client_type: HTTP3 is known but not built"},
		{"no name", plain(`"name": "a"`) + "," + tcp(""), "health_checks[1].name: health check at index 1 is missing a name; all health checks must have a name when multiple health checks are configured"},
		{"a name twice", plain(`"name": "a"`) + "," + plain(`"name": "a"`), "health_checks[1].name: duplicate health check name 'a' at index 1; all health check names must be unique within a cluster"},
		{"gRPC over HTTP/1", `{` + required + `, "grpc_health_check": {}}`, "health_checks[0].grpc_health_check: c cluster must support HTTP/2 for gRPC healthchecking"},
		{"hexadecimal", tcp(`"send": {"text": "0g"}`), "health_checks[0].tcp_health_check.send.text: invalid hex string '0g'"},
		{"hexadecimal to receive", tcp(`"receive": [{"text": "00"}, {"text": "0"}]`), "tcp_health_check.receive[1].text: invalid hex string '0'"},
		{"TLVs", tcp(`"proxy_protocol_config": {"pass_through_tlvs": {}}`), "proxy_protocol_config: pass_through_tlvs and added_tlvs"},
		{"a body with GET", http(`, "send": {"text": "00"}`), "http_health_check.send: HTTP health check cannot specify a request payload with method 'GET'. Only methods"},
		{"a body with DELETE", http(`, "method": "DELETE", "send": {"text": "00"}`), "request payload with method 'DELETE'"},
		{"a range", http(`, "expected_statuses": [{"start": 300, "end": 200}]`), "http_health_check.expected_statuses[0]: Invalid http expected status range: expecting start < end, but found start=300 and end=200"},
		{"a low range", http(`, "retriable_statuses": [{"start": 200, "end": 201}, {"start": 99, "end": 200}]`), "retriable_statuses[1]: Invalid http retriable status range: expecting start >= 100, but found start=99"},
		{"a high range", http(`, "expected_statuses": [{"start": 200, "end": 601}]`), "Invalid http expected status range: expecting end <= 600, but found end=601"},
		{"more than is looked at", http(`, "response_buffer_size": 1, "receive": [{"text": "0000"}]`), "receive: The expected response length '2' is over than http health response buffer size '1'"},
		{"host removed", http(`, "request_headers_to_remove": ["x", "Host"]`), "request_headers_to_remove[1]: :-prefixed or host headers may not be removed"},
		{"a pseudo-header", http(`, "request_headers_to_add": [{"header": {"key": ":path", "value": "x"}}]`), "request_headers_to_add[0].header.key: :-prefixed or host headers may not be modified"},
		{"no name of a header", http(`, "request_headers_to_add": [{"header": {"key": "a b", "value": "x"}}]`), `"a b" is no header name`},
		{"a line break", http(`, "request_headers_to_add": [{"header": {"key": "a", "value": "x\ny"}}]`), "control characters"},
		{"an operator", http(`, "request_headers_to_add": [{"header": {"key": "a", "value": "%HOSTNAME%"}}]`), "request_headers_to_add[0].header.value: operators (%) are known but not built"},
		{"both values", http(`, "request_headers_to_add": [{"header": {"key": "a", "value": "x", "raw_value": "eA=="}}]`), "value and raw_value are both set"},
		{"append twice", http(`, "request_headers_to_add": [{"header": {"key": "a", "value": "x"}, "append": true, "append_action": "ADD_IF_ABSENT"}]`), "Both append and append_action are set"},
		{"a matcher", http(`, "service_name_matcher": {"safe_regex": {"regex": "("}}`), "http_health_check.service_name_matcher"},
		{"a logger", plain(`"event_logger": [{"name": "x", "typed_config": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {}}}]`), "event_logger[0]: Didn't find a registered implementation for 'x'"},
		{"a logger without a path", plain(`"event_logger": [{"name": "x", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink"}}]`), "EventLogPath: value length must be at least 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(clusterOf(t, `{"name": "c", "health_checks": [`+tt.checks+`]}`), false)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
}

// The defaults, and what is said in two ways.
func TestRead(t *testing.T) {
	list, err := Read(clusterOf(t, `{"name": "c", "health_checks": [
		{"name": "a", `+required+`, "http_health_check": {"path": "/x"}, "event_log_path": "/1",
			"event_logger": [{"name": "x", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink", "event_log_path": "/2"}}]},
		{"name": "b", `+required+`, "grpc_health_check": {"service_name": "s"}, "reuse_connection": false, "tls_options": {"alpn_protocols": ["x", "y"]}}]}`), true)
	if err != nil || len(list) != 2 {
		t.Fatal(err)
	}
	a, b := list[0], list[1]
	if !a.reuse || b.reuse || strings.Join(a.EventLogs, " ") != "/1 /2" || strings.Join(b.ALPN, " ") != "x y" || a.unhealthyAfter != 3 || a.healthyAfter != 2 {
		t.Errorf("%+v %+v", a, b)
	}
	if h := a.http; h.method != "GET" || h.host != "c" || h.look != 1024 || !in(h.expected, 200) || in(h.expected, 201) || in(h.expected, 199) {
		t.Errorf("%+v", a.http)
	}
	if g := b.grpc; g.authority != "c" || string(g.message) != "\x00\x00\x00\x00\x03\n\x01s" {
		t.Errorf("%+v", b.grpc)
	}
	if none, err := Read(clusterOf(t, `{"name": "c"}`), false); err != nil || none != nil {
		t.Error(none, err)
	}
}
