package xdsserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// csds asks for the status of clients.
func (h *harness) csds(ask *statusv3.ClientStatusRequest) *statusv3.ClientStatusResponse {
	h.t.Helper()
	synctest.Wait()
	r, err := statusv3.NewClientStatusDiscoveryServiceClient(h.conn()).FetchClientStatus(h.ctx, ask)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range r.GetConfig() {
		for _, g := range c.GetGenericXdsConfigs() {
			if g.GetClientStatus() != 0 {
				h.t.Errorf("client_status is set by a server: %v", g)
			}
		}
	}
	return r
}

// words shows the status of a client in short: name, status, version.
func words(c *statusv3.ClientConfig) string {
	var list []string
	for _, g := range c.GetGenericXdsConfigs() {
		list = append(list, fmt.Sprintf("%s %s %s", g.GetName(), g.GetConfigStatus(), g.GetVersionInfo()))
	}
	return strings.Join(list, ", ")
}

// Proves XD-01: the clients that match are listed, each with its node and
// everything known of each resource.
// Proves XD-03: client_status is left to clients.
func TestClientStatus(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		content := &clusterv3.Cluster{Name: "c", AltStatName: "alt"}
		long := time.Now()
		r, err := xds.Marshal("c", content, xds.WithUpdated(long))
		if err != nil {
			t.Fatal(err)
		}
		h.set(r)
		time.Sleep(time.Hour)
		came := time.Now()
		a, b := h.sotw(), h.delta()
		n := &corev3.Node{
			Id: "a", Cluster: "web", UserAgentName: "agent", UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.2"},
			Locality: &corev3.Locality{Region: "r", Zone: "z", SubZone: "s"}, ClientFeatures: []string{"f"},
			Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("v")}},
		}
		a.subscribe(n, xds.ClusterType)
		b.subscribe(node("b"), xds.ClusterType)
		time.Sleep(time.Second)
		a.ack(a.must())
		b.must()
		all := h.csds(&statusv3.ClientStatusRequest{})
		if len(all.GetConfig()) != 2 {
			t.Fatalf("%d clients, want 2", len(all.GetConfig()))
		}
		one := h.csds(&statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: exact("a")}}})
		if len(one.GetConfig()) != 1 || !proto.Equal(one.GetConfig()[0].GetNode(), n) {
			t.Fatalf("clients named a: %v", one)
		}
		g := one.GetConfig()[0].GetGenericXdsConfigs()
		if len(g) != 1 || g[0].GetTypeUrl() != xds.ClusterType || g[0].GetName() != "c" || g[0].GetVersionInfo() != r.Version() ||
			g[0].GetConfigStatus() != statusv3.ConfigStatus_SYNCED || g[0].GetErrorState() != nil {
			t.Errorf("resources of a: %v", g)
		}
		var got clusterv3.Cluster
		if err := g[0].GetXdsConfig().UnmarshalTo(&got); err != nil || !proto.Equal(&got, content) {
			t.Errorf("content: %v, %v", &got, err)
		}
		if at := g[0].GetLastUpdated().AsTime(); !at.Equal(came) {
			t.Errorf("updated %v, want %v, when the client came", at, came)
		}
		time.Sleep(time.Hour)
		changed, _ := xds.Marshal("c", &clusterv3.Cluster{Name: "c"}, xds.WithUpdated(time.Now()))
		h.set(changed)
		a.must()
		one = h.csds(&statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: exact("a")}}})
		if at := one.GetConfig()[0].GetGenericXdsConfigs()[0].GetLastUpdated().AsTime(); !at.Equal(time.Now()) {
			t.Errorf("after the change: updated %v, want %v", at, time.Now())
		}
	})
}

// Proves XD-02: every state of a resource at a client.
func TestConfigStates(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		d, s := h.delta(), h.sotw()
		check := func(when, want string) {
			t.Helper()
			resp := h.csds(&statusv3.ClientStatusRequest{})
			for _, c := range resp.GetConfig() {
				if got := words(c); got != want {
					t.Errorf("%s: %s has %q, want %q", when, c.GetNode().GetId(), got, want)
				}
			}
			if len(resp.GetConfig()) != 2 {
				t.Errorf("%s: %d clients", when, len(resp.GetConfig()))
			}
		}
		d.subscribe(node("d"), xds.ClusterType, "c")
		s.subscribe(node("s"), xds.ClusterType, "c")
		d.silent("before the load")
		check("before the load", "c NOT_SENT ")
		h.set(res(xds.ClusterType, "c", "1"))
		dr, sr := d.must(), s.must()
		check("before the answer", "c STALE 1")
		d.ack(dr)
		s.ack(sr, "c")
		check("after the ACK", "c SYNCED 1")
		h.set(res(xds.ClusterType, "c", "2"))
		dr, sr = d.must(), s.must()
		check("after a change", "c STALE 2")
		d.nack(dr, "no good")
		s.nack(sr, "no good", "c")
		check("after the NACK", "c ERROR 2")
		for _, c := range h.csds(&statusv3.ClientStatusRequest{}).GetConfig() {
			e := c.GetGenericXdsConfigs()[0].GetErrorState()
			if e.GetDetails() != "no good" || e.GetVersionInfo() != "2" || !e.GetLastUpdateAttempt().AsTime().Equal(time.Now()) ||
				e.GetFailedConfiguration() == nil {
				t.Errorf("error state %v", e)
			}
		}
		h.set(res(xds.ClusterType, "c", "3"))
		d.ack(d.must())
		s.ack(s.must(), "c")
		check("after a good change", "c SYNCED 3")
		h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{"default": {Remove: []xds.Key{{Type: xds.ClusterType, Name: "c"}}}}})
		d.ack(d.must())
		s.ack(s.must(), "c")
		check("after the removal", "c NOT_SENT ")
	})
}

// Proves XD-07: contents can be left out.
// Proves XD-08: a unary call answers once, a stream each request.
func TestClientStatusCalls(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		d := h.delta()
		d.subscribe(node("d"), xds.ClusterType)
		d.nack(d.must(), "no")
		d.silent("after the NACK")
		st := open[statusv3.ClientStatusRequest, statusv3.ClientStatusResponse](h, h.conn(), statusv3.ClientStatusDiscoveryService_StreamClientStatus_FullMethodName)
		for _, bare := range []bool{false, true, false} {
			st.send(&statusv3.ClientStatusRequest{ExcludeResourceContents: bare})
			streamed, fetched := st.must(), h.csds(&statusv3.ClientStatusRequest{ExcludeResourceContents: bare})
			if !proto.Equal(streamed, fetched) {
				t.Errorf("streamed %v, fetched %v", streamed, fetched)
			}
			g := fetched.GetConfig()[0].GetGenericXdsConfigs()[0]
			if (g.GetXdsConfig() == nil) != bare || (g.GetErrorState().GetFailedConfiguration() == nil) != bare || g.GetName() != "c" {
				t.Errorf("exclude_resource_contents %t: %v", bare, g)
			}
			st.silent("without a request")
		}
		st.send(&statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: &matcherv3.StringMatcher{}}}})
		st.endsWith(codes.InvalidArgument)
		st = open[statusv3.ClientStatusRequest, statusv3.ClientStatusResponse](h, h.conn(), statusv3.ClientStatusDiscoveryService_StreamClientStatus_FullMethodName)
		if err := st.st.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := st.ended(); err == nil || err.Error() != "EOF" {
			t.Errorf("a stream without requests ended with %v", err)
		}
	})
}

// One answer has a limit, so that many clients of a large configuration do not
// make the server allocate without bounds; the error says what to do.
func TestClientStatusIsBounded(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		var list []*xds.Resource
		for i := range 40 {
			r, err := xds.Marshal(fmt.Sprint("c", i), &clusterv3.Cluster{Name: strings.Repeat("x", 64<<10)})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, r)
		}
		h.set(list...)
		for i := range 20 { // 2.5 MiB each
			d := h.delta()
			d.subscribe(node(fmt.Sprint("n", i)), xds.ClusterType)
			d.must()
		}
		c := statusv3.NewClientStatusDiscoveryServiceClient(h.conn())
		_, err := c.FetchClientStatus(h.ctx, &statusv3.ClientStatusRequest{})
		if msg := status.Convert(err).Message(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(msg, "exclude_resource_contents") || !strings.Contains(msg, "node_matchers") {
			t.Errorf("for 50 MiB: %v", err)
		}
		if n := len(h.csds(&statusv3.ClientStatusRequest{ExcludeResourceContents: true}).GetConfig()); n != 20 {
			t.Errorf("without contents: %d clients", n)
		}
		if n := len(h.csds(&statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: prefix("n1")}}}).GetConfig()); n != 11 {
			t.Errorf("of some: %d clients", n)
		}
	})
}

func exact(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func prefix(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: s}}
}

func regex(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: s}}}
}

// Each node matcher chooses what it says, and what is not understood is an
// error that names the field.
func TestNodeMatchers(t *testing.T) {
	meta := func(v *matcherv3.ValueMatcher, path ...string) *matcherv3.NodeMatcher {
		m := &matcherv3.StructMatcher{Value: v}
		for _, p := range path {
			m.Path = append(m.Path, &matcherv3.StructMatcher_PathSegment{Segment: &matcherv3.StructMatcher_PathSegment_Key{Key: p}})
		}
		return &matcherv3.NodeMatcher{NodeMetadatas: []*matcherv3.StructMatcher{m}}
	}
	id := func(m *matcherv3.StringMatcher) *matcherv3.NodeMatcher { return &matcherv3.NodeMatcher{NodeId: m} }
	str := func(s string) *matcherv3.ValueMatcher {
		return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: exact(s)}}
	}
	num := func(m *matcherv3.DoubleMatcher) *matcherv3.ValueMatcher {
		return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_DoubleMatch{DoubleMatch: m}}
	}
	between := &matcherv3.DoubleMatcher{MatchPattern: &matcherv3.DoubleMatcher_Range{}}
	one := &matcherv3.DoubleMatcher{MatchPattern: &matcherv3.DoubleMatcher_Exact{Exact: 1}}
	ignoreCase := exact("ALPHA")
	ignoreCase.IgnoreCase = true
	both := meta(str("east"), "where", "region")
	both.NodeId = exact("beta")
	tests := map[string]struct {
		list []*matcherv3.NodeMatcher
		want string // an error if it starts with node_matchers
	}{
		"none":          {nil, "[alpha beta gamma]"},
		"exact":         {[]*matcherv3.NodeMatcher{id(exact("beta"))}, "[beta]"},
		"exact, case":   {[]*matcherv3.NodeMatcher{id(exact("BETA"))}, "[]"},
		"ignore case":   {[]*matcherv3.NodeMatcher{id(ignoreCase)}, "[alpha]"},
		"prefix":        {[]*matcherv3.NodeMatcher{id(prefix("ga"))}, "[gamma]"},
		"suffix":        {[]*matcherv3.NodeMatcher{id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: "eta"}})}, "[beta]"},
		"contains":      {[]*matcherv3.NodeMatcher{id(&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "mm"}})}, "[gamma]"},
		"regex":         {[]*matcherv3.NodeMatcher{id(regex("alpha|beta"))}, "[alpha beta]"},
		"regex, part":   {[]*matcherv3.NodeMatcher{id(regex("alph"))}, "[]"},
		"regex, wrong":  {[]*matcherv3.NodeMatcher{id(exact("a")), id(regex("a)|(b"))}, "node_matchers[1]: node_id: safe_regex"},
		"or":            {[]*matcherv3.NodeMatcher{id(exact("alpha")), id(exact("gamma"))}, "[alpha gamma]"},
		"metadata":      {[]*matcherv3.NodeMatcher{meta(str("east"), "where", "region")}, "[alpha beta]"},
		"and":           {[]*matcherv3.NodeMatcher{both}, "[beta]"},
		"no such path":  {[]*matcherv3.NodeMatcher{meta(str("east"), "where", "zone")}, "[]"},
		"other kind":    {[]*matcherv3.NodeMatcher{meta(str("1"), "n")}, "[]"},
		"number":        {[]*matcherv3.NodeMatcher{meta(num(one), "n")}, "[alpha]"},
		"empty range":   {[]*matcherv3.NodeMatcher{meta(num(between), "n")}, "[]"},
		"empty path":    {[]*matcherv3.NodeMatcher{meta(str("east"))}, "node_matchers[0]: node_metadatas[0]: path"},
		"no value":      {[]*matcherv3.NodeMatcher{meta(nil, "n")}, "node_matchers[0]: node_metadatas[0]: value"},
		"no pattern":    {[]*matcherv3.NodeMatcher{id(&matcherv3.StringMatcher{})}, "node_matchers[0]: node_id"},
		"present":       {[]*matcherv3.NodeMatcher{meta(&matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_PresentMatch{PresentMatch: true}}, "n")}, "[alpha]"},
		"null":          {[]*matcherv3.NodeMatcher{meta(&matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_NullMatch_{}}, "nothing")}, "[gamma]"},
		"bool":          {[]*matcherv3.NodeMatcher{meta(&matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_BoolMatch{BoolMatch: true}}, "b")}, "[beta]"},
		"list is asked": {[]*matcherv3.NodeMatcher{meta(&matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{}}, "b")}, "node_matchers[0]: node_metadatas[0]: value"},
	}
	bubble(t, nil, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		for id, md := range map[string]map[string]any{
			"alpha": {"where": map[string]any{"region": "east"}, "n": 1}, "beta": {"where": map[string]any{"region": "east"}, "b": true}, "gamma": {"nothing": nil},
		} {
			s, err := structpb.NewStruct(md)
			if err != nil {
				t.Fatal(err)
			}
			d := h.delta()
			d.send(&discoveryv3.DeltaDiscoveryRequest{Node: &corev3.Node{Id: id, Metadata: s}, TypeUrl: xds.ClusterType})
			d.must()
		}
		for name, tt := range tests {
			r, err := statusv3.NewClientStatusDiscoveryServiceClient(h.conn()).FetchClientStatus(h.ctx, &statusv3.ClientStatusRequest{NodeMatchers: tt.list})
			if strings.HasPrefix(tt.want, "node_matchers") {
				if status.Code(err) != codes.InvalidArgument || !strings.HasPrefix(status.Convert(err).Message(), tt.want) {
					t.Errorf("%s: %v, want %s", name, err, tt.want)
				}
				continue
			}
			var ids []string
			for _, c := range r.GetConfig() {
				ids = append(ids, c.GetNode().GetId())
			}
			slices.Sort(ids)
			if got := fmt.Sprint(ids); err != nil || got != tt.want {
				t.Errorf("%s: %s, %v; want %s", name, got, err, tt.want)
			}
		}
	})
}

// Clients tells of every stream what Client says.
func TestClients(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		h.setIn("test", res(xds.ClusterType, "c", "1"))
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType)
		s.must()
		d := h.deltaOn(cdsDelta)
		d.subscribe(node("d"), xds.ClusterType, "c", "x")
		d.must()
		list := h.srv.Clients()
		if len(list) != 2 {
			t.Fatalf("%d clients", len(list))
		}
		a, b := list[0], list[1]
		if a.Variant != "sotw" || !a.Aggregated || a.Group != "test" || a.Node.ID != "s" || a.Peer == "" || a.ID == b.ID || !a.Connected.Equal(time.Now()) {
			t.Errorf("first client %+v", a)
		}
		if b.Variant != "delta" || b.Aggregated || b.Types[0].Names != 2 || b.Types[0].Wildcard || !a.Types[0].Wildcard || a.Types[0].State != xdsserver.Stale {
			t.Errorf("second client %+v", b)
		}
	})
}
