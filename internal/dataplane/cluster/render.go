package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
)

// RenderText writes /clusters as text, line for line as Envoy does (AD-06).
func RenderText(w io.Writer, views []View) error {
	var b bytes.Buffer
	for i := range views {
		v := &views[i]
		fmt.Fprintf(&b, "%s::observability_name::%s\n", v.Name, v.ObservabilityName)
		v.Default.text(&b, v.Name, "default")
		v.High.text(&b, v.Name, "high")
		fmt.Fprintf(&b, "%s::added_via_api::%t\n", v.Name, v.AddedViaAPI)
		if v.EDSServiceName != "" {
			fmt.Fprintf(&b, "%s::eds_service_name::%s\n", v.Name, v.EDSServiceName)
		}
		for j := range v.Hosts {
			v.Hosts[j].text(&b, v.Name)
		}
		if _, err := b.WriteTo(w); err != nil {
			return fmt.Errorf("writing /clusters: %w", err)
		}
	}
	return nil
}

func (l *LimitsView) text(b *bytes.Buffer, name, priority string) {
	p := name + "::" + priority + "_priority::"
	fmt.Fprintf(b, "%smax_connections::%d\n%smax_pending_requests::%d\n", p, l.MaxConnections, p, l.MaxPendingRequests)
	fmt.Fprintf(b, "%smax_requests::%d\n%smax_retries::%d\n", p, l.MaxRequests, p, l.MaxRetries)
}

func (h *HostView) text(b *bytes.Buffer, name string) {
	line := func(key string, value any) { fmt.Fprintf(b, "%s::%s::%s::%v\n", name, h.Address.String(), key, value) }
	line("cx_active", h.Active.Cx)
	line("cx_connect_fail", h.Counts.CxConnectFail)
	line("cx_total", h.Counts.CxTotal)
	line("rq_active", h.Active.Rq)
	line("rq_error", h.Counts.RqError)
	line("rq_pending_active", h.Active.RqPending)
	line("rq_success", h.Counts.RqSuccess)
	line("rq_timeout", h.Counts.RqTimeout)
	line("rq_total", h.Counts.RqTotal)
	line("hostname", h.Hostname)
	line("health_flags", h.HealthFlagsText)
	line("weight", h.Weight)
	line("region", h.Locality.Region)
	line("zone", h.Locality.Zone)
	line("sub_zone", h.Locality.SubZone)
	line("canary", h.Canary)
	line("priority", h.Priority)
	line("success_rate", -1) // only outlier detection measures these two
	line("local_origin_success_rate", -1)
}

// RenderJSON writes /clusters?format=json: envoy.admin.v3.Clusters, laid out
// as Envoy does.
func RenderJSON(w io.Writer, views []View) error {
	out := &adminv3.Clusters{}
	for i := range views {
		out.ClusterStatuses = append(out.ClusterStatuses, views[i].proto())
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(out)
	if err != nil {
		return fmt.Errorf("/clusters as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", " "); err != nil {
		return fmt.Errorf("/clusters as JSON: %w", err)
	}
	b.WriteByte('\n')
	if _, err := b.WriteTo(w); err != nil {
		return fmt.Errorf("writing /clusters: %w", err)
	}
	return nil
}

func (v *View) proto() *adminv3.ClusterStatus {
	s := &adminv3.ClusterStatus{
		Name: v.Name, ObservabilityName: v.ObservabilityName, AddedViaApi: v.AddedViaAPI, EdsServiceName: v.EDSServiceName,
		CircuitBreakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{
			v.Default.proto(corev3.RoutingPriority_DEFAULT), v.High.proto(corev3.RoutingPriority_HIGH),
		}},
	}
	for i := range v.Hosts {
		s.HostStatuses = append(s.HostStatuses, v.Hosts[i].proto())
	}
	return s
}

func (l *LimitsView) proto(p corev3.RoutingPriority) *clusterv3.CircuitBreakers_Thresholds {
	u := func(n uint64) *wrapperspb.UInt32Value { return wrapperspb.UInt32(uint32(min(n, math.MaxUint32))) }
	return &clusterv3.CircuitBreakers_Thresholds{
		Priority: p, MaxConnections: u(l.MaxConnections), MaxPendingRequests: u(l.MaxPendingRequests),
		MaxRequests: u(l.MaxRequests), MaxRetries: u(l.MaxRetries),
	}
}

func (h *HostView) proto() *adminv3.HostStatus {
	health := h.EDSHealth
	switch health {
	case corev3.HealthStatus_TIMEOUT:
		health = corev3.HealthStatus_UNHEALTHY
	case corev3.HealthStatus_UNKNOWN:
		health = corev3.HealthStatus_HEALTHY
	}
	counter := func(name string, v uint64) *adminv3.SimpleMetric { return &adminv3.SimpleMetric{Name: name, Value: v} }
	gauge := func(name string, v int64) *adminv3.SimpleMetric {
		return &adminv3.SimpleMetric{Type: adminv3.SimpleMetric_GAUGE, Name: name, Value: nonNegative(v)}
	}
	has := func(f Flags) bool { return h.Flags&f != 0 }
	return &adminv3.HostStatus{
		Address: protoAddress(h.Address),
		Stats: []*adminv3.SimpleMetric{
			counter("cx_connect_fail", h.Counts.CxConnectFail), counter("cx_total", h.Counts.CxTotal),
			counter("rq_error", h.Counts.RqError), counter("rq_success", h.Counts.RqSuccess),
			counter("rq_timeout", h.Counts.RqTimeout), counter("rq_total", h.Counts.RqTotal),
			gauge("cx_active", h.Active.Cx), gauge("rq_active", h.Active.Rq), gauge("rq_pending_active", h.Active.RqPending),
		},
		HealthStatus: &adminv3.HostHealthStatus{
			EdsHealthStatus: health, FailedActiveHealthCheck: has(FailedActive), FailedActiveDegradedCheck: has(DegradedActive),
			PendingDynamicRemoval: has(PendingRemoval), PendingActiveHc: has(PendingActive),
			ExcludedViaImmediateHcFail: has(ExcludedByFailure), ActiveHcTimeout: has(ActiveTimeout),
		},
		Weight: h.Weight, Hostname: h.Hostname, Priority: h.Priority,
		Locality: &corev3.Locality{Region: h.Locality.Region, Zone: h.Locality.Zone, SubZone: h.Locality.SubZone},
	}
}

func protoAddress(a filter.Address) *corev3.Address {
	if a.Pipe != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Pipe}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.IP.Addr().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.IP.Port())},
	}}}
}
