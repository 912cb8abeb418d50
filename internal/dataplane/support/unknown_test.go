package support_test

import (
	"testing"

	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
)

// Partly proves BS-17: unknown fields are found at any depth, and are no faults.
func TestUnknownFields(t *testing.T) {
	raw := protowire.AppendVarint(protowire.AppendTag(nil, 4001, protowire.VarintType), 1)
	raw = append(raw, raw...)
	router := &routerv3.Router{}
	router.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(raw, 4002, protowire.BytesType), "x"))
	l := listener(t, &hcmv3.HttpConnectionManager{StatPrefix: "x", HttpFilters: []*hcmv3.HttpFilter{filter(t, "r", false, router)}})
	l.ProtoReflect().SetUnknown(raw)
	report := newCatalog(t, support.Options{}).Check(l, nil, nil)
	want := []support.UnknownFields{
		{What: "type envoy.config.listener.v3.Listener with unknown field set {4001}"},
		{
			Path: "filter_chains[0].filters[0].typed_config.http_filters[0].typed_config",
			What: "type envoy.extensions.filters.http.router.v3.Router with unknown field set {4001, 4002}",
		},
	}
	if diff := cmp.Diff(want, report.Unknown); diff != "" || len(report.Findings) > 0 {
		t.Errorf("%s%v", diff, report.Findings)
	}
}
