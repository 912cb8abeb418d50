package discovery

import (
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// The server is asked for collections with the node's fields as context parameters,
// in the way Envoy asks for them, and only resources of these parameters are members
// (XN-13). What the locator says itself wins, and names of resources have none.
func TestNodeContext(t *testing.T) {
	m := manage(t)
	const (
		cluster  = "xdstp://a/envoy.config.cluster.v3.Cluster/foo/"
		listener = "xdstp://a/envoy.config.listener.v3.Listener/bar/"
		endpoint = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e"
		// As Envoy 1.40 sends it, but for its own name and that fewer characters are
		// percent-encoded there, which makes no other name.
		ofNode = "?xds.node.cluster=c1&xds.node.id=n%201&xds.node.locality.sub_zone=&xds.node.locality.zone=z1" +
			"&xds.node.metadata.a.b%2Fc=%22x%22&xds.node.metadata.foo=%7B%22bar%22:%22%5Cu003cbaz%26%5Cu003e%22%7D&xds.node.metadata.n=null" +
			"&xds.node.metadata.some=42&xds.node.metadata.t=true&xds.node.user_agent_name=xebec"
		overridden = "?k=v&xds.node.cluster=c1&xds.node.id=mine&xds.node.locality.sub_zone=&xds.node.locality.zone=z1" +
			"&xds.node.metadata.a.b%2Fc=%22x%22&xds.node.metadata.foo=%7B%22bar%22:%22%5Cu003cbaz%26%5Cu003e%22%7D&xds.node.metadata.n=null" +
			"&xds.node.metadata.some=42&xds.node.metadata.t=true&xds.node.user_agent_name=xebec"
	)
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{
		resource(t, cluster+"x"+ofNode, &clusterv3.Cluster{Name: cluster + "x" + ofNode}),
		resource(t, cluster+"other", &clusterv3.Cluster{Name: cluster + "other"}),
		resource(t, endpoint, &endpointv3.ClusterLoadAssignment{ClusterName: endpoint}),
		resource(t, listener+"l"+overridden, &listenerv3.Listener{Name: listener + "l" + overridden}),
	}})
	g := &target{}
	d := start(t, bootstrap(t, `{"node": {"id": "n 1", "cluster": "c1", "locality": {"region": "r1", "zone": "z1"},
			"metadata": {"foo": {"bar": "<baz&>"}, "some": 42, "t": true, "n": null, "a.b/c": "x"}},
		"nodeContextParams": ["id", "cluster", "locality.zone", "locality.sub_zone", "metadata", "user_agent_name", "id"],
		"dynamicResources": {"cdsResourcesLocator": "`+cluster+`*", "ldsResourcesLocator": "`+listener+`*?xds.node.id=mine&k=v"},
		"defaultConfigSource": `+ofServer(m.addr, "")+`}`), "", g)
	d.Clusters(t.Context())
	g.until(t, "set cluster "+cluster+"x"+ofNode)
	d.Listeners(t.Context())
	g.until(t, "set listener "+listener+"l"+overridden)
	d.Want(xds.EndpointType, endpoint, nil)
	g.until(t, "set endpoints "+endpoint)
	for _, line := range g.lines() {
		if line == "set cluster "+cluster+"other" {
			t.Errorf("%s is of other parameters", line)
		}
	}
}
