package xdsserver_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// Decoding what the encoder makes with the generated types gives exactly the
// response, for small and large ones, with every field.
func TestEncodedResponses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawResponse(t)
		canary := rapid.Bool().Draw(t, "canary")
		for _, v := range []wire.Variant{wire.Sotw, wire.Delta} {
			data, err := xdsserver.Encode("cp", canary, v, r)
			if err != nil {
				t.Fatal(err)
			}
			var got, want proto.Message = &discoveryv3.DiscoveryResponse{}, wantSotw(r, canary)
			if v == wire.Delta {
				got, want = &discoveryv3.DeltaDiscoveryResponse{}, wantDelta(r)
			}
			if err := proto.Unmarshal(data, got); err != nil {
				t.Fatalf("%v: %v", v, err)
			}
			if !proto.Equal(want, got) {
				t.Fatalf("%v (-want +got):\n%s", v, cmp.Diff(want, got, protocmp.Transform()))
			}
		}
	})
}

func drawResponse(t *rapid.T) *wire.Response {
	word := rapid.StringMatching(`[a-zé/*]{0,12}`)
	r := &wire.Response{
		TypeURL: xds.TypePrefix + word.Draw(t, "type"), Version: word.Draw(t, "version"), Nonce: word.Draw(t, "nonce"),
		Removed: rapid.SliceOfN(word, 0, 3).Draw(t, "removed"),
	}
	for range rapid.IntRange(0, 5).Draw(t, "resources") {
		opts := []xds.Option{xds.WithAliases(rapid.SliceOfN(word, 0, 2).Draw(t, "aliases")...)}
		if rapid.Bool().Draw(t, "own version") {
			opts = append(opts, xds.WithVersion("v"+word.Draw(t, "v")))
		}
		size := rapid.SampledFrom([]int{0, 1, 127, 128, 5000, 16 << 10, 70_000}).Draw(t, "size")
		r.Resources = append(r.Resources, xds.NewResource(r.TypeURL, word.Draw(t, "name"), []byte(strings.Repeat("x", size)), opts...))
	}
	for range rapid.IntRange(0, 3).Draw(t, "errors") {
		r.Errors = append(r.Errors, wire.NamedError{Name: word.Draw(t, "bad"), Status: wire.Status{Code: wire.NotFound, Message: strings.Repeat("m", 300)}})
	}
	return r
}

func wantSotw(r *wire.Response, canary bool) proto.Message {
	m := &discoveryv3.DiscoveryResponse{
		VersionInfo: r.Version, TypeUrl: r.TypeURL, Nonce: r.Nonce, Canary: canary,
		ControlPlane: &corev3.ControlPlane{Identifier: "cp"}, ResourceErrors: wantErrors(r),
	}
	for _, res := range r.Resources {
		m.Resources = append(m.Resources, &anypb.Any{TypeUrl: res.TypeURL(), Value: res.Body()})
	}
	return m
}

func wantDelta(r *wire.Response) proto.Message {
	m := &discoveryv3.DeltaDiscoveryResponse{
		SystemVersionInfo: r.Version, TypeUrl: r.TypeURL, Nonce: r.Nonce, RemovedResources: r.Removed,
		ControlPlane: &corev3.ControlPlane{Identifier: "cp"}, ResourceErrors: wantErrors(r),
	}
	for _, res := range r.Resources {
		m.Resources = append(m.Resources, &discoveryv3.Resource{
			Name: res.Name(), Version: res.Version(), Aliases: res.Aliases(), Resource: &anypb.Any{TypeUrl: res.TypeURL(), Value: res.Body()},
		})
	}
	return m
}

func wantErrors(r *wire.Response) []*discoveryv3.ResourceError {
	var list []*discoveryv3.ResourceError
	for _, e := range r.Errors {
		list = append(list, &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: e.Name},
			ErrorDetail:  &statuspb.Status{Code: int32(e.Code), Message: e.Message},
		})
	}
	return list
}
