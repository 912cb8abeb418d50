package proxy_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	directv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/proxy"
)

// urls are the type URLs of messages.
func urls(list ...proto.Message) string {
	var out []string
	for _, m := range list {
		out = append(out, packed(m).GetTypeUrl())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// discoveredFilter is a network or listener filter that is discovered.
func discoveredFilter(more string, types ...proto.Message) string {
	return "{name: flt, config_discovery: {config_source: {ads: {}}, type_urls: " + urls(types...) + more + "}}"
}

// dialUntil dials until a connection answers what is said with a text: workers
// hear of a change a moment later.
func dialUntil(t *testing.T, r *running, name, said, want string) net.Conn {
	t.Helper()
	got := ""
	for range 1000 {
		c := r.dial(t, name)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, said) // it may be closed already
		b := make([]byte, len(want))
		n, _ := io.ReadFull(c, b)
		if got = string(b[:n]); got == want {
			_ = c.SetDeadline(time.Time{})
			return c
		}
		_ = c.Close()
	}
	t.Fatalf("new connections get %q, want %q", got, want)
	return nil
}

// Proves NF-21: a listener waits for its network filter; connections are closed
// as long as there is none; they keep the filter that they began with.
func TestNetworkFilterComesAndChanges(t *testing.T) {
	backend := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) { fmt.Fprint(c, "backend") })
	s := newSource()
	r := begin(t, bootstrapOf(
		listen("front", discoveredFilter("", &directv3.Config{}, &echov3.Echo{}, &tcpv3.TcpProxy{}, &wrapperspb.StringValue{})),
		upstreamAt("b", []string{backend})), s.by, networkProbes(map[string]filter.NetworkFactory{"a": func(filter.Connection) filter.NetworkFilter { return filter.NetworkFilter{} }}))
	s.wants(t, "map[TypedExtensionConfig flt:true]")
	select {
	case <-r.Ready():
		t.Fatal("ready without a filter")
	default:
	}
	res := r.Resources()
	if err := res.SetExtension(nil, extension(&tcpv3.TcpProxy{StatPrefix: "t", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "b"}}), "1"); err != nil {
		t.Fatal(err)
	}
	<-r.Ready()
	ends(t, r.dial(t, "front"), "backend")
	must(t, res.SetExtension(nil, extension(&echov3.Echo{}), "2"))
	echo := dialUntil(t, r, "front", "one", "one")
	must(t, res.SetExtension(nil, extension(&directv3.Config{Response: inline("direct")}), "3"))
	dialUntil(t, r, "front", "echo, echo", "direct")
	say(t, echo, "two")
	hear(t, echo, "two")
	for want, m := range map[string]proto.Message{
		"Error: non-terminal filter named flt of type google.protobuf.StringValue is the last filter in a network filter chain.": wrapperspb.String("a"),
		"Error: filter config has type URL envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector but expect ":          &tlsinspectorv3.TlsInspector{},
		"typed_config.stat_prefix": &tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: "b"}},
	} {
		if err := res.SetExtension(nil, extension(m), "4"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	ends(t, r.dial(t, "front"), "direct")
	if d := dumped(t, r, &adminv3.EcdsConfigDump{}).GetEcdsFilters(); len(d) != 1 || d[0].GetVersionInfo() != "3" {
		t.Errorf("%v", d)
	}
	r.until(t, "extension_config_discovery.network_filter.flt.config_reload: 3", "extension_config_discovery.network_filter.flt.config_fail: 3")
}

// Proves LF-14. Partly proves NF-21: connections are closed when no filter has
// come in time.
func TestConnectionsWithoutTheirFilter(t *testing.T) {
	late := func(types ...proto.Message) string {
		return strings.Replace(discoveredFilter("", types...), "ads: {}}", "ads: {}, initial_fetch_timeout: 0.01s}", 1)
	}
	s := newSource()
	r := start(t, bootstrapOf(
		listen("net", late(&directv3.Config{}))+
			listen("lis", canned("direct"), "listener_filters: ["+late(&proxyprotocolv3.ProxyProtocol{}, &tlsinspectorv3.TlsInspector{})+"]"), ""), s.by)
	ends(t, r.dial(t, "net"), "")
	ends(t, r.dial(t, "lis"), "")
	r.until(t, "listener.net.network_extension_config_missing: 1", "listener.net.extension_config_missing: 0", "listener.lis.network_extension_config_missing: 0",
		"listener.lis.extension_config_missing: 1", "listener.net.downstream_cx_total: 1", "listener.lis.downstream_cx_total: 0", "listener.lis.downstream_pre_cx_active: 0",
		"extension_config_discovery.network_filter.flt.init_fetch_timeout: 1", "extension_config_discovery.tcp_listener_filter.flt.init_fetch_timeout: 1")
	// The listener filter has the same name: neither can be what the other is.
	if err := r.Resources().SetExtension(nil, extension(&proxyprotocolv3.ProxyProtocol{}), "1"); err == nil {
		t.Error("a listener filter is taken for a network filter")
	}
	dialUntil(t, r, "lis", "PROXY TCP4 1.2.3.4 5.6.7.8 9 10\r\n", "direct")
	if err := r.Resources().SetExtension(nil, extension(&tlsinspectorv3.TlsInspector{}), "2"); err == nil {
		t.Error("a listener filter is taken for a network filter")
	}
	dialUntil(t, r, "lis", "anything", "direct")
}

// A filter in the middle of a chain may be discovered too, and a listener filter
// may be taken over by a new version of its listener.
func TestFiltersOfAReplacedListener(t *testing.T) {
	var a, b atomic.Int64
	count := func(n *atomic.Int64) filter.NetworkFactory {
		return func(filter.Connection) filter.NetworkFilter {
			n.Add(1)
			return filter.NetworkFilter{}
		}
	}
	s := newSource()
	r := start(t, byHeader, s.by, networkProbes(map[string]filter.NetworkFactory{"a": count(&a), "b": count(&b)}))
	res := r.Resources()
	at := freeAddress(t)
	source := func(m proto.Message) *corev3.ExtensionConfigSource {
		return &corev3.ExtensionConfigSource{ConfigSource: ads(), TypeUrls: []string{packed(m).GetTypeUrl()}}
	}
	listening := func(text string, more ...*listenerv3.FilterChain) *listenerv3.Listener {
		c := chainOf(manager(with(saying("r", text))))
		c.Filters = append([]*listenerv3.Filter{{Name: "flt", ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: source(&wrapperspb.StringValue{})}}}, c.Filters...)
		l := listenerAt("l", at, append(more, c)...)
		l.ListenerFilters = []*listenerv3.ListenerFilter{{Name: "lis", ConfigType: &listenerv3.ListenerFilter_ConfigDiscovery{ConfigDiscovery: source(&tlsinspectorv3.TlsInspector{})}}}
		return l
	}
	must(t, res.SetListener(listening("one"), "1"))
	s.wants(t, "map[TypedExtensionConfig flt:true TypedExtensionConfig lis:true]")
	must(t, res.SetExtension(nil, extension(wrapperspb.String("a")), "1"))
	if got := getOnce(t, at); got != "error" {
		t.Errorf("with half of the filters: %q", got)
	}
	must(t, res.SetExtension(nil, &corev3.TypedExtensionConfig{Name: "lis", TypedConfig: packed(&tlsinspectorv3.TlsInspector{})}, "1"))
	becomes(t, at, "one")
	if a.Load() == 0 || b.Load() != 0 {
		t.Errorf("a %d, b %d", a.Load(), b.Load())
	}
	l := dialLine(t, at, "")
	l.expect(t, "one", true)
	must(t, res.SetExtension(nil, extension(wrapperspb.String("b")), "2"))
	for i := 0; b.Load() == 0; i++ {
		if becomes(t, at, "one"); i > 500 {
			t.Fatal("the new filter has seen no connection")
		}
	}
	l.expect(t, "one", true)
	// In place: the chain stays, the listener filter is another's with what is there.
	must(t, res.SetListener(listening("one", from(chainOf(manager(with(saying("r", "else")))), "127.0.0.9")), "2"))
	if getOnce(t, at) != "one" {
		t.Error("changed in place")
	}
	l.expect(t, "one", true)
	if got := r.get(t, "/stats?filter=^listener_manager.listener_in_place_updated$"); got != "listener_manager.listener_in_place_updated: 1\n" {
		t.Error(got)
	}
	_ = l.Close()
	res.RemoveListener("l")
	s.wants(t, "map[]")
	if got := strings.Count(strings.Join(s.events, " "), "+TypedExtensionConfig"); got != 2 {
		t.Errorf("%v", s.events)
	}
}

// A connection manager cannot be discovered alone, which is said.
func TestConnectionManagerAlone(t *testing.T) {
	loaded, o, _ := load(t, bootstrapOf(listen("front", discoveredFilter("", &hcmv3.HttpConnectionManager{})), ""), newSource().by)
	const want = "filter_chains[0].filters[0].config_discovery.type_urls[0]: known but not built: a connection manager that is discovered alone"
	if _, err := proxy.New(loaded.Bootstrap, o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}
