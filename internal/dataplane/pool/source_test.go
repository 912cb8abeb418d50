package pool

import (
	"encoding/binary"
	"net/netip"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// toldHosts is a cluster without a worker, whose first host is told of clients and whose
// second is not.
func toldHosts(t *testing.T, config string) (*Cluster, []*cluster.Host) {
	t.Helper()
	conf := &clusterv3.Cluster{}
	if err := protojson.Unmarshal([]byte(`{"name": "c", "transport_socket_matches": [{"name": "raw", "match": {"raw": true}, "transport_socket": {"name": "raw"}}],
		"load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [
		{"endpoint": {"address": {"socket_address": {"address": "1.0.0.1", "port_value": 1}}}},
		{"endpoint": {"address": {"socket_address": {"address": "1.0.0.2", "port_value": 1}}}, "metadata": {"filter_metadata": {"envoy.transport_socket_match": {"raw": true}}}}]}]}}`), conf); err != nil {
		t.Fatal(err)
	}
	reg, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.New(conf, cluster.Options{Registry: reg.Scope("cluster.c"), Hosts: reg.Hidden(), Sink: reg.Main()})
	if err != nil {
		t.Fatal(err)
	}
	m := &upstreamv3.ProxyProtocolUpstreamTransport{}
	if err := protojson.Unmarshal([]byte(config), m); err != nil {
		t.Fatal(err)
	}
	header, err := proxyheader.New(m, nil, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{Cfg: c, opt: &Options{ProxyHeaders: []*proxyheader.Config{header, nil}}}, c.Hosts().Hosts()
}

func clientOf(addr string, tlvs ...inspect.TLV) *filter.StreamInfo {
	i := &filter.StreamInfo{Connection: &filter.ConnectionInfo{
		Remote: filter.IPAddress(netip.MustParseAddrPort(addr)), Local: filter.IPAddress(netip.MustParseAddrPort("10.0.0.1:80")),
	}}
	if tlvs != nil {
		i.SetState(inspect.HeaderState, &inspect.ProxyHeader{PassThrough: tlvs})
	}
	return i
}

// Partly proves TS-24: clients' connections that are alike are one source, as long as it
// has a pool; finding that allocates nothing.
func TestSources(t *testing.T) {
	c, hosts := toldHosts(t, `{"config": {"version": "V2", "pass_through_tlvs": {}}, "tlv_as_pool_key": true}`)
	if c.Source(hosts[1], clientOf("9.9.9.9:1")) != nil || c.Source(hosts[0], &filter.StreamInfo{}) != nil {
		t.Error("a host without a header, or a stream without a connection, has a source")
	}
	long := make([]byte, 0, 1000)
	long = binary.BigEndian.AppendUint64(long, 7)[:500]
	one := c.Source(hosts[0], clientOf("9.9.9.9:1", inspect.TLV{Type: 1, Value: long}))
	if len(c.sources) != 0 {
		t.Error("a source without a pool is kept")
	}
	c.keep(one)
	c.keep(one)
	for name, tt := range map[string]struct {
		client *filter.StreamInfo
		same   bool
	}{
		"alike":        {clientOf("9.9.9.9:1", inspect.TLV{Type: 1, Value: long}), true},
		"another port": {clientOf("9.9.9.9:2", inspect.TLV{Type: 1, Value: long}), false},
		"another TLV":  {clientOf("9.9.9.9:1", inspect.TLV{Type: 1, Value: long[1:]}), false},
		"no TLV":       {clientOf("9.9.9.9:1"), false},
	} {
		if got := c.Source(hosts[0], tt.client); (got == one) != tt.same {
			t.Errorf("%s: the same %v, want %v", name, got == one, tt.same)
		}
	}
	short := clientOf("[2001:db8::1]:1", inspect.TLV{Type: 1, Value: long[:40]})
	c.keep(c.Source(hosts[0], short))
	if n := testing.AllocsPerRun(100, func() { _ = c.Source(hosts[0], short) }); n > 0 {
		t.Errorf("to find a source takes %v allocations", n)
	}
	c.opt.ProxyHeaders[1] = c.opt.ProxyHeaders[0]
	if c.Source(hosts[1], clientOf("9.9.9.9:1", inspect.TLV{Type: 1, Value: long})) == one {
		t.Error("hosts with other sockets have the same source")
	}
	c.release(one)
	if c.Source(hosts[0], clientOf("9.9.9.9:1", inspect.TLV{Type: 1, Value: long})) != one {
		t.Error("a source that has a pool is forgotten")
	}
	c.release(one)
	if len(c.sources) != 1 {
		t.Errorf("%d sources are kept, want 1", len(c.sources))
	}
}
