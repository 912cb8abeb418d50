package proxy_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// collector is a filter that waits for the whole response.
type collector struct{}

func (collector) Encode1xx(*header.Map) {}

func (collector) EncodeHeaders(*header.Map, bool) filter.HeadersStatus { return filter.StopIteration }

func (collector) EncodeData(_ *filter.Buffer, end bool) filter.DataStatus {
	if end {
		return filter.DataContinue
	}
	return filter.DataStopIterationAndBuffer
}

func (collector) EncodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

func collecting(_ *proxyrun.Flags, o *proxy.Options) {
	o.Register = func(r *filter.Registry) error {
		return r.AddHTTP(filter.HTTPType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
			return func(filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Encoder: collector{}} }, nil
		}})
	}
}

// Partly proves RT-40, RT-49: details of what is too much, or not allowed.
func TestDetailsOfLimits(t *testing.T) {
	up := backend(t, func(w *wire, _ int) {
		for h := w.head(); h != ""; h = w.head() {
			switch {
			case strings.HasPrefix(h, "GET /large"):
				w.send("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n%s", strings.Repeat("a", 100_000))
			case strings.HasPrefix(h, "POST /again"):
				w.send("%s", cannot503)
			default:
				w.send("%s", ok)
			}
		}
	})
	const limit = "per_connection_buffer_limit_bytes: 4096,"
	forever := "retry_policy: {retry_on: 5xx, retry_back_off: {base_interval: 10000s, max_interval: 10000s}}"
	v := (&site{
		manager: "use_remote_address: true, internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.0, prefix_len: 8}]},",
		hosts:   []string{up}, listener: limit, filters: probeFilter, router: "strict_check_headers: [x-envoy-max-retries],",
		routes: "{match: {prefix: /again}, route: {cluster: back, " + forever + "}}, {match: {prefix: /drop}, route: {cluster: drop}}, {match: {prefix: /}, route: {cluster: back}}",
		more: "- {name: drop, load_assignment: {cluster_name: drop, endpoints: [{lb_endpoints: [" + endpoints(t, []string{up}) + "]}], " +
			"policy: {drop_overloads: [{category: c, drop_percentage: {numerator: 100}}]}}}",
	}).serve(t, collecting)
	w := v.dial(t)
	w.get("/large")
	w.want("500 Internal Server Error")
	want := []string{"500 - response_payload_too_large"}
	v.logged(t, want...)

	w = v.dial(t)
	w.send("POST /again HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\nfirst")
	v.counts(t, "cluster.back.retry.upstream_rq_503 1") // and waits for the next try
	w.send("%s", strings.Repeat("a", 5000))
	w.want("507 exceeded request buffer limit while retrying upstream")
	_ = w.Close()
	want = append(want, "507 - request_payload_exceeded_retry_buffer_limit")
	v.logged(t, want...)

	for _, x := range []struct{ path, field, log string }{
		{"/", "x-envoy-max-retries: many", "400 IH request_headers_failed_strict_check{x-envoy-max-retries}"},
		{"/drop", "a: b", "503 UDO unconditional_drop_overload"},
		{"/", "upgrade: x\r\nconnection: upgrade", "403 - upgrade_failed"},
	} {
		w = v.dial(t)
		w.get(x.path, x.field)
		w.reply()
		want = append(want, x.log)
		v.logged(t, want...)
	}
}
