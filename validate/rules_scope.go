package validate

import (
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// scope checks that a scope has routes (RT-11).
func (c *checker) scope(v *routev3.ScopedRouteConfiguration) {
	if v.GetRouteConfigurationName() == "" && v.GetRouteConfiguration() == nil {
		c.fault(codeScopeRoutes, "route_configuration_name", "route_configuration_name is empty", "name the route table of the scope, or write it in route_configuration")
	}
}

// inlineScopes checks scopes that stand in a listener.
func (c *checker) inlineScopes(v *hcmv3.ScopedRouteConfigurationsList) {
	for i, s := range v.GetScopedRouteConfigurations() {
		if s.GetRouteConfigurationName() != "" {
			c.fault(codeScopeRoutes, fmt.Sprintf("scoped_route_configurations[%d].route_configuration_name", i),
				"Fetching routes via RDS (route_configuration_name) is not supported with inline scoped routes", "write route_configuration, or use scoped_rds")
		}
	}
}

// scopeKey checks what a request's key is made of.
func (c *checker) scopeKey(v *hcmv3.ScopedRoutes_ScopeKeyBuilder) {
	for i, f := range v.GetFragments() {
		x := f.GetHeaderValueExtractor()
		at := fmt.Sprintf("fragments[%d].header_value_extractor", i)
		switch {
		case x == nil: // a declared rule says so
		case x.GetExtractType() == nil:
			c.fault(codeScopeIndex, at, "HeaderValueExtractor extract_type not set", "write index: 0 for the whole value")
		case x.GetIndex() > 0 && x.GetElementSeparator() == "":
			c.fault(codeScopeIndex, at+".index", "Index > 0 for empty string element separator", "set element_separator")
		}
	}
}
