package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// scopedBy is small with scoped routes, by the header x-to.
func scopedBy(rest string) string {
	i, j := strings.Index(small, "          route_config:"), strings.Index(small, "          http_filters:")
	return small[:i] + `          scoped_routes:
            name: tenants
            scope_key_builder: {fragments: [{header_value_extractor: {name: x-to, index: 0}}]}
            ` + rest + "\n" + small[j:] + adminHere
}

var scopedDiscovered = scopedBy(`rds_config_source: {ads: {}, initial_fetch_timeout: 20s}
            scoped_rds: {scoped_rds_config_source: {ads: {}, initial_fetch_timeout: 20s}}`)

// scopeOf is a scope by one header, with routes of RDS, or its own if table is
// not nil.
func scopeOf(name, key, routes string, table *routev3.RouteConfiguration) *routev3.ScopedRouteConfiguration {
	return &routev3.ScopedRouteConfiguration{
		Name: name, RouteConfigurationName: routes, RouteConfiguration: table,
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{
			{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: key}},
		}},
	}
}

// told is what a source was asked for, in order.
func (s *source) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

type scopeList = []*routev3.ScopedRouteConfiguration

func notReady(t *testing.T, r *running, what string) {
	t.Helper()
	select {
	case <-r.Ready():
		t.Fatal("ready without " + what)
	case <-time.After(30 * time.Millisecond):
	}
}

// Proves RT-11, with TestScopeKeyOfRequest for keys, TestListenersShareScopes for
// scopes of the configuration and TestScopesOnDemand: the listener waits for its
// scopes and their routes, each request finds the routes of its tenant, and
// scopes share routes, exchange their keys, change and go.
func TestScopesComeAndChange(t *testing.T) {
	s := newSource()
	r := begin(t, scopedDiscovered, s.by)
	notReady(t, r, "scopes")
	res := r.Resources()
	must(t, res.SetScopedRoutes(ads(), scopeList{
		scopeOf("one", "a", "ra", nil), scopeOf("two", "b", "rb", nil), scopeOf("three", "c", "rb", nil),
		scopeOf("own", "o", "", saying("x", "own")),
	}, nil, "s1"))
	notReady(t, r, "routes")
	must(t, res.SetRoutes(ads(), saying("ra", "A"), "1"))
	notReady(t, r, "all routes")
	must(t, res.SetRoutes(ads(), saying("rb", "B"), "1"))
	<-r.Ready()
	for tenant, want := range map[string]string{"a": "200 A", "b": "200 B", "c": "200 B", "o": "200 own", "A": "404 ", "": "404 "} {
		r.expect(t, tenant, want)
	}
	must(t, res.SetRoutes(ads(), saying("rb", "B2"), "2"))
	r.expect(t, "b", "200 B2")
	r.expect(t, "c", "200 B2")
	// Two exchange their keys, one goes.
	must(t, res.SetScopedRoutes(ads(), scopeList{scopeOf("one", "b", "ra", nil), scopeOf("two", "a", "rb", nil)}, []string{"three", "never"}, "s2"))
	r.expect(t, "b", "200 A")
	r.expect(t, "a", "200 B2")
	r.expect(t, "c", "404 ")
	// Routes that have not come take nobody's place; the scope's name does not matter.
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("four", "b", "rd", nil), scopeOf("late", "l", "rl", nil)}, []string{"one"}, "s3"))
	r.expect(t, "l", "404 ")
	if got := r.to(t, "b"); got != "200 A" {
		t.Errorf("a scope whose new routes have not come: %q", got)
	}
	must(t, res.SetRoutes(ads(), saying("rd", "D"), "1"))
	r.expect(t, "b", "200 D")
	must(t, res.SetRoutes(ads(), saying("rl", "L"), "1"))
	r.expect(t, "l", "200 L")
	want := "[+ScopedRouteConfiguration * +RouteConfiguration ra +RouteConfiguration rb +RouteConfiguration rd +RouteConfiguration rl -RouteConfiguration ra]"
	if got := fmt.Sprint(s.told()); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	want = "http.in.scoped_rds.tenants.version_text: \"s3\"\nhttp.in.scoped_rds.tenants.active_scopes: 3\nhttp.in.scoped_rds.tenants.all_scopes: 4\n" +
		"http.in.scoped_rds.tenants.config_reload: 3\nhttp.in.scoped_rds.tenants.update_attempt: 4\n" +
		"http.in.scoped_rds.tenants.update_rejected: 0\nhttp.in.scoped_rds.tenants.update_success: 3\n"
	if got := r.get(t, "/stats?filter=scoped_rds.tenants.(version_text|active|all|config_reload$|update_attempt|update_rejected|update_success)"); got != want {
		t.Errorf("statistics:\n%s", got)
	}
}

// Partly proves RT-11: scopes that wait for the same routes get them together, and
// one that is to have others by then does not get them at all.
func TestScopesWaitForTheirRoutes(t *testing.T) {
	s := newSource()
	r := begin(t, scopedDiscovered, s.by)
	res := r.Resources()
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "r", nil), scopeOf("two", "b", "r", nil), scopeOf("three", "c", "r", nil)}, nil, "1"))
	must(t, res.SetRoutes(nil, saying("r", "first"), "1"))
	<-r.Ready()
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "later", nil), scopeOf("two", "b", "later", nil), scopeOf("three", "c", "later", nil)}, nil, "2"))
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("three", "c", "last", nil)}, nil, "3"))
	for _, tenant := range []string{"a", "b", "c"} {
		r.expect(t, tenant, "200 first")
	}
	must(t, res.SetRoutes(nil, saying("r", "first again"), "2"))
	r.expect(t, "a", "200 first again")
	must(t, res.SetRoutes(nil, saying("later", "second"), "1"))
	r.expect(t, "a", "200 second")
	r.expect(t, "b", "200 second")
	r.expect(t, "c", "200 first again")
	must(t, res.SetRoutes(nil, saying("last", "third"), "1"))
	r.expect(t, "c", "200 third")
	want := "[+ScopedRouteConfiguration * +RouteConfiguration r +RouteConfiguration later +RouteConfiguration last -RouteConfiguration r]"
	if got := fmt.Sprint(s.told()); got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// Partly proves RT-11: of an update with something wrong nothing is taken, and
// the error is Envoy's.
func TestScopesAreRefusedAsAWhole(t *testing.T) {
	s := newSource()
	s.answer = func(r *proxy.Resources, typeURL, name string) {
		if typeURL == proxy.ScopedRouteType {
			_ = r.SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "ra", nil), scopeOf("two", "b", "", saying("x", "own"))}, nil, "1")
			return
		}
		_ = r.SetRoutes(nil, saying(name, name), "1")
	}
	r := start(t, scopedDiscovered, s.by)
	twice := saying("x", "y")
	twice.VirtualHosts = append(twice.VirtualHosts, twice.VirtualHosts[0])
	for _, c := range []struct {
		set  scopeList
		want string
	}{
		{scopeList{scopeOf("new", "a", "ra", nil)}, "Error adding/updating scoped route(s): scope key conflict found, first scope is 'one', second scope is 'new'"},
		{scopeList{scopeOf("n1", "n", "ra", nil), scopeOf("n2", "n", "ra", nil)}, "scope key conflict found, first scope is 'n1', second scope is 'n2'"},
		{scopeList{scopeOf("one", "c", "ra", nil), scopeOf("two", "c", "ra", nil)}, "scope key conflict found, first scope is 'one', second scope is 'two'"},
		{scopeList{scopeOf("n1", "n", "ra", nil), scopeOf("n1", "m", "ra", nil)}, "Error adding/updating scoped route(s): duplicate scoped route configuration 'n1' found"},
		{scopeList{scopeOf("one", "n", "", nil)}, `scope "one": route_configuration_name is empty.`},
		{scopeList{{Name: "one", RouteConfigurationName: "ra"}}, "Proto constraint validation failed"},
		{scopeList{scopeOf("one", "n", "", twice)}, `scope "one": route_configuration: route configuration "x": virtual_hosts[1]`},
		{scopeList{scopeOf("one", "n", "", forwarding("x", "nowhere"))}, "nowhere"},
	} {
		err := r.Resources().SetScopedRoutes(nil, c.set, []string{"two"}, "2")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
	r.expect(t, "a", "200 ra")
	r.expect(t, "b", "200 own")
	r.expect(t, "n", "404 ")
	if got := r.get(t, "/stats?filter=scoped_rds.tenants.(all_scopes|update_rejected)"); got != "http.in.scoped_rds.tenants.all_scopes: 2\nhttp.in.scoped_rds.tenants.update_rejected: 8\n" {
		t.Errorf("statistics:\n%s", got)
	}
	dump := r.get(t, "/config_dump?mask=dynamic_scoped_route_configs")
	for _, part := range []string{`"name": "tenants"`, `"version_info": "1"`, `"string_key": "a"`, `"route_configuration_name": "ra"`, `"error_state"`, `nowhere`} {
		if !strings.Contains(dump, part) {
			t.Errorf("the dump lacks %s:\n%s", part, dump)
		}
	}
}

// Partly proves RT-11 and BS-25: scopes and routes that do not come are not
// waited for longer than initial_fetch_timeout; their requests get 404.
func TestScopesThatDoNotCome(t *testing.T) {
	short := strings.ReplaceAll(scopedDiscovered, "20s", "0.01s")
	s := newSource()
	r := start(t, short, s.by)
	r.expect(t, "a", "404 ")
	if got := r.get(t, "/stats?filter=scoped_rds.tenants.init_fetch"); got != "http.in.scoped_rds.tenants.init_fetch_timeout: 1\n" {
		t.Error(got)
	}
	res := r.Resources()
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "", saying("x", "own"))}, nil, "1"))
	r.expect(t, "a", "200 own")
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "never", nil)}, nil, "2"))
	r.expect(t, "a", "404 ") // after the time is over
	must(t, res.SetScopedRoutes(nil, nil, []string{"one"}, "3"))
	if s.all()["RouteConfiguration never"] {
		t.Error("routes of a scope that is gone are still wanted")
	}

	s = newSource()
	s.answer = func(r *proxy.Resources, typeURL, name string) { r.Missing(nil, typeURL, name) }
	r = start(t, strings.ReplaceAll(scopedDiscovered, "20s", "0s"), s.by)
	r.expect(t, "a", "404 ")
	must(t, r.Resources().SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "", saying("x", "own"))}, nil, "1"))
	r.expect(t, "a", "200 own")
	must(t, r.Resources().SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "never", nil)}, nil, "2"))
	r.expect(t, "a", "404 ") // there are no such routes
}

// mover is a filter that, told to, waits and then changes the header that the
// scope depends on.
type mover struct {
	cb     filter.Callbacks
	inside chan<- struct{}
	resume <-chan struct{}
}

func (f *mover) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	to := strings.Clone(h.Get("x-move"))
	if to == "" {
		return filter.Continue
	}
	f.cb.Go(func(ctx context.Context) func() {
		f.inside <- struct{}{}
		select {
		case <-f.resume:
		case <-ctx.Done():
		}
		return func() {
			h.Set("x-to", to)
			f.cb.ClearRouteCache()
			f.cb.ContinueDecoding()
		}
	})
	return filter.StopAllIterationAndBuffer
}

func (f *mover) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }
func (f *mover) DecodeTrailers(*header.Map) filter.TrailersStatus  { return filter.TrailersContinue }
func (f *mover) OnDestroy()                                        {}

// Partly proves RT-11 and HC-52: a request under way keeps the routes of its
// scope, unless a filter has moved it to another scope.
func TestRequestsUnderWayKeepTheirScope(t *testing.T) {
	inside, resume := make(chan struct{}), make(chan struct{})
	kind := filter.HTTPType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
		return func(cb filter.Callbacks) filter.HTTPFilter {
			return filter.HTTPFilter{Decoder: &mover{cb, inside, resume}}
		}, nil
	}}
	s := newSource()
	config := strings.Replace(scopedDiscovered, "http_filters:\n", `http_filters:
          - {name: mover, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}}
`, 1)
	r := begin(t, config, s.by, func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
	})
	res := r.Resources()
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("one", "a", "ra", nil), scopeOf("two", "b", "rb", nil), scopeOf("three", "c", "rb", nil)}, nil, "1"))
	must(t, res.SetRoutes(nil, saying("ra", "A"), "1"))
	must(t, res.SetRoutes(nil, saying("rb", "B"), "1"))
	<-r.Ready()
	answers := map[string]chan string{"a": make(chan string, 1), "b": make(chan string, 1), "c": make(chan string, 1)}
	for to, answer := range answers {
		go func() { answer <- r.moved(t, "a", to) }()
		<-inside
	}
	must(t, res.SetRoutes(nil, saying("ra", "A2"), "2"))
	must(t, res.SetRoutes(nil, saying("rb", "B2"), "2"))
	must(t, res.SetScopedRoutes(nil, nil, []string{"three"}, "2"))
	r.expect(t, "a", "200 A2")
	r.expect(t, "c", "404 ")
	close(resume)
	for to, want := range map[string]string{"a": "200 A", "b": "200 B2", "c": "404 "} {
		if got := <-answers[to]; got != want {
			t.Errorf("a request of a that became one of %s: %q, want %q", to, got, want)
		}
	}
}

// moved asks as one tenant, for mover to make it another.
func (r *running) moved(t *testing.T, tenant, to string) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Listeners()["front"][0], nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("X-To", tenant)
	req.Header.Set("X-Move", to)
	resp, err := r.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}

// byScopes makes a connection manager take its routes from scopes, by the
// request's method.
func byScopes(m *hcmv3.HttpConnectionManager) {
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
		Name: "methods", RdsConfigSource: ads(),
		ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
			Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
				HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
					Name:        ":method",
					ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{},
				},
			},
		}}},
		ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: ads()}},
	}}
}

// Partly proves RT-11: listeners share the scopes of a source; one that goes
// does not take them along, and the last one does.
func TestListenersShareScopes(t *testing.T) {
	s := newSource()
	r := start(t, scopedBy(`scoped_route_configurations_list: {scoped_route_configurations: [
              {name: in, key: {fragments: [{string_key: a}]}, route_configuration: {name: in, virtual_hosts: [{name: v, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: inline}}}]}]}}]}`), s.by)
	r.expect(t, "a", "200 inline")
	r.expect(t, "b", "404 ")
	if dump := r.get(t, "/config_dump?mask=inline_scoped_route_configs"); !strings.Contains(dump, `"name": "tenants"`) || !strings.Contains(dump, `"inline_string": "inline"`) {
		t.Errorf("dump:\n%s", dump)
	}
	res := r.Resources()
	at := map[string]string{}
	add := func(name string) {
		at[name] = freeAddress(t)
		must(t, res.SetListener(listenerAt(name, at[name], chainOf(manager(byScopes))), "1"))
	}
	add("first")
	add("second")
	if got := r.get(t, "/init_dump"); !strings.Contains(got, "target ConfigSubscriptionCommonBase init target 'SRDS'") {
		t.Errorf("listeners wait for %s", got)
	}
	must(t, res.SetScopedRoutes(nil, scopeList{scopeOf("one", "GET", "ra", nil)}, nil, "1"))
	must(t, res.SetRoutes(nil, saying("ra", "A"), "1"))
	add("third")
	for _, name := range []string{"first", "second", "third"} {
		waitOpen(t, at[name])
		becomes(t, at[name], "A")
	}
	s.wants(t, "map[RouteConfiguration ra:true ScopedRouteConfiguration *:true]")
	res.RemoveListener("first")
	res.RemoveListener("third")
	must(t, res.SetRoutes(nil, saying("ra", "A2"), "2"))
	becomes(t, at["second"], "A2")
	res.RemoveListener("second")
	s.wants(t, "map[]")
}
