package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/cluster_provided/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/pick_first/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	_ "google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// configOf reads a cluster's JSON.
func configOf(t testing.TB, js string) *clusterv3.Cluster {
	t.Helper()
	c := &clusterv3.Cluster{}
	if err := protojson.Unmarshal([]byte(js), c); err != nil {
		t.Fatalf("%v in %s", err, js)
	}
	return c
}

func registry(t testing.TB) *stats.Registry {
	t.Helper()
	r, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// optionsOn are options whose statistics are those of r.
func optionsOn(r *stats.Registry, c *clusterv3.Cluster) Options {
	return Options{Registry: r.Scope("cluster." + ObservabilityName(c)), Hosts: r.Hidden(), Sink: r.Main()}
}

func build(t testing.TB, js string, change ...func(*Options)) (*Cluster, *stats.Registry) {
	t.Helper()
	conf := configOf(t, js)
	reg := registry(t)
	o := optionsOn(reg, conf)
	for _, f := range change {
		f(&o)
	}
	c, err := New(conf, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, reg
}

func snapshot(t testing.TB, r *stats.Registry) *stats.Snapshot {
	t.Helper()
	s, err := r.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object is a JSON object, to put configurations together.
type object map[string]any

func (o object) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// with is o with the fields of more.
func (o object) with(more object) object {
	out := object{}
	maps.Copy(out, o)
	maps.Copy(out, more)
	return out
}

// at is an lb_endpoint at addr, port 80.
func at(addr string) object {
	return object{"endpoint": object{"address": object{"socket_address": object{"address": addr, "port_value": 80}}}}
}

// load is a load_assignment with the endpoints in one locality.
func load(eps ...object) object {
	return object{"cluster_name": "c", "endpoints": []object{{"lb_endpoints": eps}}}
}

// packed is a message of a type inside an Any.
func packed(typ string, fields object) object {
	return object{"@type": "type.googleapis.com/" + typ}.with(fields)
}
