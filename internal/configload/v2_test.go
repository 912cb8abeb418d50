package configload_test

import (
	"path/filepath"
	"strings"
	"testing"

	api "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	"github.com/envoyproxy/go-control-plane/envoy/api/v2/core"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

func upgrading() *configload.Loader { return &configload.Loader{Successor: apiv2.Successor()} }

// TestV2Pairs reads what is written in v2 and compares it with the same in v3. With
// the loader that takes no v2 each is refused. Proves XV-05 with TestV2Encoded and
// TestV2Input of source/mem.
func TestV2Pairs(t *testing.T) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "v2.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		old, now := archive.Files[i], archive.Files[i+1]
		t.Run(old.Name, func(t *testing.T) {
			_, refused := configload.File(old.Name, old.Data)
			if len(refused) == 0 {
				t.Error("it is taken by a loader without a successor")
			}
			got, problems := upgrading().File(old.Name, old.Data)
			if want, wrong := strings.CutPrefix(string(now.Data), "error: "); wrong {
				if len(problems) == 0 || !strings.Contains(problems[0].Error(), strings.TrimSpace(want)) {
					t.Errorf("got %v, want %s", problems, want)
				}
				return
			}
			if len(problems) > 0 || len(got) != 1 || len(got[0].Warnings) == 0 {
				t.Fatalf("%d resources, problems %v", len(got), problems)
			}
			want, problems := configload.File(now.Name, now.Data)
			if len(problems) > 0 || len(want) != 1 {
				t.Fatal(problems)
			}
			if d := cmp.Diff(want[0].Message, got[0].Message, protocmp.Transform()); d != "" || got[0].TypeURL != want[0].TypeURL {
				t.Errorf("-want +got\n%s", d)
			}
			for _, w := range got[0].Warnings {
				if !w.Pos.IsZero() && w.Pos.Line < 1 {
					t.Errorf("a warning without a place: %v", w)
				}
			}
		})
	}
}

// What is encoded is read like what is written, in every container.
func TestV2Encoded(t *testing.T) {
	c := &api.Cluster{Name: "c", Hosts: []*core.Address{{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{ //nolint:staticcheck // that is the point
		Address: "10.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: 80},
	}}}}}
	a, err := anypb.New(c)
	if err != nil {
		t.Fatal(err)
	}
	inAny, err := proto.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	inList, err := proto.Marshal(&discoveryv3.DiscoveryResponse{TypeUrl: a.GetTypeUrl(), Resources: []*anypb.Any{a}})
	if err != nil {
		t.Fatal(err)
	}
	want, problems := configload.File("a.yaml", []byte(`{"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: c, load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 80}}}}]}]}}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for what, data := range map[string][]byte{"an Any": inAny, "a list": inList} {
		if _, problems := configload.File("a.pb", data); len(problems) == 0 {
			t.Errorf("%s: it is taken by a loader without a successor", what)
		}
		got, problems := upgrading().File("a.pb", data)
		if len(problems) > 0 || len(got) != 1 || got[0].TypeURL != xds.ClusterType {
			t.Errorf("%s: %v %v", what, got, problems)
			continue
		}
		if d := cmp.Diff(want[0].Message, got[0].Message, protocmp.Transform()); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	got, problems := upgrading().Upgrade(a.GetTypeUrl(), a.GetValue())
	if len(problems) > 0 || cmp.Diff(want[0].Message, got.Message, protocmp.Transform()) != "" {
		t.Errorf("%v %v", got, problems)
	}
	for _, bad := range [][]byte{{1}, {0xfa, 0x7f, 0}} {
		if _, problems := upgrading().Upgrade(a.GetTypeUrl(), bad); len(problems) == 0 {
			t.Errorf("%x is taken", bad)
		}
	}
}
