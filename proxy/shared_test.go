package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/testpeer"
	"github.com/xebec-proxy/xebec/proxy"
)

// sharer sets what its stream knows with the request, and tells with the
// response what it finds of the other filter's.
type sharer struct {
	cb   filter.Callbacks
	name string
}

func (f *sharer) DecodeHeaders(*header.Map, bool) filter.HeadersStatus {
	info := f.cb.Info()
	info.SetMetadata("shared", f.name, structpb.NewStringValue("of "+f.name))
	info.SetState("state."+f.name, "set by "+f.name)
	return filter.Continue
}

func (f *sharer) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

func (f *sharer) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

func (f *sharer) Encode1xx(*header.Map) {}

func (f *sharer) EncodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

func (f *sharer) EncodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

func (f *sharer) EncodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	info := f.cb.Info()
	for _, other := range []string{"a", "b"} {
		h.Add("x-"+f.name+"-sees", fmt.Sprintf("%s, %v", info.Metadata["shared"].GetFields()[other].GetStringValue(), info.State["state."+other]))
	}
	return filter.Continue
}

// Proves HF-14: what one filter notes of a stream is there for the others, for
// formatters of headers, and for the access log.
func TestStreamsShareTheirData(t *testing.T) {
	kind := filter.HTTPType{
		Config: (*wrapperspb.StringValue)(nil),
		New: func(m proto.Message, _ *filter.Env) (filter.HTTPFactory, error) {
			v, _ := m.(*wrapperspb.StringValue)
			return func(cb filter.Callbacks) filter.HTTPFilter {
				f := &sharer{cb: cb, name: v.GetValue()}
				return filter.HTTPFilter{Decoder: f, Encoder: f}
			}, nil
		},
	}
	one := func(name string) string {
		return fmt.Sprintf(`{name: %s, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: %s}},`, name, name)
	}
	const formatted = "%DYNAMIC_METADATA(shared:a)% %DYNAMIC_METADATA(shared:b)% %FILTER_STATE(state.a:PLAIN)%"
	s := &site{
		filters: one("a") + one("b"),
		routes:  `{match: {prefix: /}, direct_response: {status: 200}, response_headers_to_add: [{header: {key: x-formatted, value: "` + formatted + `"}}]}`,
		manager: `access_log: [{name: log, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StderrAccessLog,
          log_format: {text_format_source: {inline_string: "` + formatted + `\n"}}}}],`,
	}
	bootstrap := s.yaml(t)
	before, after, _ := strings.Cut(bootstrap, "      access_log: [{name: log, typed_config: {\n") // it has one of its own
	_, after, _ = strings.Cut(after, "      route_config:")
	bootstrap = before + "      route_config:" + after
	log := &syncBuffer{}
	r := start(t, bootstrap, func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
		o.Stderr, o.LogFlushInterval = log, time.Millisecond
	})
	resp, err := r.client.Get("http://" + r.at("front"))
	must(t, err)
	_ = resp.Body.Close()
	for _, name := range []string{"X-A-Sees", "X-B-Sees"} {
		if got := fmt.Sprint(resp.Header[name]); got != "[of a, set by a of b, set by b]" {
			t.Errorf("%s: %s", name, got)
		}
	}
	const want = "of a of b set by a"
	if got := resp.Header.Get("X-Formatted"); got != want {
		t.Errorf("formatted: %s", got)
	}
	until(t, log.String, func() bool { return log.String() == want+"\n" })
}

// Partly proves AL-01: there is a line for every stream and connection once it
// has ended, however it did.
func TestLogsTellOfEveryEnd(t *testing.T) {
	dir := t.TempDir()
	to := func(name, format string) string {
		return fmt.Sprintf(`access_log: [{name: log, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog,
        path: %q, log_format: {text_format_source: {inline_string: "%s\n"}}}}]`, filepath.Join(dir, name), format)
	}
	hold := testpeer.Start(t, func(c net.Conn, _ int) { // a head, and never the body
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
		_, _ = io.Copy(io.Discard, c)
	})
	const stream = "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS%"
	r := start(t, fmt.Sprintf(`
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}, %s}
static_resources:
  listeners:
  - name: http
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    %s
    filter_chains: [{filters: [{name: hcm, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: in, %s,
      route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: back}}]}]},
      http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}}]}]
  - name: tcp
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    %s
    filter_chains: [{filters: [{name: tcp, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: back, %s}}]}]
  - name: none
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    %s
    filter_chains: [{filter_chain_match: {source_ports: [1]}, filters: []}]
  clusters:
  - {name: back, load_assignment: {cluster_name: back, endpoints: [{lb_endpoints: [%s]}]}}
`, to("admin", "%REQ(:PATH)%"), to("http-connection", "%BYTES_SENT%"), to("stream", stream), to("tcp-connection", "%BYTES_SENT%"), to("tcp", "%BYTES_SENT% %RESPONSE_FLAGS%"),
		to("none", "%RESPONSE_FLAGS%"), endpoints(t, []string{hold.Addr().String()})), func(_ *proxyrun.Flags, o *proxy.Options) { o.LogFlushInterval = time.Millisecond })
	for _, at := range []string{"http", "tcp"} { // each client leaves in the middle of a response
		c, err := net.Dial("tcp", r.at(at))
		must(t, err)
		_, err = io.WriteString(c, "GET / HTTP/1.1\r\nhost: x\r\n\r\n")
		must(t, err)
		_, err = bufio.NewReader(c).ReadString('\n')
		must(t, err)
		must(t, c.(*net.TCPConn).SetLinger(0)) //nolint:forcetypeassert // it is one
		must(t, c.Close())
	}
	c, err := net.Dial("tcp", r.at("none"))
	must(t, err)
	_, _ = io.Copy(io.Discard, c) // until the proxy closes it
	must(t, c.Close())
	r.get(t, "/ready")
	for name, want := range map[string]string{
		"stream": "200 DC downstream_remote_disconnect\n", "tcp": "38 -\n", "none": "NR\n", "admin": "/ready\n",
		"http-connection": "*", "tcp-connection": "*",
	} {
		var got string
		until(t, func() string { return name + ": " + got }, func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			got = string(b)
			return got == want || want == "*" && strings.Count(got, "\n") == 1
		})
	}
}
