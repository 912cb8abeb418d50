package cluster

import (
	"net"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzNew builds a cluster of anything that is a Cluster message: it is refused
// with an error, or it has hosts that are sound.
func FuzzNew(f *testing.F) {
	for _, o := range []object{
		{"name": "c", "load_assignment": load(at("1.1.1.1"), at("::1"))},
		{"name": "c", "type": "STRICT_DNS", "load_assignment": load(at("a"))},
		{"name": "c", "circuit_breakers": object{"thresholds": []object{{"retry_budget": object{}}}}},
		object{"name": "c"}.with(httpExt(object{"explicit_http_config": object{"http2_protocol_options": object{}}})),
		object{"name": "c"}.with(policies(packed("envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest", nil))),
	} {
		raw, err := proto.Marshal(configOf(f, o.String()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	reg := registry(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		conf := &clusterv3.Cluster{}
		if proto.Unmarshal(raw, conf) != nil {
			t.Skip()
		}
		o := optionsOn(reg, conf)
		o.Registry, o.Resolver = recorder{}, &net.Resolver{}
		c, err := New(conf, o)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		for _, h := range c.Hosts().Hosts() {
			if addr := h.Address(); h.Weight() < 1 || !addr.IsValid() {
				t.Errorf("host %s with weight %d", h, h.Weight())
			}
		}
		if len(c.Hosts().Priorities) == 0 {
			t.Error("no priority")
		}
	})
}
