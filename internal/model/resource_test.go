package model_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

func TestName(t *testing.T) {
	for _, ty := range xds.Types() {
		field := "name"
		switch ty.URL {
		case xds.EndpointType:
			field = "cluster_name"
		case xds.LocalityEndpointType:
			if name, ok := model.Name(parse(t, ty.URL, "")); ok {
				t.Errorf("LbEndpoint has the name %q", name)
			}
			continue
		}
		name, ok := model.Name(parse(t, ty.URL, field+`: "n"`))
		if name != "n" || !ok {
			t.Errorf("Name of %s = %q, %v", ty.Kind, name, ok)
		}
	}
	if _, ok := model.Name(nil); ok {
		t.Error("nil has a name")
	}
}

func TestResource(t *testing.T) {
	const text = `name: "c" type: EDS eds_cluster_config { eds_config { ads {} } }
		metadata { filter_metadata { key: "b" value {} } filter_metadata { key: "a" value {} } filter_metadata { key: "c" value {} } }`
	first, err := model.Resource(parse(t, xds.ClusterType, text), xds.WithAliases("also"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := model.Resource(parse(t, xds.ClusterType, text), xds.WithAliases("also"))
		if err != nil {
			t.Fatal(err)
		}
		if !first.Equal(again) {
			t.Fatal("the encoding of one content differs")
		}
	}
	if first.Name() != "c" || first.TypeURL() != xds.ClusterType {
		t.Errorf("built %v", first.Key())
	}
	if d := cmp.Diff([]xds.Reference{ref(xds.EndpointType, "c", "name")}, first.References()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"also"}, first.Aliases()); d != "" {
		t.Error(d)
	}
}

func TestResourceErrors(t *testing.T) {
	for _, tc := range []struct{ typeURL, text, want string }{
		{xds.LocalityEndpointType, "", "LbEndpoint is not a resource with a name"},
		{xds.EndpointType, "", "has no name; set cluster_name"},
	} {
		_, err := model.Resource(parse(t, tc.typeURL, tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", tc.typeURL, err, tc.want)
		}
	}
	if _, err := model.Resource(nil); err == nil {
		t.Error("nil became a resource")
	}
}
