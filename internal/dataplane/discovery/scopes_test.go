package discovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

func scope(t *testing.T, name, key string) *xds.Resource {
	t.Helper()
	return resource(t, name, &routev3.ScopedRouteConfiguration{
		Name: name, RouteConfiguration: &routev3.RouteConfiguration{Name: "r"},
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{
			{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: key}},
		}},
	})
}

// Partly proves RT-11: what a response of any variant changes of the scopes is
// handed on at one stroke, and refused as a whole, of which the server hears.
func TestScopes(t *testing.T) {
	api := func(kind string) string {
		return fmt.Sprintf(`{"apiConfigSource": {"apiType": %q, "transportApiVersion": "V3", "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}]}}`, kind)
	}
	for name, c := range map[string]struct{ ads, source string }{
		"ads":       {"GRPC", `{"ads": {}}`},
		"delta ads": {"DELTA_GRPC", `{"ads": {}}`},
		"grpc":      {"GRPC", api("GRPC")},
		"delta":     {"GRPC", api("DELTA_GRPC")},
	} {
		t.Run(name, func(t *testing.T) {
			m, g := manage(t), &target{}
			set := func(list ...*xds.Resource) { m.apply(t, snapshot.Changes{Set: list}) }
			remove := func(name string) {
				m.apply(t, snapshot.Changes{Remove: []xds.Key{{Type: xds.ScopedRouteType, Name: name}}})
			}
			set(scope(t, "a", "1"), scope(t, "b", "2"), scope(t, "c", "3"))
			b := bootstrap(t, dynamic(c.ads, c.source))
			d := start(t, b, m.addr, g)
			cs := b.GetDynamicResources().GetCdsConfig()
			d.Want(xds.ScopedRouteType, "*", cs)
			g.until(t, "set scopes [a=1 b=2 c=3], remove []")
			m.apply(t, snapshot.Changes{
				Set:    []*xds.Resource{scope(t, "a", "2"), scope(t, "b", "1")},
				Remove: []xds.Key{{Type: xds.ScopedRouteType, Name: "c"}},
			})
			g.until(t, "set scopes [a=2 b=1], remove [c]")
			set(scope(t, "bad", "4"), scope(t, "d", "5"))
			g.until(t, "refuse scopes [bad=4 d=5]")
			scopesRejected(t, m)
			remove("bad")
			g.until(t, "set scopes [d=5], remove [bad]")
			// Another who wants the same has what was there.
			second := proto.Clone(cs).(*corev3.ConfigSource)
			d.Want(xds.ScopedRouteType, "*", second)
			g.until(t, "set scopes [b=1], remove []")
			d.Unwant(xds.ScopedRouteType, "*", second)
			remove("a")
			g.until(t, "set scopes [], remove [a]")
			d.Unwant(xds.ScopedRouteType, "*", cs)
		})
	}
}

// Partly proves RT-11 and BS-25: an answer without scopes is one.
func TestNoScopes(t *testing.T) {
	for _, variant := range []string{"GRPC", "DELTA_GRPC"} {
		m, g := manage(t), &target{}
		m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "r", &routev3.RouteConfiguration{Name: "r"})}})
		b := bootstrap(t, dynamic(variant, `{"ads": {}}`))
		start(t, b, m.addr, g).Want(xds.ScopedRouteType, "*", b.GetDynamicResources().GetCdsConfig())
		g.until(t, "set scopes [], remove []")
	}
}

func scopesRejected(t *testing.T, m *management) {
	t.Helper()
	for range 500 {
		for _, c := range m.srv.Clients() {
			for _, ty := range c.Types {
				if n := ty.Nack; ty.TypeURL == xds.ScopedRouteType && n != nil && strings.Contains(fmt.Sprint(*n), "I do not like it") {
					return
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the server does not know that scopes were rejected: %+v", m.srv.Clients())
}
