package discovery

import (
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/routedecode"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Of routes that are wanted a virtual host that has stayed is the same message, "self"
// becomes the source in what is new, and nothing is kept of what is not wanted.
func TestRoutesAreDecodedInParts(t *testing.T) {
	s, ads := &xdsclient.Source{}, &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{}}
	k := want{s, xds.RouteType, "r"}
	d := &Discovery{wanted: map[want][]*user{k: {{source: ads}}}, decoders: map[want]*routedecode.Decoder{}}
	typ := d.routes(s, ads)
	rc := &routev3.RouteConfiguration{Name: "r", Vhds: &routev3.Vhds{ConfigSource: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Self{Self: &corev3.SelfConfigSource{}},
	}}, VirtualHosts: []*routev3.VirtualHost{{Name: "a"}, {Name: "b"}}}
	decode := func(name string) *routev3.RouteConfiguration {
		t.Helper()
		body, err := proto.Marshal(rc)
		if err != nil {
			t.Fatal(err)
		}
		got, err := typ.Decode(name, body)
		if err != nil || got.GetVhds().GetConfigSource().GetAds() == nil && got.GetVhds().GetConfigSource().GetSelf() != nil {
			t.Fatalf("%v, %v", got, err)
		}
		return got
	}
	first := decode("r")
	rc.VirtualHosts = slices.Insert(rc.VirtualHosts, 1, &routev3.VirtualHost{Name: "c"})
	if got := decode("r").GetVirtualHosts(); got[0] != first.GetVirtualHosts()[0] || got[2] != first.GetVirtualHosts()[1] || got[1].GetName() != "c" {
		t.Errorf("of %v: %v", first, got)
	}
	decode("other")
	d.drop(k, ads)
	if decode("r"); len(d.decoders) > 0 {
		t.Error("what nobody wants has a decoder")
	}
	if _, err := typ.Decode("r", []byte{1}); err == nil {
		t.Error("what is no route configuration was decoded")
	}
}
