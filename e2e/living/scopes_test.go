//go:build interop

package living

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/xds"
)

// tenancy is a listener that finds the routes of each tenant by its scope. What
// the tables answer names the tenant, and tells their versions apart.
type tenancy struct {
	t       *testing.T
	w       *world
	dir     *directory
	port    int
	client  *http.Client
	names   int
	tenants map[string]*tenant
}

type tenant struct {
	scope, table, text string
	inline             bool
	lazy               bool // its table is found on demand
}

func (s *tenancy) next(kind string) string {
	s.names++
	return fmt.Sprintf("%s-%d", kind, s.names)
}

// listener chooses scopes by the value for "tenant" in a header.
func (s *tenancy) listener() *listenerv3.Listener {
	c := s.w.chain("scoped", "")
	m := &hcmv3.HttpConnectionManager{}
	if err := c.GetFilters()[0].GetTypedConfig().UnmarshalTo(m); err != nil {
		s.t.Fatal(err)
	}
	type extractor = hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
		Name: "tenants", RdsConfigSource: s.w.variant.source(s.w.dir, xds.RouteType, ""),
		ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
			Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{HeaderValueExtractor: &extractor{
				Name: "x-for", ElementSeparator: ";",
				ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Element{
					Element: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_KvElement{Separator: "=", Key: "tenant"},
				},
			}},
		}}},
		ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: s.w.variant.source(s.w.dir, xds.ScopedRouteType, "")}},
	}}
	m.HttpFilters = append([]*hcmv3.HttpFilter{{Name: "demand", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&ondemandv3.OnDemand{})}}}, m.HttpFilters...)
	c.Filters[0].ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: packed(m)}
	return listenerAt("scoped", s.port, c)
}

func telling(name, text string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: name, VirtualHosts: []*routev3.VirtualHost{{
		Name: "v", Domains: []string{"*"}, Routes: []*routev3.Route{{Match: prefixed("/"), Action: &routev3.Route_DirectResponse{
			DirectResponse: &routev3.DirectResponseAction{Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}},
		}}},
	}}}
}

// write puts everything into the directory: all scopes in one file, for they may
// exchange their names.
func (s *tenancy) write() {
	resources, scopes := map[xds.Key]proto.Message{}, map[xds.Key]proto.Message{}
	add := func(m proto.Message) { resources[key(m)] = m }
	add(s.listener())
	for name, x := range s.tenants {
		scope := &routev3.ScopedRouteConfiguration{Name: x.scope, Key: &routev3.ScopedRouteConfiguration_Key{
			Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: name}}},
		}}
		if x.inline {
			scope.RouteConfiguration = telling("own", x.text)
		} else {
			scope.RouteConfigurationName, scope.OnDemand = x.table, x.lazy
			add(telling(x.table, x.text))
		}
		scopes[key(scope)] = scope
	}
	if s.w.variant.ordered {
		maps.Copy(resources, scopes)
		s.dir.sync(s.t, s.w.variant.layout(resources))
		return
	}
	files := s.w.variant.layout(resources)
	var list [][]byte
	for _, k := range sortedKeys(scopes) {
		list = append(list, encode(scopes[k]))
	}
	files["scopes.json"] = fmt.Appendf(nil, `{"resources": [%s]}`, bytes.Join(list, []byte(",\n")))
	s.dir.sync(s.t, files)
}

// ask is what a tenant is answered.
func (s *tenancy) ask(client *http.Client, name string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, fmt.Sprintf("http://localhost:%d/", s.port), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-For", "a=b;tenant="+name)
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s", resp.StatusCode, body), err
}

// converge waits until every tenant is answered by its table as it is now, and
// others are not.
func (s *tenancy) converge(gone ...string) {
	s.t.Helper()
	want := map[string]string{}
	for _, name := range gone {
		want[name] = "404 "
	}
	for name, x := range s.tenants {
		want[name] = "200 " + x.text
	}
	for name, text := range want {
		harness.Eventually(s.t, convergePatience, "tenant "+name+" gets "+text, func() error {
			if got, err := s.ask(s.client, name); err != nil || got != text {
				return fmt.Errorf("it gets %q, %w", got, err)
			}
			return nil
		})
	}
}

// load asks for a tenant all the time: nothing may fail, nor come from another
// tenant's table.
func (s *tenancy) load(l *load, name string, tr *http.Transport) {
	client := &http.Client{Transport: tr, Timeout: 25 * time.Second}
	kind := fmt.Sprintf("%s, HTTP/2 %t", name, tr.Protocols != nil)
	l.repeat(kind, pause, func(int) error {
		got, err := s.ask(client, name)
		if err == nil && !strings.HasPrefix(got, "200 "+name+"-") {
			err = fmt.Errorf("tenant %s gets %q", name, got)
		}
		return err
	}, tr.CloseIdleConnections)
}

// change changes one or two tenants.
func (s *tenancy) change() (gone []string) {
	one, two := s.tenants["one"], s.tenants["two"]
	if s.w.chance(2) {
		one, two = two, one
	}
	text := func(x *tenant) { x.text = s.next(strings.SplitN(x.text, "-", 2)[0]) }
	switch s.w.random.IntN(6) {
	case 0:
		text(one)
	case 1:
		text(one)
		one.table, one.inline = s.next("table"), false
	case 2:
		one.scope = s.next("scope")
	case 3:
		one.scope, two.scope = two.scope, one.scope
		text(one)
	case 4:
		text(one)
		one.inline = !one.inline
	default:
		if third := s.tenants["three"]; third != nil {
			delete(s.tenants, "three")
			return []string{"three"}
		}
		s.tenants["three"] = &tenant{scope: s.next("scope"), table: s.next("table"), text: s.next("three"), inline: s.w.chance(2), lazy: s.w.chance(2)}
	}
	return nil
}

// beginTenancy starts a server with two tenants and a proxy that is its client.
func beginTenancy(t *testing.T, v variant, start func(testing.TB, string) *proxy) (*tenancy, *proxy) {
	t.Helper()
	dir := newDirectory(t)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	s := &tenancy{
		t: t, dir: dir, port: harness.FreePort(t), client: &http.Client{Transport: tr, Timeout: 5 * time.Second},
		w: &world{variant: v, dir: dir.path, random: rand.New(rand.NewPCG(seed(t), 3))}, //nolint:gosec // to be repeated
		tenants: map[string]*tenant{
			"one": {scope: "scope-one", table: "table-one", text: "one-0"}, "two": {scope: "scope-two", table: "table-two", text: "two-0", inline: true},
		},
	}
	s.write()
	server := newServer(t, dir.path)
	server.start(t)
	p := start(t, v.bootstrap(t, dir.path, server.xds))
	p.live(t)
	return s, p
}

// Partly proves RT-11: two tenants and more, by scopes of a server, in each
// variant of the protocol. While scopes change their routes, their names and
// those of each other, come and go, every request is answered, and by the
// routes of its own tenant.
func TestTenantsKeepTheirRoutes(t *testing.T) {
	for _, v := range slices.DeleteFunc(variants(), func(v variant) bool { return v.files }) {
		t.Run(v.name, func(t *testing.T) {
			s, _ := beginTenancy(t, v, startXebec)
			s.converge("", "other")
			l := newLoad(t, nil)
			t.Cleanup(l.end)
			for _, name := range []string{"one", "two"} {
				s.load(l, name, &http.Transport{})
				s.load(l, name, h2c())
			}
			n := changes(t, 40)
			for range n {
				gone := s.change()
				s.write()
				l.happened(fmt.Sprint(*s.tenants["one"], *s.tenants["two"]))
				if gone != nil || s.w.chance(3) {
					s.converge(gone...)
				}
				time.Sleep(time.Duration(s.w.random.IntN(40)) * time.Millisecond)
			}
			s.converge()
			l.end()
			l.report(n)
		})
	}
}

// gauges are what a proxy counts of scopes.
func (s *tenancy) gauges(p *proxy) string {
	s.t.Helper()
	page, err := p.Page("/stats?filter=scoped_rds.tenants.(active|all|on_demand)_scopes")
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.ReplaceAll(strings.TrimSpace(page), "http.scoped.scoped_rds.tenants.", "")
}

// Partly proves RT-11: a server's scopes, with their own routes, with those of
// RDS, and with such that are found on demand, lead requests as in Envoy, and
// are counted alike.
func TestScopesLeadAsInEnvoy(t *testing.T) {
	t.Parallel()
	for _, v := range variants()[:4] {
		for name, start := range map[string]func(testing.TB, string) *proxy{"Envoy": startEnvoy, "Xebec": startXebec} {
			t.Run(v.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				s, p := beginTenancy(t, v, start)
				check := func(want string, gone ...string) {
					t.Helper()
					s.write()
					s.converge(append(gone, "", "other")...)
					harness.Eventually(t, convergePatience, "scopes are counted", func() error {
						if got := s.gauges(p); got != want {
							return fmt.Errorf("they are %q, not %q", got, want)
						}
						return nil
					})
				}
				one, two := s.tenants["one"], s.tenants["two"]
				check("active_scopes: 1\nall_scopes: 2\non_demand_scopes: 0")
				one.text = "changed"
				check("active_scopes: 1\nall_scopes: 2\non_demand_scopes: 0")
				if name != "Envoy" { // which now and then loses one of two scopes that exchange their keys
					one.scope, two.scope = two.scope, one.scope
				}
				check("active_scopes: 1\nall_scopes: 2\non_demand_scopes: 0")
				two.inline = false
				check("active_scopes: 2\nall_scopes: 2\non_demand_scopes: 0")
				s.tenants["three"] = &tenant{scope: "third", table: "lazy", text: "loaded", lazy: true}
				check("active_scopes: 3\nall_scopes: 3\non_demand_scopes: 1")
				s.tenants["three"].text = "changed"
				check("active_scopes: 3\nall_scopes: 3\non_demand_scopes: 1")
				s.tenants["four"] = &tenant{scope: "third", table: "lazy", text: "moved", lazy: true}
				delete(s.tenants, "three")
				check("active_scopes: 3\nall_scopes: 3\non_demand_scopes: 1", "three")
				delete(s.tenants, "four")
				delete(s.tenants, "two")
				check("active_scopes: 1\nall_scopes: 1\non_demand_scopes: 0", "two", "three", "four")
			})
		}
	}
}
