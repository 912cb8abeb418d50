package proxyrun

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

const codeUnusedSetting = "setting-of-no-filter"

// filterNames warns of settings for filters that a connection manager does not
// have, which have no effect (HF-10).
func (r *referring) filterNames(v *hcmv3.HttpConnectionManager) {
	names := map[string]bool{}
	for _, f := range v.GetHttpFilters() {
		names[f.GetName()] = true
	}
	for _, u := range v.GetUpgradeConfigs() {
		for _, f := range u.GetFilters() {
			names[f.GetName()] = true
		}
	}
	c := v.GetRouteConfig()
	r.settings(names, "route_config", c.GetTypedPerFilterConfig())
	for i, h := range c.GetVirtualHosts() {
		host := fmt.Sprintf("route_config.virtual_hosts[%d]", i)
		r.settings(names, host, h.GetTypedPerFilterConfig())
		for j, rt := range h.GetRoutes() {
			r.routeSettings(names, fmt.Sprintf("%s.routes[%d]", host, j), rt)
		}
	}
}

func (r *referring) routeSettings(names map[string]bool, path string, rt *routev3.Route) {
	r.settings(names, path, rt.GetTypedPerFilterConfig())
	for k, w := range rt.GetRoute().GetWeightedClusters().GetClusters() {
		r.settings(names, fmt.Sprintf("%s.route.weighted_clusters.clusters[%d]", path, k), w.GetTypedPerFilterConfig())
	}
}

func (r *referring) settings(names map[string]bool, path string, settings map[string]*anypb.Any) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if !names[name] {
			r.doubt(codeUnusedSetting, r.at(path+".typed_per_filter_config["+strconv.Quote(name)+"]"),
				fmt.Sprintf("there is no HTTP filter called %q, so this has no effect", name), "write the filter's configured name, or remove it")
		}
	}
}
