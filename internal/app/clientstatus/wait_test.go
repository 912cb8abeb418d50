package clientstatus

import (
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"

	"github.com/xebec-proxy/xebec/xds"
)

func client(node string, states ...string) Client {
	t := Type{TypeURL: xds.ClusterType, Kind: "Cluster"}
	for i, s := range states {
		t.Resources = append(t.Resources, Resource{Name: string(rune('a' + i)), Version: "v" + string(rune('a'+i)), State: s, Reason: map[bool]string{true: "because"}[s == Error]})
	}
	return Client{Node: node, Types: []Type{t}}
}

func TestMissing(t *testing.T) {
	tests := []struct {
		name    string
		cond    Condition
		clients []Client
		want    string // joined; empty if the condition is met
	}{
		{"nobody", Condition{Name: "a", Clients: 1}, nil, "0 of at least 1 clients subscribe to Cluster a"},
		{"nobody is enough", Condition{Name: "a"}, nil, ""},
		{"accepted", Condition{Name: "a", Clients: 1}, []Client{client("n", Synced)}, ""},
		{"another resource is not", Condition{Name: "a", Clients: 1}, []Client{client("n", Synced, Stale)}, ""},
		{"all of the type", Condition{Clients: 1}, []Client{client("n", Synced, Stale)}, "node n: Cluster b is STALE"},
		{"one client is not", Condition{Name: "a", Clients: 1}, []Client{client("m", Synced), client("n", Error)}, "node n: Cluster a is ERROR: because"},
		{"too few", Condition{Name: "a", Clients: 2}, []Client{client("n", Synced)}, "1 of at least 2 clients subscribe to Cluster a"},
		{"in the version", Condition{Name: "a", Version: "va", Clients: 1}, []Client{client("n", Synced)}, ""},
		{"in another version", Condition{Name: "a", Version: "1", Clients: 1}, []Client{client("n", Synced)}, "node n: Cluster a is SYNCED in another version"},
		{"rejected", Condition{Name: "a", Clients: 1, Rejected: true}, []Client{client("n", Error)}, ""},
		{"not rejected", Condition{Name: "a", Clients: 1, Rejected: true}, []Client{client("", Synced)}, "node without an id: Cluster a is SYNCED"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cond.TypeURL = xds.ClusterType
			if got := strings.Join(tt.cond.Missing(tt.clients), "; "); got != tt.want {
				t.Errorf("missing %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSubscribed(t *testing.T) {
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "": true} {
		c := Condition{TypeURL: xds.ClusterType, Name: name, Version: "other"}
		if got := c.Subscribed([]Client{client("n", Synced, Error)}); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}

func TestParseResource(t *testing.T) {
	for in, want := range map[string][2]string{
		"Cluster/a":                 {xds.ClusterType, "a"},
		"cds/a/b":                   {xds.ClusterType, "a/b"},
		"EDS":                       {xds.EndpointType, ""},
		xds.ClusterType:             {xds.ClusterType, ""},
		"type.googleapis.com/x.Y/z": {"type.googleapis.com/x.Y", "z"},
	} {
		typeURL, name, err := ParseResource(in)
		if err != nil || typeURL != want[0] || name != want[1] {
			t.Errorf("%q: %q %q %v", in, typeURL, name, err)
		}
	}
	if _, _, err := ParseResource("Thing/a"); err == nil || !strings.Contains(err.Error(), "Cluster (CDS)") {
		t.Errorf("Thing/a: %v", err)
	}
}

func TestRead(t *testing.T) {
	got := read(&statusv3.ClientConfig{
		Node:        &corev3.Node{Id: "n", Cluster: "c", UserAgentName: "envoy", UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1"}},
		ClientScope: "group=a group=b variant=delta ads=true stream=7",
		GenericXdsConfigs: []*statusv3.ClientConfig_GenericXdsConfig{
			{TypeUrl: xds.ClusterType, Name: "a", ConfigStatus: statusv3.ConfigStatus_SYNCED},
			{TypeUrl: xds.ListenerType, Name: "l", ConfigStatus: statusv3.ConfigStatus_STALE},
			{TypeUrl: xds.ClusterType, Name: "b", ConfigStatus: statusv3.ConfigStatus_ERROR, ErrorState: &adminv3.UpdateFailureState{Details: "no (from a.yaml:3)"}},
		},
	})
	if got.Group != "a group=b" || got.Variant != "delta" || !got.Aggregated || got.Stream != "7" || got.UserAgent != "envoy 1" {
		t.Errorf("client %+v", got)
	}
	if len(got.Types) != 2 || got.Types[0].State != Error || got.Types[1].State != Stale || got.Types[0].Resources[1].Reason != "no (from a.yaml:3)" {
		t.Errorf("types %+v", got.Types)
	}
	if other := read(&statusv3.ClientConfig{ClientScope: "something of another server"}); other.Group != "" || other.Stream != "" {
		t.Errorf("foreign scope: %+v", other)
	}
}
