package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// marker writes into the metadata of requests what their header x-lb says.
type marker struct{ cb filter.Callbacks }

func (m *marker) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	if v := h.Get("x-lb"); v != "" {
		m.cb.Info().SetMetadata("envoy.lb", "to", structpb.NewStringValue(v))
	}
	return filter.Continue
}
func (m *marker) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }
func (m *marker) DecodeTrailers(*header.Map) filter.TrailersStatus  { return filter.TrailersContinue }

// TestSubsetsByMetadata leads connections and requests to subsets by what their
// configuration says, then by what a filter has written into the metadata of the
// connection, then by what one has written into those of the request.
// Proves RT-25, and with the other tests of tcp_proxy NF-07. Partly proves LB-15.
func TestSubsetsByMetadata(t *testing.T) {
	var hosts []string
	for _, name := range []string{"0", "1", "2"} {
		port := serveTCP(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 10))
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\n%s", name)
			_, _ = io.Copy(io.Discard, c)
		})
		host, number, _ := net.SplitHostPort(port)
		hosts = append(hosts, fmt.Sprintf("{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}, metadata: {filter_metadata: {envoy.lb: {to: %q, as: x}}}}", host, number, name))
	}
	const match = "metadata_match: {filter_metadata: {envoy.lb: {to: %q%s}}}"
	one, two := fmt.Sprintf(match, "1", ""), fmt.Sprintf(match, "2", "")
	manager := strings.Replace(okFilter, "direct_response: {status: 200, body: {inline_string: fine}}", "route: {cluster: c, "+one+"}", 1)
	weighted := strings.Replace(manager, "cluster: c, "+one, fmt.Sprintf(match, "1", ", as: x")+", weighted_clusters: {clusters: [{name: c, weight: 1, "+two+"}]}", 1)
	marked := strings.Replace(manager, "http_filters: [", `http_filters: [{name: marker, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}}, `, 1)
	if manager == okFilter || weighted == manager || marked == manager {
		t.Fatal("the filter has changed")
	}
	to := make(chan string, 1)
	network := networkProbes(recorders(make(chan string, 1000), map[string]func(*recorder){"a": func(a *recorder) {
		a.onNew = func(*recorder) filter.NetworkStatus {
			if v := <-to; v != "" {
				a.conn.Info().SetMetadata("envoy.lb", "to", structpb.NewStringValue(v))
			}
			return filter.NetworkContinue
		}
	}}, "a"))
	listener := func(name, last string) string { return listen(name, probe("a")+","+last) }
	r := start(t, bootstrapOf(listener("tcp", tcpTo("tcp", "cluster: c", one))+
		listener("none", tcpTo("none", "cluster: c"))+
		listener("weighted", tcpTo("weighted", fmt.Sprintf(match, "1", ", as: x"), "weighted_clusters: {clusters: [{name: c, weight: 1, "+two+"}]}"))+
		listener("http", manager)+listener("http-weighted", weighted)+listener("marked", marked),
		"  - {name: c, lb_subset_config: {subset_selectors: [{keys: [to]}, {keys: [to, as]}]}, load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: ["+strings.Join(hosts, ", ")+"]}]}}\n"),
		func(f *proxyrun.Flags, o *proxy.Options) {
			network(f, o)
			networks := o.Register
			o.Register = func(r *filter.Registry) error {
				if err := networks(r); err != nil {
					return err
				}
				return r.AddHTTP(filter.HTTPType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
					return func(cb filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Decoder: &marker{cb}} }, nil
				}})
			}
		})
	for _, tt := range []struct{ listener, connection, request, want string }{
		{"tcp", "", "", "1"},
		{"tcp", "2", "", "2"},
		{"tcp", "9", "", ""},
		{"none", "", "", ""},
		{"none", "0", "", "0"},
		{"weighted", "", "", "2"},
		{"weighted", "0", "", "0"},
		{"http", "", "", "1"},
		{"http", "2", "", "2"},
		{"http", "9", "", "no healthy upstream"},
		{"http-weighted", "", "", "2"},
		{"http-weighted", "0", "", "0"},
		{"marked", "", "", "1"},
		{"marked", "", "2", "2"},
		{"marked", "2", "0", "0"},
	} {
		to <- tt.connection
		c := r.dial(t, tt.listener)
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nhost: a\r\nx-lb: %s\r\n\r\n", tt.request)
		var body []byte
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil {
			body, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		_ = c.Close()
		if string(body) != tt.want {
			t.Errorf("%+v: %q, %v", tt, body, err)
		}
	}
}

// The subsets of a cluster that is replaced by one without count as removed.
// Partly proves LB-15.
func TestSubsetsOfAClusterThatGoes(t *testing.T) {
	s := newSource()
	r := begin(t, small+adminHere, s.by)
	<-r.Ready()
	conf := staticCluster("sub", "127.0.0.1:9")
	conf.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"envoy.lb": {Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("1")}},
	}}
	divided := &clusterv3.Cluster{}
	proto.Merge(divided, conf)
	divided.LbSubsetConfig = &clusterv3.Cluster_LbSubsetConfig{SubsetSelectors: []*clusterv3.Cluster_LbSubsetConfig_LbSubsetSelector{{Keys: []string{"a"}}}}
	for i, c := range []*clusterv3.Cluster{divided, conf} {
		must(t, r.Resources().SetCluster(c, fmt.Sprint(i)))
		page := r.get(t, "/stats?filter=cluster.sub.lb_subsets_")
		for name, want := range map[string]int{"active": 1 - i, "created": 1, "removed": i} {
			if line := fmt.Sprintf("cluster.sub.lb_subsets_%s: %d\n", name, want); !strings.Contains(page, line) {
				t.Errorf("%d: no %q in\n%s", i, line, page)
			}
		}
	}
}
