package client

import (
	"bytes"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

func TestRequestsAreWhatTheProtocolSays(t *testing.T) {
	sotw := newRequests(false, 2, 1<<20, "a:1")
	delta := newRequests(true, 2, 1<<20, "a:1")
	names := []string{resources.Name(0), resources.Name(1)}
	node := &corev3.Node{Id: "node-7", Cluster: "bench"}
	for name, c := range map[string]struct {
		parts [][]byte
		want  proto.Message
	}{
		"sotw wildcard": {sotw.subscribe(resources.CDS, sotw.node(7)), &discoveryv3.DiscoveryRequest{TypeUrl: resources.ClusterType, Node: node}},
		"sotw names":    {sotw.subscribe(resources.EDS), &discoveryv3.DiscoveryRequest{TypeUrl: resources.AssignmentType, ResourceNames: names}},
		"sotw ack": {
			sotw.acknowledge(resources.EDS, []byte("v"), []byte("n")),
			&discoveryv3.DiscoveryRequest{TypeUrl: resources.AssignmentType, ResourceNames: names, VersionInfo: "v", ResponseNonce: "n"},
		},
		"sotw wildcard ack": {
			sotw.acknowledge(resources.CDS, []byte("v"), []byte("n")),
			&discoveryv3.DiscoveryRequest{TypeUrl: resources.ClusterType, VersionInfo: "v", ResponseNonce: "n"},
		},
		"delta wildcard": {delta.subscribe(resources.CDS, delta.node(7)), &discoveryv3.DeltaDiscoveryRequest{TypeUrl: resources.ClusterType, Node: node}},
		"delta names": {
			delta.subscribe(resources.EDS, heldVersions([]string{"v0", "v1"})),
			&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: resources.AssignmentType, ResourceNamesSubscribe: names,
				InitialResourceVersions: map[string]string{names[0]: "v0", names[1]: "v1"},
			},
		},
		"delta ack": {
			delta.acknowledge(resources.EDS, []byte("v"), []byte("n")),
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: resources.AssignmentType, ResponseNonce: "n"},
		},
	} {
		got := c.want.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(slices.Concat(c.parts...), got); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(c.want, got, protocmp.Transform()); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestOpeningIsReadByTheReferenceImplementation(t *testing.T) {
	b := opening(true, 1<<20, "a:1")
	b, ok := bytes.CutPrefix(b, []byte(http2.ClientPreface))
	if !ok {
		t.Fatal("no connection preface")
	}
	r := http2.NewFramer(nil, bytes.NewReader(b))
	var window uint32
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			window, _ = f.Value(http2.SettingInitialWindowSize)
		case *http2.WindowUpdateFrame:
			if got := initialWindow + f.Increment; got != 1<<20 || got != window {
				t.Errorf("connection window %d, stream window %d, want %d", got, window, 1<<20)
			}
		case *http2.HeadersFrame:
			h, err := decodeHeaders(f.HeaderBlockFragment())
			if err != nil || h[":path"] != deltaMethod || h[":method"] != "POST" || h["te"] != "trailers" {
				t.Errorf("headers %v, %v", h, err)
			}
			return
		}
	}
}
