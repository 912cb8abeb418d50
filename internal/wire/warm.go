package wire

import "github.com/xebec-proxy/xebec/xds"

// warm makes what the given resources refer to due again, where a client waits
// for it whether it changed or not:
//
//   - the assignments of clusters (XS-76, XS-80);
//   - the virtual hosts of a route table, in delta (XN-25);
//   - in SotW the route tables of scopes. Envoy drops and makes a subscription
//     to a table when a scope moves to it from another, and what it sends then
//     looks like the repetition of its last ACK.
func (x *sub) warm(seq uint64, parents ...*xds.Resource) {
	child := x.warms()
	if child == "" || !x.stream.aggregated() {
		return
	}
	y := x.kin(child)
	if y == nil {
		return
	}
	if child == xds.VirtualHostType {
		for _, p := range parents {
			y.sendHostsAgain(p, seq)
		}
		return
	}
	if len(y.names) == 0 {
		return
	}
	for _, p := range parents {
		for _, ref := range p.References() {
			if ref.Type == child && y.wants(ref.Name) {
				y.resend(ref.Name, seq)
			}
		}
	}
}

// warms is the type that clients wait for after a resource of this one.
func (x *sub) warms() string {
	switch {
	case x.typ.URL == xds.ClusterType:
		return xds.EndpointType
	case x.typ.URL == xds.ScopedRouteType && x.stream.cfg.Variant == Sotw:
		return xds.RouteType
	case x.typ.URL == xds.RouteType:
		return xds.VirtualHostType
	}
	return ""
}

// resend makes a resource due though the client may hold it, unless the client
// has refused it as it is (XS-19).
func (x *sub) resend(name string, seq uint64) {
	if _, rejected := x.rejected[name]; rejected {
		return
	}
	o := x.due.find(name)
	if o != nil && o.refusal != nil {
		return
	}
	if o == nil {
		o = x.owe(name, x.heldNow(name), seq)
	}
	o.force = true
	if x.resolve(name) == nil {
		o.asked = true
	}
}
