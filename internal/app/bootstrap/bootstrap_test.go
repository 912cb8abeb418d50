package bootstrap_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	_ "github.com/xebec-proxy/xebec/internal/alltypes" // Envoy's extensions
	"github.com/xebec-proxy/xebec/internal/app/bootstrap"
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/validate"
)

func options() bootstrap.Options {
	return bootstrap.Options{Server: "127.0.0.1:18000", NodeID: "n", NodeCluster: "c"}
}

// TestEnvoyIsValid reads every combination back as the message it is.
func TestEnvoyIsValid(t *testing.T) {
	for _, server := range []string{"127.0.0.1:18000", "[::1]:18000", "xds.example.com:443"} {
		for i := range 16 {
			e := bootstrap.Envoy{Options: options(), Delta: i&1 > 0, Aggregated: i&2 > 0, LoadReports: i&4 > 0, AdminPort: i & 8}
			e.Server, e.Insecure, e.NodeID = server, true, `odd: "name" # `+fmt.Sprint(i)
			if i&8 > 0 {
				e.TLS = bootstrap.TLS{CA: "/etc/ca: 1.pem", Cert: "cert.pem", Key: "key.pem"}
			}
			text, err := e.YAML()
			if err != nil {
				t.Fatal(err)
			}
			checkEnvoy(t, &e, text)
		}
	}
}

func checkEnvoy(t *testing.T, e *bootstrap.Envoy, text []byte) {
	t.Helper()
	var b bootstrapv3.Bootstrap
	at, problems := configload.Message("b.yaml", text, &b)
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	for _, f := range validate.Message(&b, "", at) {
		t.Errorf("%v\n%s", f, text)
	}
	want := corev3.ApiConfigSource_GRPC
	if e.Delta {
		want = corev3.ApiConfigSource_DELTA_GRPC
	}
	api := b.GetDynamicResources().GetAdsConfig()
	if !e.Aggregated {
		api = b.GetDynamicResources().GetCdsConfig().GetApiConfigSource()
	}
	c := b.GetStaticResources().GetClusters()[0]
	switch {
	case b.GetNode().GetId() != e.NodeID || b.GetNode().GetCluster() != "c":
		t.Errorf("node %v", b.GetNode())
	case api.GetApiType() != want || api.GetGrpcServices()[0].GetEnvoyGrpc().GetClusterName() != c.GetName():
		t.Errorf("config source %v", api)
	case (c.GetTransportSocket() != nil) != (e.TLS.CA != ""):
		t.Errorf("transport socket %v", c.GetTransportSocket())
	case (b.GetAdmin() != nil) != (e.AdminPort > 0):
		t.Errorf("admin %v", b.GetAdmin())
	case (b.GetClusterManager().GetLoadStatsConfig() != nil) != e.LoadReports:
		t.Errorf("load reports %v", b.GetClusterManager())
	}
}

func TestGRPC(t *testing.T) {
	o := options()
	o.TLS = bootstrap.TLS{CA: "ca.pem", Cert: "cert.pem", Key: "key.pem"}
	text, err := o.GRPC()
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		XDSServers []struct {
			ServerURI    string `json:"server_uri"`
			ChannelCreds []struct {
				Type   string
				Config map[string]string
			} `json:"channel_creds"`
			ServerFeatures []string `json:"server_features"`
		} `json:"xds_servers"`
		Node struct{ ID, Cluster string }
	}
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	s := b.XDSServers[0]
	if s.ServerURI != o.Server || s.ChannelCreds[0].Type != "tls" || s.ChannelCreds[0].Config["private_key_file"] != "key.pem" ||
		s.ServerFeatures[0] != "xds_v3" || b.Node.ID != "n" || b.Node.Cluster != "c" {
		t.Errorf("%s", text)
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*bootstrap.Envoy){
		"host:port":           func(e *bootstrap.Envoy) { e.Server = "nowhere" },
		"between 1 and 65535": func(e *bootstrap.Envoy) { e.Server = "h:70000" },
		"--insecure":          func(e *bootstrap.Envoy) { e.Server = "192.0.2.1:18000" },
		"no host":             func(e *bootstrap.Envoy) { e.Server = ":18000" },
		"an id and a cluster": func(e *bootstrap.Envoy) { e.NodeCluster = "" },
		"belong together":     func(e *bootstrap.Envoy) { e.TLS = bootstrap.TLS{CA: "a", Cert: "b"} },
		"authority":           func(e *bootstrap.Envoy) { e.TLS = bootstrap.TLS{ServerName: "b"} },
		"admin port":          func(e *bootstrap.Envoy) { e.AdminPort = -1 },
	} {
		e := bootstrap.Envoy{Options: options()}
		change(&e)
		if _, err := e.YAML(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
