package proxy_test

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/proxy"
)

// needing makes, by the type of what is called one, chains of listeners that wait for it.
var needing = map[string]func(*corev3.ConfigSource) *listenerv3.FilterChain{
	proxy.RouteType: func(from *corev3.ConfigSource) *listenerv3.FilterChain {
		return chainOf(manager(func(m *hcmv3.HttpConnectionManager) {
			m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "one", ConfigSource: from}}
		}))
	},
	proxy.ScopedRouteType: func(from *corev3.ConfigSource) *listenerv3.FilterChain {
		return chainOf(manager(func(m *hcmv3.HttpConnectionManager) {
			m.RouteSpecifier = &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
				Name: "one", RdsConfigSource: from,
				ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
					Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
						HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
							Name:        "x-to",
							ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{},
						},
					},
				}}},
				ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: from}},
			}}
		}))
	},
	proxy.SecretType: func(from *corev3.ConfigSource) *listenerv3.FilterChain {
		c, ctx := chainOf(manager(with(saying("r", "never")))), downstream("one")
		ctx.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs()[0].SdsConfig = from
		c.TransportSocket = socketOf(ctx)
		return c
	},
	proxy.ExtensionType: func(from *corev3.ConfigSource) *listenerv3.FilterChain {
		return chainOf(manager(with(saying("r", "x")), func(m *hcmv3.HttpConnectionManager) {
			m.HttpFilters = append([]*hcmv3.HttpFilter{{Name: "one", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
				ConfigDiscovery: &corev3.ExtensionConfigSource{ConfigSource: from, TypeUrls: []string{faultType}},
			}}}, m.GetHttpFilters()...)
		}))
	},
}

// What there is nothing good of does not keep those waiting who come later either, as in
// Envoy, where the waiting is the resource's and not that of who needs it.
// Partly proves LM-01.
func TestNobodyWaitsAgain(t *testing.T) {
	ends := map[string]func(*proxy.Resources, *corev3.ConfigSource, string, string){
		"refused": (*proxy.Resources).Refused, "missing": (*proxy.Resources).Missing,
		"late": func(*proxy.Resources, *corev3.ConfigSource, string, string) {},
	}
	for typ, chain := range needing {
		for how, end := range ends {
			t.Run(typ[len("type.googleapis.com/"):]+" "+how, func(t *testing.T) {
				r := start(t, byHeader, newSource().by)
				res, first, second := r.Resources(), freeAddress(t), freeAddress(t)
				source := ads()
				if how == "late" {
					source.InitialFetchTimeout = durationpb.New(10 * time.Millisecond)
				}
				must(t, res.SetListener(listenerAt("first", first, chain(source)), "1"))
				end(res, ads(), typ, "one") // the name of scopes does not matter
				r.becomesStat(t, "listener_manager.total_listeners_active", "2")
				must(t, res.SetListener(listenerAt("second", second, chain(ads())), "1"))
				r.becomesStat(t, "listener_manager.total_listeners_active", "3")
			})
		}
	}
}

// Who needs something else, too, waits for that.
func TestOthersAreStillWaitedFor(t *testing.T) {
	r := start(t, byHeader, newSource().by)
	res, at := r.Resources(), freeAddress(t)
	must(t, res.SetListener(listenerAt("first", freeAddress(t), needing[proxy.SecretType](ads())), "1"))
	res.Missing(ads(), proxy.SecretType, "one")
	r.becomesStat(t, "listener_manager.total_listeners_active", "2")
	c := needing[proxy.RouteType](ads())
	c.TransportSocket = needing[proxy.SecretType](ads()).GetTransportSocket()
	must(t, res.SetListener(listenerAt("second", at, c), "1"))
	time.Sleep(30 * time.Millisecond)
	r.becomesStat(t, "listener_manager.total_listeners_active", "2")
	must(t, res.SetRoutes(ads(), saying("one", "one"), "1"))
	r.becomesStat(t, "listener_manager.total_listeners_active", "3")
}

// Scopes that are wrong from the start do not keep a listener waiting, as in Envoy.
// Partly proves LM-01, RT-11.
func TestNobodyWaitsForWrongScopes(t *testing.T) {
	r := begin(t, scopedDiscovered, newSource().by)
	notReady(t, r, "scopes")
	bad := scopeList{scopeOf("one", "a", "ra", nil), scopeOf("two", "a", "rb", nil)}
	if r.Resources().SetScopedRoutes(ads(), bad, nil, "1") == nil {
		t.Error("two scopes have a key")
	}
	readySoon(t, r)
}
