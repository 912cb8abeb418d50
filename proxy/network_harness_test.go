package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

const (
	echoFilter = `{name: echo, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}`
	okFilter   = `{name: hcm, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
      stat_prefix: in, route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: fine}}}]}]},
      http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}}`
	tlsInspector = `{name: inspector, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}}`
	proxyHeader  = `{name: proxy, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol}}`
)

// canned is a filter that answers by itself, so that a test sees which chain
// was taken.
func canned(text string) string {
	return fmt.Sprintf(`{name: direct, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.direct_response.v3.Config, response: {inline_string: %q}}}`, text)
}

// probe is the configuration of a filter that the test registers under a name.
func probe(name string) string {
	return fmt.Sprintf(`{name: %s, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: %s}}`, name, name)
}

// logTo is an access log of some operators, each line after a tag.
func logTo(tag, operators string) string {
	return fmt.Sprintf(`access_log: [{name: log, typed_config: {"@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog, path: /dev/stdout,
      log_format: {text_format_source: {inline_string: "%s %s\n"}}}}]`, tag, operators)
}

// listen is a listener with one chain of filters; more are further fields.
func listen(name, filters string, more ...string) string {
	return listenChains(name, "{filters: ["+filters+"]}", more...)
}

// listenChains is a listener with filter chains.
func listenChains(name, chains string, more ...string) string {
	return listenAt(name, "{socket_address: {address: 127.0.0.1, port_value: 0}}", append(more, "filter_chains: ["+chains+"]")...)
}

// listenAt is a listener on an address.
func listenAt(name, address string, more ...string) string {
	return fmt.Sprintf("  - {name: %s, stat_prefix: %s, address: %s, %s}\n", name, name, address, strings.Join(more, ", "))
}

// upstreamAt is a static cluster of addresses, with further fields.
func upstreamAt(name string, addresses []string, more ...string) string {
	var hosts []string
	for _, a := range addresses {
		host, port, err := net.SplitHostPort(a)
		address := fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
		if err != nil {
			address = fmt.Sprintf("{pipe: {path: %q}}", a)
		}
		hosts = append(hosts, "{endpoint: {address: "+address+"}}")
	}
	fields := append([]string{"name: " + name, fmt.Sprintf("load_assignment: {cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}", name, strings.Join(hosts, ", "))}, more...)
	return "  - {" + strings.Join(fields, ", ") + "}\n"
}

// bootstrapOf joins listeners and clusters.
func bootstrapOf(listeners, clusters string) string {
	b := "static_resources:\n"
	if listeners != "" {
		b += "  listeners:\n" + listeners
	}
	if clusters != "" {
		b += "  clusters:\n" + clusters
	}
	return b + adminHere
}

// workers makes the proxy run a number of workers.
func workers(n int) func(*proxyrun.Flags, *proxy.Options) {
	return func(f *proxyrun.Flags, o *proxy.Options) { f.Concurrency, o.Workers = n, n }
}

// logged collects what access logs write to /dev/stdout.
func logged(b *syncBuffer) func(*proxyrun.Flags, *proxy.Options) {
	return func(_ *proxyrun.Flags, o *proxy.Options) { o.Stdout = b }
}

// networkProbes registers network filters by the name that probe gives them.
func networkProbes(by map[string]filter.NetworkFactory) func(*proxyrun.Flags, *proxy.Options) {
	kind := filter.NetworkType{Config: (*wrapperspb.StringValue)(nil), New: func(m proto.Message, _ *filter.Env) (filter.NetworkFactory, error) {
		v, _ := m.(*wrapperspb.StringValue)
		f := by[v.GetValue()]
		if f == nil {
			return nil, fmt.Errorf("no probe %q", v.GetValue())
		}
		return f, nil
	}}
	return func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddNetwork(kind) }
	}
}

// finish ends the proxy, so that all logs are written.
func (r *running) finish(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// until asks for statistics until all of some lines are there.
func (r *running) until(t *testing.T, lines ...string) {
	t.Helper()
	var missing []string
	for range 3000 {
		all := "\n" + r.get(t, "/stats")
		missing = nil
		for _, l := range lines {
			if !strings.Contains(all, "\n"+l+"\n") {
				name, _, _ := strings.Cut(l, ":")
				_, now, _ := strings.Cut(all, "\n"+name+": ")
				now, _, _ = strings.Cut(now, "\n")
				missing = append(missing, l+", it is "+now)
			}
		}
		if missing == nil {
			return
		}
	}
	t.Fatalf("not so: %s", strings.Join(missing, "; "))
}

// at is the first address of a listener.
func (r *running) at(name string) string { return r.Listeners()[name][0] }

// dial connects to a listener.
func (r *running) dial(t *testing.T, name string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", r.at(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T", c)
	}
	return tcp
}

// say writes a text.
func say(t *testing.T, c io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads a text.
func hear(t *testing.T, c io.Reader, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("got %q, %v; want %q", b[:n], err, want)
	}
}

// ends reads a text and then the end.
func ends(t *testing.T, c io.Reader, want string) {
	t.Helper()
	b, err := io.ReadAll(c)
	if err != nil || string(b) != want {
		t.Fatalf("got %q, %v; want %q and the end", b, err, want)
	}
}

// serveTCP runs a server that does something with each connection.
func serveTCP(t *testing.T, network, address string, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			go func() {
				defer c.Close()
				do(c)
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// echoes sends back what it gets, until the end, then ends.
func echoes(c net.Conn) { _, _ = io.Copy(c, c) }

// greets says a word and waits for the end.
func greets(word string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = io.WriteString(c, word)
		_, _ = io.Copy(io.Discard, c)
	}
}

// dead is an address that refuses connections.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// fetch asks for a page of a listener.
func (r *running) fetch(t *testing.T, name string) string {
	t.Helper()
	return r.request(t, r.at(name), http.MethodGet, "/", "").body
}

// unchecked reads a bootstrap without the checks of the command line.
func unchecked(t *testing.T, text string) *bootstrapv3.Bootstrap {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	return &b
}

// number is the value of one counter or gauge.
func (r *running) number(t *testing.T, name string) int {
	t.Helper()
	_, rest, ok := strings.Cut("\n"+r.get(t, "/stats"), "\n"+name+": ")
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(line)
	if !ok || err != nil {
		t.Fatalf("%s: %q", name, line)
	}
	return n
}
