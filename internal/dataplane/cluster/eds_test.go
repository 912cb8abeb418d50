package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"
)

func assignmentOf(t testing.TB, js string) *endpointv3.ClusterLoadAssignment {
	t.Helper()
	la := &endpointv3.ClusterLoadAssignment{}
	if err := protojson.Unmarshal([]byte(js), la); err != nil {
		t.Fatalf("%v in %s", err, js)
	}
	return la
}

const edsClusterJSON = `{"name": "c", "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}}`

// Proves CM-11 and CM-17 for EDS: hosts that stay are the same, with their
// counts; attributes, policy and localities change in one step; one that is gone
// is marked; what is equal changes nothing, what is bad neither.
func TestAssign(t *testing.T) {
	updates := 0
	c, reg := build(t, edsClusterJSON, func(o *Options) { o.OnUpdate = func(Update) { updates++ } })
	if name, _, ok := c.EDS(); !ok || name != "c" || c.isReady() {
		t.Fatal(name, ok, c.isReady())
	}
	assign := func(js string) error { return c.Assign(assignmentOf(t, js)) }
	endpoint := func(port int, more string) string {
		return fmt.Sprintf(`{"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}}}%s}`, port, more)
	}
	named := func(port int) string {
		return strings.Replace(endpoint(port, ""), `"address"`, `"hostname": "another.name", "address"`, 1)
	}
	group := func(list ...string) string {
		return `{"cluster_name": "c", "endpoints": [{"lb_endpoints": [` + strings.Join(list, ",") + `]}]}`
	}
	if err := assign(group(endpoint(1, ""), endpoint(2, ""), endpoint(1, ""), named(2))); err != nil || !c.isReady() {
		t.Fatal(err)
	}
	hosts := c.Hosts().Hosts()
	if len(hosts) != 2 {
		t.Fatalf("%v: an address counts once", hosts)
	}
	hosts[0].AddRqActive(3)
	if err := assign(group(endpoint(3, ""), endpoint(1, `, "load_balancing_weight": 7, "health_status": "DEGRADED"`))); err != nil {
		t.Fatal(err)
	}
	now := c.Hosts().Hosts()
	if len(now) != 2 || now[1] != hosts[0] || now[1].RqActive() != 3 || now[1].Weight() != 7 || now[1].Health() != Degraded {
		t.Errorf("%v", now)
	}
	if !hosts[1].Removed() || hosts[0].Removed() {
		t.Error("which hosts are gone")
	}
	set := c.Hosts()
	if err := assign(group(endpoint(3, ""), endpoint(1, `, "load_balancing_weight": 7, "health_status": "DEGRADED"`))); err != nil || c.Hosts() != set || updates != 2 {
		t.Errorf("%v: an equal assignment is a change (%d)", err, updates)
	}
	if err := assign(strings.Replace(group(endpoint(3, "")), `"endpoints"`, `"policy": {"overprovisioning_factor": 200, "drop_overloads": [{"category": "x", "drop_percentage": {"numerator": 100}}]}, "endpoints"`, 1)); err != nil {
		t.Fatal(err)
	}
	if c.Hosts().OverprovisioningFactor != 200 || c.Drop().Decide(0) != DropUnconditional {
		t.Error("the policy is not the assignment's")
	}
	set = c.Hosts()
	for _, bad := range []string{
		strings.Replace(group(endpoint(3, "")), "127.0.0.1", "a.name", 1),
		`{"cluster_name": "c", "policy": {"drop_overloads": [{"category": "x"}, {"category": "y"}]}}`,
	} {
		_, unread := c.ReadAssignment(assignmentOf(t, bad), nil)
		if err := assign(bad); err == nil || unread == nil || c.Hosts() != set {
			t.Errorf("%s: %v", bad, err)
		}
	}
	c.Stale()
	if len(c.Hosts().Hosts()) != 0 || c.Drop().Decide(0) != DropNot {
		t.Error("a stale assignment is in force")
	}
	s, err := reg.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := []uint64{s.Counter(c.Stats.UpdateSuccess), s.Counter(c.Stats.UpdateNoRebuild), s.Counter(c.Stats.Discovery.UpdateRejected), s.Counter(c.Stats.AssignmentStale)}
	if !slices.Equal(got, []uint64{4, 1, 2, 1}) {
		t.Errorf("update_success, update_no_rebuild, update_rejected, assignment_stale: %v", got)
	}
}

// Proves CM-17: however assignments follow one another, the hosts are those of
// the last one, and a host that stayed is the same.
func TestAssignKeepsIdentity(t *testing.T) {
	c, _ := build(t, edsClusterJSON)
	rapid.Check(t, func(rt *rapid.T) {
		before := map[string]*Host{}
		for _, h := range c.Hosts().Hosts() {
			before[h.String()] = h
		}
		ports := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 9), 0, 6, func(p uint32) uint32 { return p }).Draw(rt, "ports")
		la := &endpointv3.ClusterLoadAssignment{ClusterName: "c"}
		for _, p := range ports {
			la.Endpoints = append(la.Endpoints, &endpointv3.LocalityLbEndpoints{
				Priority: rapid.Uint32Range(0, 2).Draw(rt, "priority"),
				LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
					Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
						Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: p},
					}}},
				}}}},
			})
		}
		if err := c.Assign(la); err != nil {
			rt.Fatal(err)
		}
		hosts := c.Hosts().Hosts()
		if len(hosts) != len(ports) {
			rt.Fatalf("%d hosts of %d endpoints", len(hosts), len(ports))
		}
		for _, h := range hosts {
			if was := before[h.String()]; was != nil && was != h {
				rt.Fatalf("%s is another host than before", h)
			}
			if h.Removed() {
				rt.Fatalf("%s is marked as gone", h)
			}
			delete(before, h.String())
		}
		for _, h := range before {
			if !h.Removed() {
				rt.Fatalf("%s is gone and not marked", h)
			}
		}
	})
}

// Proves BS-25 for endpoints: who gives up waiting is ready, and counts it once.
func TestGiveUp(t *testing.T) {
	c, reg := build(t, edsClusterJSON)
	c.GiveUp()
	c.GiveUp()
	s, err := reg.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !c.isReady() || s.Counter(c.Stats.Discovery.InitFetchTimeout) != 1 || len(c.Hosts().Hosts()) != 0 {
		t.Error("not ready, or counted twice")
	}
}
