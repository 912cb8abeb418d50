package rest

import (
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
)

// FuzzAnswer: whatever a server answers, it is a response of the type that was
// asked for, or there is a reason that can be told to the server.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		`{"versionInfo":"1","nonce":"n","resources":[{"@type":"` + xds.ClusterType + `","name":"a","connectTimeout":"1s"}]}`,
		`{"resources":[{"@type":"type.googleapis.com/envoy.service.discovery.v3.Resource","name":"a","ttl":"3s","resource":{"@type":"` + xds.ClusterType + `"}}]}`,
		`{"type_url":"` + xds.RouteType + `"}`, `{"nonce":5}`, `{"resources":[{}]}`, `[]`, `null`, "\xff", `{"nonce":"` + "\xff" + `"}`,
		`{"resource_errors":[{"resource_name":{"name":"a"},"error_detail":{"code":5}}]}`,
	} {
		f.Add([]byte(text))
	}
	t, err := New(Config{RefreshDelay: time.Second, Targets: []Target{{URL: "http://x"}}})
	if err != nil {
		f.Fatal(err)
	}
	typ, _ := xds.LookupType(xds.ClusterType)
	f.Fuzz(func(tt *testing.T, data []byte) {
		s := &stream{t: t, typ: typ}
		r, nonce, err := s.read(data)
		if err == nil {
			if r.TypeURL != xds.ClusterType || r.Nonce != nonce {
				tt.Errorf("%q is read as %+v", data, r)
			}
			for _, raw := range r.Resources {
				if raw.TypeURL == xds.ClusterType && proto.Unmarshal(raw.Body, &clusterv3.Cluster{}) != nil {
					tt.Errorf("%q has a cluster of %q", data, raw.Body)
				}
			}
			return
		}
		s.nonce, s.problem = nonce, err.Error()
		body, _, err := s.request()
		if err != nil || protojson.Unmarshal(body, &discoveryv3.DiscoveryRequest{}) != nil {
			tt.Errorf("%q is answered with %q, %v", data, body, err)
		}
	})
}
