package proxy

import (
	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// scopes are the scopes of connection managers with scoped_routes (AD-08).
func (d *dumper) scopes() *adminv3.ScopedRoutesConfigDump {
	out := &adminv3.ScopedRoutesConfigDump{}
	d.active(func(l *listenerEntry, at *timestamppb.Timestamp) {
		for _, x := range l.inlineScopes() {
			c := &adminv3.ScopedRoutesConfigDump_InlineScopedRouteConfigs{Name: x.name, LastUpdated: at}
			for _, sc := range x.list {
				c.ScopedRouteConfigs = append(c.ScopedRouteConfigs, d.any(sc))
			}
			out.InlineScopedRouteConfigs = append(out.InlineScopedRouteConfigs, c)
		}
	})
	for i := range d.state.scopes {
		s := &d.state.scopes[i]
		c := &adminv3.ScopedRoutesConfigDump_DynamicScopedRouteConfigs{Name: s.name, VersionInfo: s.version, ErrorState: d.failure(s.rejected)}
		if !s.at.IsZero() {
			c.LastUpdated = timestamppb.New(s.at)
		}
		for _, e := range s.list {
			c.ScopedRouteConfigs = append(c.ScopedRouteConfigs, d.any(e.config))
		}
		out.DynamicScopedRouteConfigs = append(out.DynamicScopedRouteConfigs, c)
	}
	return out
}
