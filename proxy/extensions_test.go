package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

const (
	faultType  = "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"
	headerType = "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
	routerType = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
)

// filtered is byHeader with a filter before the router that is discovered.
func filtered(discovery string) string {
	return strings.Replace(byHeader, "          http_filters:\n", `          http_filters:
          - {name: flt, config_discovery: {`+discovery+"}}\n", 1)
}

const fromADS = "config_source: {ads: {}}, type_urls: [" + faultType + ", " + headerType + ", " + routerType + "]"

func extension(m proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: "flt", TypedConfig: packed(m)}
}

// aborting is a fault filter that answers every request.
func aborting(status uint32) *faultv3.HTTPFault {
	return &faultv3.HTTPFault{Abort: &faultv3.FaultAbort{
		ErrorType:  &faultv3.FaultAbort_HttpStatus{HttpStatus: status},
		Percentage: &typev3.FractionalPercent{Numerator: 100},
	}}
}

// marking is a filter that marks responses.
func marking(value string) *headerv3.HeaderMutation {
	return &headerv3.HeaderMutation{Mutations: &headerv3.Mutations{ResponseMutations: []*mutationv3.HeaderMutation{{
		Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "x-mark", Value: value}}},
	}}}}
}

// Partly proves BS-31, XN-30: the listener waits for the filter; one of
// another type, with a bad field or for another place is refused and leaves the
// last good one; what is shown of it.
func TestFilterComesAndChanges(t *testing.T) {
	s := newSource()
	r := begin(t, filtered(fromADS), s.by)
	s.wants(t, "map[TypedExtensionConfig flt:true]")
	select {
	case <-r.Ready():
		t.Fatal("ready without a filter")
	default:
	}
	res := r.Resources()
	must(t, res.SetExtension(ads(), &corev3.TypedExtensionConfig{Name: "other"}, "0"))
	must(t, res.SetExtension(ads(), extension(aborting(418)), "1"))
	<-r.Ready()
	r.expect(t, "x", "418 fault filter abort")
	must(t, res.SetExtension(ads(), extension(aborting(418)), "2"))
	must(t, res.SetExtension(nil, extension(aborting(599)), "3"))
	r.expect(t, "x", "599 fault filter abort")
	spans := &routerv3.Router{StartChildSpan: true} //nolint:staticcheck // deprecated, and refused
	for want, m := range map[string]proto.Message{
		"Error: filter config has type URL envoy.extensions.filters.http.buffer.v3.Buffer but expect " +
			"envoy.extensions.filters.http.fault.v3.HTTPFault, envoy.extensions.filters.http.header_mutation.v3.HeaderMutation, " +
			"envoy.extensions.filters.http.router.v3.Router.": &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1024)},
		"typed_config.abort.http_status: ": aborting(999),
		"terminal filter named flt of type envoy.extensions.filters.http.router.v3.Router must be the last filter in a http filter chain.": &routerv3.Router{},
		"typed_config.start_child_span: known but not built in this version":                                                               spans,
	} {
		if err := res.SetExtension(ads(), extension(m), "4"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `filter "flt": `) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	r.expect(t, "x", "599 fault filter abort")
	d := dumped(t, r, &adminv3.EcdsConfigDump{}).GetEcdsFilters()
	if len(d) != 1 || d[0].GetVersionInfo() != "3" || d[0].GetErrorState().GetVersionInfo() != "4" || !strings.Contains(d[0].GetEcdsFilter().String(), "599") {
		t.Errorf("%v", d)
	}
	if got := r.get(t, "/config_dump?resource=ecds_filters&name_regex=fl."); !strings.Contains(got, `"http_status": 599`) {
		t.Error(got)
	}
	want := `extension_config_discovery.http_filter.flt.version_text: "3"
extension_config_discovery.http_filter.flt.config_conflict: 0
extension_config_discovery.http_filter.flt.config_fail: 4
extension_config_discovery.http_filter.flt.config_reload: 2
extension_config_discovery.http_filter.flt.init_fetch_timeout: 0
extension_config_discovery.http_filter.flt.update_attempt: 8
extension_config_discovery.http_filter.flt.update_failure: 0
extension_config_discovery.http_filter.flt.update_rejected: 4
extension_config_discovery.http_filter.flt.update_success: 3
extension_config_discovery.http_filter.flt.version: 2744517546871237796
`
	if got := r.get(t, "/stats?filter=^extension_config_discovery.*(config|init|attempt|failure|rejected|success|version|version_text)"); got != want {
		t.Errorf("statistics:\n%s", got)
	}
	res.Missing(ads(), proxy.ExtensionType, "flt")
	r.expect(t, "x", "599 fault filter abort") // as long as a filter names it
	must(t, res.SetExtension(ads(), extension(marking("m")), "5"))
	r.expect(t, "x", "503 ")
}

// Partly proves BS-31: without a configuration requests get 500 when it was
// waited for long enough, when there is none, or when it was refused; filters
// before that one run.
func TestFilterThatDoesNotCome(t *testing.T) {
	late := "config_source: {ads: {}, initial_fetch_timeout: 0.01s}, type_urls: [" + faultType + "]"
	never := "config_source: {ads: {}, initial_fetch_timeout: 0s}, type_urls: [" + faultType + "]"
	for name, c := range map[string]struct {
		discovery string
		answer    func(r *proxy.Resources, typeURL, name string)
		timeouts  int
	}{
		"late":    {late, nil, 1},
		"missing": {never, func(r *proxy.Resources, typeURL, name string) { r.Missing(nil, typeURL, name) }, 0},
		"refused": {never, func(r *proxy.Resources, _, _ string) {
			if r.SetExtension(nil, extension(marking("x")), "1") == nil {
				panic("it was taken")
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource()
			s.answer = c.answer
			log := &syncBuffer{}
			first := strings.Replace(filtered(c.discovery), "          http_filters:\n", `          access_log:
          - name: log
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StderrAccessLog
              log_format: {text_format_source: {inline_string: "%RESPONSE_CODE% %RESPONSE_FLAGS%\n"}}
          http_filters:
          - name: first
            typed_config: {"@type": `+headerType+`, mutations: {response_mutations: [{append: {header: {key: x-first, value: was-here}}}]}}
`, 1)
			r := start(t, first, s.by, func(_ *proxyrun.Flags, o *proxy.Options) { o.Stderr, o.LogFlushInterval = log, time.Millisecond })
			resp, err := r.client.Get("http://" + r.Listeners()["front"][0])
			must(t, err)
			_ = resp.Body.Close()
			if resp.StatusCode != 500 || resp.ContentLength != 0 || resp.Header.Get("X-First") != "was-here" {
				t.Errorf("%v", resp)
			}
			for range 500 {
				if log.String() != "" {
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			if got := log.String(); got != "500 NFCF\n" {
				t.Errorf("logged: %q", got)
			}
			want := fmt.Sprintf("extension_config_discovery.http_filter.flt.init_fetch_timeout: %d\n", c.timeouts)
			if got := r.get(t, "/stats?filter=extension_config_discovery.*init_fetch_timeout"); got != want {
				t.Error(got)
			}
			must(t, r.Resources().SetExtension(nil, extension(aborting(418)), "1"))
			r.expect(t, "x", "418 fault filter abort")
		})
	}
}

// Proves XN-30. Partly proves BS-31: default_config serves until the configuration
// comes, after it was waited for, or without, when it is refused, and again when
// there is none any more.
func TestFilterWithADefault(t *testing.T) {
	withDefault := fromADS + `, default_config: {"@type": ` + faultType + `, abort: {http_status: 410, percentage: {numerator: 100}}}`
	t.Run("without warming", func(t *testing.T) {
		s := newSource()
		r := start(t, filtered(withDefault+", apply_default_config_without_warming: true"), s.by)
		s.wants(t, "map[TypedExtensionConfig flt:true]")
		r.expect(t, "x", "410 fault filter abort")
		for _, m := range []proto.Message{&bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)}, aborting(1)} {
			if err := r.Resources().SetExtension(nil, extension(m), "0"); err == nil {
				t.Errorf("%v is taken", m)
			}
		}
		must(t, r.Resources().SetExtension(nil, &corev3.TypedExtensionConfig{Name: "other", TypedConfig: packed(aborting(418))}, "0"))
		r.expect(t, "x", "410 fault filter abort")
		must(t, r.Resources().SetExtension(nil, extension(aborting(418)), "1"))
		r.expect(t, "x", "418 fault filter abort")
		r.Resources().Missing(nil, proxy.ExtensionType, "flt")
		r.expect(t, "x", "410 fault filter abort")
		if d := dumped(t, r, &adminv3.EcdsConfigDump{}); len(d.GetEcdsFilters()) != 0 {
			t.Errorf("%v", d)
		}
		must(t, r.Resources().SetExtension(nil, extension(aborting(418)), "1"))
		r.expect(t, "x", "418 fault filter abort")
	})
	t.Run("after a while", func(t *testing.T) {
		r := start(t, strings.Replace(filtered(withDefault), "ads: {}}", "ads: {}, initial_fetch_timeout: 0.01s}", 1), newSource().by)
		r.expect(t, "x", "410 fault filter abort")
	})
}

// Proves BS-31: a filter is replaced under traffic, without a restart of the
// listener: no request fails, what is under way keeps the filter it began with,
// and the connection goes on.
func TestFilterIsSwappedUnderTraffic(t *testing.T) {
	arrived, goOn := make(chan struct{}), make(chan struct{})
	b := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.Header.Get("X-Wait") != "" {
			arrived <- struct{}{}
			<-goOn
		}
	}))
	t.Cleanup(b.Close)
	s := newSource()
	s.answer = func(r *proxy.Resources, _, _ string) { _ = r.SetExtension(nil, extension(marking("0")), "0") }
	r := start(t, filtered(fromADS), s.by)
	must(t, r.Resources().SetCluster(staticCluster("x", b.Listener.Addr().String()), "1"))
	r.expect(t, "x", "200 ")
	mark := func(client *http.Client, wait string) string {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Listeners()["front"][0], http.NoBody)
		if err != nil {
			return err.Error()
		}
		q.Header.Set("X-To", "x")
		q.Header.Set("X-Wait", wait)
		resp, err := client.Do(q)
		if err != nil {
			return err.Error()
		}
		_ = resp.Body.Close()
		return resp.Status + " " + resp.Header.Get("X-Mark")
	}
	slow := make(chan string)
	go func() { slow <- mark(http.DefaultClient, "yes") }()
	<-arrived
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	one := &http.Client{Transport: transport}
	connections := r.get(t, "/stats?filter=^http.in.downstream_cx_total$")
	for i := 1; i <= 20; i++ {
		must(t, r.Resources().SetExtension(nil, extension(marking(fmt.Sprint(i))), fmt.Sprint(i)))
		for got := ""; got != fmt.Sprintf("200 OK %d", i); {
			if got = mark(one, ""); got != fmt.Sprintf("200 OK %d", i) && got != fmt.Sprintf("200 OK %d", i-1) {
				t.Fatalf("after change %d: %s", i, got)
			}
		}
	}
	var before, after int
	if _, err := fmt.Sscanf(connections+r.get(t, "/stats?filter=^http.in.downstream_cx_total$"), "http.in.downstream_cx_total: %d\nhttp.in.downstream_cx_total: %d\n", &before, &after); err != nil || after != before+1 {
		t.Errorf("connections: %d, then %d (%v)", before, after, err)
	}
	close(goOn)
	if got := <-slow; got != "200 OK 0" {
		t.Errorf("what was under way: %s", got)
	}
	// The filter may become one of another type.
	must(t, r.Resources().SetExtension(nil, extension(aborting(418)), "fault"))
	r.expect(t, "x", "418 fault filter abort")
	want := "listener_manager.listener_added: 1\nlistener_manager.listener_modified: 0\n"
	if got := r.get(t, "/stats?filter=^listener_manager.listener_(added|modified)$"); got != want {
		t.Error(got)
	}
}

// Two connection managers share a configuration; a new one that it does not
// suit counts a conflict; with the last of them nobody asks for it any more.
func TestFilterIsShared(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	listen := func(name string, types ...string) string {
		t.Helper()
		at := freeAddress(t)
		must(t, res.SetListener(listenerAt(name, at, chainOf(manager(with(saying("rc", "plain")), func(m *hcmv3.HttpConnectionManager) {
			m.HttpFilters = append([]*hcmv3.HttpFilter{{Name: "flt", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
				ConfigDiscovery: &corev3.ExtensionConfigSource{ConfigSource: ads(), TypeUrls: types},
			}}}, m.HttpFilters...)
		}))), "1"))
		return at
	}
	a, b := listen("a", faultType, headerType), listen("b", faultType)
	must(t, res.SetExtension(nil, extension(aborting(418)), "1"))
	becomes(t, a, "fault filter abort")
	becomes(t, b, "fault filter abort")
	// It has to suit everybody.
	if err := res.SetExtension(nil, extension(marking("x")), "2"); err == nil {
		t.Error("a type that one of them does not take is taken")
	}
	c := listen("c", headerType)
	becomes(t, c, "")
	if got := r.get(t, "/stats?filter=config_conflict"); got != "extension_config_discovery.http_filter.flt.config_conflict: 1\n" {
		t.Error(got)
	}
	res.RemoveListener("a")
	res.RemoveListener("c")
	s.wants(t, "map[TypedExtensionConfig flt:true]")
	res.RemoveListener("b")
	s.wants(t, "map[]")
	if got := strings.Join(s.events, " "); got != "+TypedExtensionConfig flt -TypedExtensionConfig flt" {
		t.Error(got)
	}
}

// Settings of a route are those of the filter of their name, whatever has come
// for it.
func TestRoutesSetWhatIsDiscovered(t *testing.T) {
	s := newSource()
	s.answer = func(r *proxy.Resources, _, _ string) { _ = r.SetExtension(nil, extension(aborting(418)), "1") }
	r := start(t, strings.Replace(filtered(fromADS), "route: {cluster_header: x-to}",
		`route: {cluster_header: x-to}
                typed_per_filter_config:
                  flt: {"@type": `+faultType+`, abort: {http_status: 451, percentage: {numerator: 100}}}`, 1), s.by)
	r.expect(t, "x", "451 fault filter abort")
	must(t, r.Resources().SetExtension(nil, extension(marking("x")), "2"))
	r.expect(t, "x", "503 ")
}

// What can be told before anything came is told by Envoy's texts.
func TestFilterDiscoveryThatCannotBe(t *testing.T) {
	for discovery, want := range map[string]string{
		"config_source: {ads: {}}, type_urls: [a/b.C]":                                                            "http_filters[0].config_discovery.type_urls[0]: Error: no factory found for a required type URL b.C.",
		fromADS + ", apply_default_config_without_warming: true":                                                  "Error: filter config flt applied without warming but has no default config.",
		fromADS + `, default_config: {"@type": ` + routerType + "}":                                               "http_filters[0].config_discovery.default_config: Error: terminal filter named flt of type",
		"config_source: {ads: {}}, type_urls: [" + faultType + `], default_config: {"@type": ` + routerType + "}": "http_filters[0].config_discovery.default_config: Error: filter config has type URL envoy.extensions.filters.http.router.v3.Router but expect envoy.extensions.filters.http.fault.v3.HTTPFault.",
	} {
		loaded, o, _ := load(t, filtered(discovery), newSource().by)
		if _, err := proxy.New(loaded.Bootstrap, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", discovery, err)
		}
	}
	upstream := strings.Replace(byHeader, "typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}",
		"typed_config: {\"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router, upstream_http_filters: [{name: flt, config_discovery: {"+fromADS+"}}]}", 1)
	loaded, o, _ := load(t, upstream, newSource().by)
	if _, err := proxy.New(loaded.Bootstrap, o); err == nil || !strings.Contains(err.Error(), "upstream_http_filters[0].config_discovery: known but not built") {
		t.Errorf("upstream: %v", err)
	}
}
