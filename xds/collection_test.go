package xds_test

import (
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
)

func inline(name, typeURL string) *xdscorev3.CollectionEntry {
	in := &xdscorev3.CollectionEntry_InlineEntry{Name: name, Version: "7", Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte{10, 1, 'x'}}}
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: in}}
}

func located(t *testing.T, name string) *xdscorev3.CollectionEntry {
	t.Helper()
	l, err := xds.ParseLocator(name)
	if err != nil {
		t.Fatal(err)
	}
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: l.Proto()}}
}

func collection(t *testing.T, entries ...*xdscorev3.CollectionEntry) []byte {
	t.Helper()
	b, err := proto.Marshal(&listenerv3.ListenerCollection{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const clusterURN = "xdstp://a/envoy.config.cluster.v3.Cluster/"

// Partly proves XN-08: both kinds of entries are read, and what is neither, or in the wrong
// place, is refused by its number.
func TestParseCollection(t *testing.T) {
	body := collection(t, located(t, clusterURN+"x#alt="+clusterURN+"y"), inline("in", xds.ClusterType), inline("", xds.ClusterType))
	list, err := xds.ParseCollection(append(body, 0x10, 0x01)) // with a field that is not known
	if err != nil || len(list) != 3 || xds.CheckCollection(xds.ClusterType, body) != nil {
		t.Fatalf("got %v, %v", list, err)
	}
	if l := list[0].Locator; l == nil || l.URN.ID != "x" || l.Alt == nil || l.Alt.URN.ID != "y" {
		t.Errorf("the locator is %v", l)
	}
	if e := list[1]; e.Locator != nil || e.Name != "in" || e.Version != "7" || e.TypeURL != xds.ClusterType || string(e.Body) != "\n\x01x" {
		t.Errorf("the entry is %+v", e)
	}
	for want, body := range map[string][]byte{
		"entries[0]: has neither":                                  collection(t, &xdscorev3.CollectionEntry{}),
		`entries[1]: the name "in" occurs twice`:                   collection(t, inline("in", xds.ClusterType), inline("in", xds.ClusterType)),
		"entries[0]: entry \"a b\" must be":                        collection(t, inline("a b", xds.ClusterType)),
		"entries[0]: inline_entry.resource: type \"type.google":    collection(t, inline("in", xds.ListenerType)),
		"entries[0]: resource name \"xdstp://a/envoy.config.list":  collection(t, located(t, "xdstp://a/envoy.config.listener.v3.Listener/x")),
		"names a glob collection":                                  collection(t, located(t, clusterURN+"*")),
		"entry is for list collections":                            collection(t, located(t, clusterURN+"x#entry=y")),
		"names a list collection where one resource":               collection(t, located(t, "xdstp://a/envoy.config.cluster.v3.ClusterCollection/x")),
		"reading a list collection":                                {0xff},
		"entries[0]: proto":                                        {0x0a, 0x01, 0xff},
		"entries[0]: xds.core.v3.ResourceLocator: scheme FILE is ": collection(t, &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: &xdscorev3.ResourceLocator{Scheme: xdscorev3.ResourceLocator_FILE}}}),
	} {
		if err := xds.CheckCollection(xds.ClusterType, body); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\u00a0", " "), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Partly proves XN-10: what may be redirected to what.
func TestCheckRedirect(t *testing.T) {
	const list = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/"
	for _, tt := range []struct{ name, to, want string }{
		{"plain", clusterURN + "x", ""},
		{clusterURN + "x", clusterURN + "y#alt=" + list + "l%23entry=z", ""},
		{clusterURN + "x", list + "l#entry=z", ""},
		{list + "l", list + "m#alt=" + list + "n", ""},
		{list + "l", clusterURN + "x", "names one resource where a list collection"},
		{list + "l", list + "m#entry=x", "names one resource where a list collection"},
		{clusterURN + "x", list + "m", "names a list collection where one resource"},
		{clusterURN + "x", clusterURN + "y#alt=" + clusterURN + "*", "a glob collection"},
		{clusterURN + "x", "xdstp://a/envoy.config.listener.v3.Listener/x", "has type"},
	} {
		to, err := xds.ParseLocator(tt.to)
		if err == nil {
			err = xds.CheckRedirect(xds.ClusterType, tt.name, to)
		}
		if err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s to %s: %v, want %q", tt.name, tt.to, err, tt.want)
		}
	}
}

// A resource of another message is encoded as such, and wrapped in SotW, as is one whose
// structured name is not that in its message. Partly proves XN-09.
func TestWrapped(t *testing.T) {
	own, err := proto.Marshal(&clusterv3.Cluster{Name: "own"})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*xds.Resource{
		xds.NewResource(xds.ClusterType, "plain", []byte{0x22, 1, 'y'}, xds.WithBodyType(xds.LocatorType)),
		xds.NewResource(xds.ClusterType, clusterURN+"x", own, xds.WithAliases("z")),
	} {
		var sotw discoveryv3.DiscoveryResponse
		var delta discoveryv3.DeltaDiscoveryResponse
		var inner discoveryv3.Resource
		if err := proto.Unmarshal(r.SotwField(), &sotw); err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(r.DeltaField(), &delta); err != nil {
			t.Fatal(err)
		}
		if err := sotw.GetResources()[0].UnmarshalTo(&inner); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&inner, delta.GetResources()[0]) || inner.GetName() != r.Name() || inner.GetResource().GetTypeUrl() != r.BodyType() {
			t.Errorf("SotW has %v, delta %v", &inner, &delta)
		}
		if !proto.Equal(r.SotwAny(), sotw.GetResources()[0]) || !proto.Equal(r.Any(), inner.GetResource()) {
			t.Errorf("the Anys are %v and %v", r.SotwAny(), r.Any())
		}
	}
	plain := xds.NewResource(xds.ClusterType, "x", own)
	if plain.SotwAny().GetTypeUrl() != xds.ClusterType || plain.Indirect() {
		t.Error("a plain resource is wrapped")
	}
	if redirect := xds.NewResource(xds.ClusterType, "x", own, xds.WithVersion("1"), xds.WithBodyType(xds.LocatorType)); redirect.Equal(xds.NewResource(xds.ClusterType, "x", own, xds.WithVersion("1"))) {
		t.Error("the type of the message is no part of the content")
	}
}

// FuzzParseCollection reads anything without a panic, and what it takes it takes again.
func FuzzParseCollection(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x12, 0x00})
	f.Add([]byte("\n\x0b\x12\x09\n\x01a\x1a\x04\n\x02t/"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if list, err := xds.ParseCollection(body); err == nil {
			again, err := xds.ParseCollection(body)
			if err != nil || len(again) != len(list) {
				t.Errorf("%v, then %v, %v", list, again, err)
			}
		}
		_ = xds.CheckCollection(xds.ClusterType, body)
	})
}
