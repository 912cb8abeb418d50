package model

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/xebec-proxy/xebec/internal/alltypes"
)

// notReferences are the fields with "cluster" in their name that name no
// resource this table should list, and why.
func notReferences() map[protoreflect.FullName]string {
	const ext = "envoy.extensions."
	return map[protoreflect.FullName]string{
		"envoy.config.core.v3.ApiConfigSource.cluster_names":                          "v2 form; clusters of the bootstrap",
		"envoy.config.core.v3.Node.cluster":                                           "the node's own cluster",
		"envoy.config.endpoint.v3.ClusterLoadAssignment.cluster_name":                 "the resource's own name",
		"envoy.config.endpoint.v3.ClusterStats.cluster_name":                          "load report",
		"envoy.config.endpoint.v3.ClusterStats.cluster_service_name":                  "load report",
		"envoy.config.route.v3.RouteAction.cluster_header":                            "decided by the request",
		"envoy.config.route.v3.RouteAction.cluster_specifier_plugin":                  "decided by the plugin",
		"envoy.config.route.v3.RouteAction.RequestMirrorPolicy.cluster_header":        "decided by the request",
		"envoy.config.route.v3.WeightedCluster.ClusterWeight.cluster_header":          "decided by the request",
		ext + "clusters.dynamic_modules.v3.ClusterConfig.cluster_name":                "a name inside the module",
		ext + "filters.http.fault.v3.HTTPFault.upstream_cluster":                      "a condition, not a target",
		ext + "filters.network.reverse_tunnel.v3.Validation.cluster_id_format":        "a format",
		ext + "filters.network.reverse_tunnel.v3.ReverseTunnel.required_cluster_name": "the peer's own cluster",
		ext + "filters.network.thrift_proxy.v3.RouteAction.cluster_header":            "decided by the request",
	}
}

// Every string field of the v3 configuration whose name speaks of a cluster is
// in the table or known to be no reference, so that a new field of the API
// makes this test fail.
func TestEveryClusterFieldIsJudged(t *testing.T) {
	known, seen := notReferences(), 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		md := mt.Descriptor()
		if !configuration(md.FullName()) {
			return true
		}
		r, _ := ruleOf(md.FullName())
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if fd.Kind() != protoreflect.StringKind || !strings.Contains(string(fd.Name()), "cluster") {
				continue
			}
			seen++
			if _, ok := known[fd.FullName()]; !ok && r.field != fd.Name() {
				t.Errorf("%s is neither in the table nor known to be no reference", fd.FullName())
			}
		}
		return true
	})
	for n := range known {
		if _, err := protoregistry.GlobalFiles.FindDescriptorByName(n); err != nil {
			t.Errorf("%s is known to be no reference, but there is no such field", n)
		}
	}
	if seen < 30 {
		t.Errorf("only %d fields were looked at", seen)
	}
}

func configuration(n protoreflect.FullName) bool {
	for _, p := range []string{"envoy.config.", "envoy.extensions."} {
		if strings.HasPrefix(string(n), p) {
			return strings.Contains(string(n), ".v3.")
		}
	}
	return false
}

// Every row of the table names a message with the fields it speaks of, and the
// resource types it leads to exist.
func TestTableFieldsExist(t *testing.T) {
	rows := 0
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		md := mt.Descriptor()
		r, ok := ruleOf(md.FullName())
		if !ok {
			return true
		}
		rows++
		if fd := md.Fields().ByName(r.field); fd == nil || fd.Kind() != protoreflect.StringKind && !fd.IsMap() {
			t.Errorf("%s has no string field %s", md.FullName(), r.field)
		}
		if r.source != "" && (md.Fields().ByName(r.source) == nil || md.Fields().ByName(r.source).Message() == nil) {
			t.Errorf("%s has no message field %s", md.FullName(), r.source)
		}
		if _, err := protoregistry.GlobalTypes.FindMessageByURL(r.target); err != nil {
			t.Errorf("%s leads to %s: %v", md.FullName(), r.target, err)
		}
		return true
	})
	if want := tableRows; rows != want {
		t.Errorf("%d rows of the table match a message of the API, want %d; a name is misspelt or a row is new", rows, want)
	}
}

// tableRows is the number of message names in ruleOf and clusterRule.
const tableRows = 50

// A message that is not entered must not be one that the table speaks of.
func TestOpaqueHidesNoRow(t *testing.T) {
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		n := mt.Descriptor().FullName()
		if _, ok := ruleOf(n); ok && opaque(n) {
			t.Errorf("%s is both opaque and in the table", n)
		}
		return true
	})
	if opaque("google.protobuf.Any") || !opaque("envoy.config.endpoint.v3.LbEndpoint") {
		t.Error("opaque is wrong about Any or LbEndpoint")
	}
}
