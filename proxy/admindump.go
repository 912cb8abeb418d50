package proxy

import (
	"context"
	"fmt"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// Dumps implements admin.View (AD-08). Nothing in the dumps is shared with the
// proxy.
func (v view) Dumps(_ context.Context, endpoints bool) ([]proto.Message, error) {
	d := &dumper{p: v.p, at: timestamppb.New(v.p.epoch), state: v.p.res.present()}
	out := []proto.Message{d.bootstrap(), d.clusters()}
	if len(d.state.extensions) > 0 { // as in Envoy, where others are always there
		out = append(out, d.extensions())
	}
	if endpoints {
		out = append(out, d.endpoints())
	}
	out = append(out, d.listeners(), d.scopes(), d.routes(), d.secrets())
	return out, d.err
}

// dumper gathers the configuration; it keeps the first error.
type dumper struct {
	p   *Proxy
	at  *timestamppb.Timestamp // when the bootstrap was loaded
	err error

	state *present
}

func (d *dumper) any(m proto.Message) *anypb.Any {
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil && d.err == nil {
		d.err = fmt.Errorf("config_dump: %w", err)
	}
	return a
}

func (d *dumper) bootstrap() *adminv3.BootstrapConfigDump {
	b := &bootstrapv3.Bootstrap{}
	proto.Merge(b, d.p.cfg)
	b.Node = d.p.node()
	return &adminv3.BootstrapConfigDump{Bootstrap: b, LastUpdated: d.at}
}

func (d *dumper) clusters() *adminv3.ClustersConfigDump {
	out := &adminv3.ClustersConfigDump{VersionInfo: d.state.versions[ClusterType]}
	for i := range d.state.clusters {
		s := &d.state.clusters[i]
		if s.static {
			out.StaticClusters = append(out.StaticClusters, &adminv3.ClustersConfigDump_StaticCluster{Cluster: d.any(s.active.Config()), LastUpdated: d.at})
			continue
		}
		if s.active != nil {
			out.DynamicActiveClusters = append(out.DynamicActiveClusters, d.cluster(s.active, s.rejected))
		}
		if s.warming != nil {
			out.DynamicWarmingClusters = append(out.DynamicWarmingClusters, d.cluster(s.warming, s.rejected))
		}
		if s.active == nil && s.warming == nil && s.rejected != nil {
			out.DynamicWarmingClusters = append(out.DynamicWarmingClusters, &adminv3.ClustersConfigDump_DynamicCluster{ErrorState: d.failure(s.rejected)})
		}
	}
	return out
}

func (d *dumper) cluster(e *clusterEntry, rejected *failure) *adminv3.ClustersConfigDump_DynamicCluster {
	return &adminv3.ClustersConfigDump_DynamicCluster{
		VersionInfo: e.version, Cluster: d.any(e.Config()), LastUpdated: timestamppb.New(e.at), ErrorState: d.failure(rejected),
	}
}

// failure is what was refused last, nil if nothing was since the last success.
func (d *dumper) failure(f *failure) *adminv3.UpdateFailureState {
	if f == nil {
		return nil
	}
	out := &adminv3.UpdateFailureState{LastUpdateAttempt: timestamppb.New(f.at), Details: f.err.Error(), VersionInfo: f.version}
	if f.config != nil {
		out.FailedConfiguration = d.any(f.config)
	}
	return out
}

func (d *dumper) listeners() *adminv3.ListenersConfigDump {
	out := &adminv3.ListenersConfigDump{VersionInfo: d.state.versions[ListenerType]}
	for i := range d.state.listeners {
		s := &d.state.listeners[i]
		if s.static {
			out.StaticListeners = append(out.StaticListeners, &adminv3.ListenersConfigDump_StaticListener{Listener: d.any(s.active.Config), LastUpdated: d.at})
			continue
		}
		out.DynamicListeners = append(out.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{
			Name: s.name, ActiveState: d.listener(s.active), WarmingState: d.listener(s.warming), ErrorState: d.failure(s.rejected),
		})
	}
	for _, l := range d.state.draining {
		out.DynamicListeners = append(out.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{Name: l.Name, DrainingState: d.listener(l)})
	}
	return out
}

func (d *dumper) listener(l *listenerEntry) *adminv3.ListenersConfigDump_DynamicListenerState {
	if l == nil {
		return nil
	}
	return &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: l.version, Listener: d.any(l.Config), LastUpdated: timestamppb.New(l.at)}
}

// active calls f with the listeners in force, and since when they are.
func (d *dumper) active(f func(l *listenerEntry, at *timestamppb.Timestamp)) {
	for i := range d.state.listeners {
		s := &d.state.listeners[i]
		if s.active == nil {
			continue
		}
		at := d.at
		if !s.static {
			at = timestamppb.New(s.active.at)
		}
		f(s.active, at)
	}
}

func (d *dumper) routes() *adminv3.RoutesConfigDump {
	out := &adminv3.RoutesConfigDump{}
	d.active(func(l *listenerEntry, at *timestamppb.Timestamp) {
		for _, r := range l.tables() {
			out.StaticRouteConfigs = append(out.StaticRouteConfigs, &adminv3.RoutesConfigDump_StaticRouteConfig{RouteConfig: d.any(r), LastUpdated: at})
		}
	})
	for i := range d.state.routes {
		s := &d.state.routes[i]
		c := &adminv3.RoutesConfigDump_DynamicRouteConfig{VersionInfo: s.version, ErrorState: d.failure(s.rejected)}
		if s.last != nil {
			c.RouteConfig, c.LastUpdated = d.any(s.last), timestamppb.New(s.at)
		}
		if s.last != nil || s.rejected != nil {
			out.DynamicRouteConfigs = append(out.DynamicRouteConfigs, c)
		}
	}
	return out
}

func (d *dumper) secrets() *adminv3.SecretsConfigDump {
	out := &adminv3.SecretsConfigDump{}
	for _, s := range d.p.secrets {
		out.StaticSecrets = append(out.StaticSecrets, &adminv3.SecretsConfigDump_StaticSecret{Name: s.GetName(), Secret: d.any(s)})
	}
	for i := range d.state.secrets {
		s := &d.state.secrets[i]
		c := &adminv3.SecretsConfigDump_DynamicSecret{Name: s.name, VersionInfo: s.version, ErrorState: d.failure(s.rejected)}
		if s.last == nil {
			c.Secret = d.any(&tlsv3.Secret{Name: s.name})
			out.DynamicWarmingSecrets = append(out.DynamicWarmingSecrets, c)
			continue
		}
		c.Secret, c.LastUpdated = d.any(s.last), timestamppb.New(s.at)
		out.DynamicActiveSecrets = append(out.DynamicActiveSecrets, c)
	}
	return out
}

// extensions are the filters' configurations that came.
func (d *dumper) extensions() *adminv3.EcdsConfigDump {
	out := &adminv3.EcdsConfigDump{}
	for i := range d.state.extensions {
		s := &d.state.extensions[i]
		c := &adminv3.EcdsConfigDump_EcdsFilterConfig{VersionInfo: s.version, ErrorState: d.failure(s.rejected)}
		if s.last != nil {
			c.EcdsFilter, c.LastUpdated = d.any(s.last), timestamppb.New(s.at)
		}
		if s.last != nil || s.rejected != nil {
			out.EcdsFilters = append(out.EcdsFilters, c)
		}
	}
	return out
}

// endpoints are the hosts as they are now, those that DNS found too.
func (d *dumper) endpoints() *adminv3.EndpointsConfigDump {
	out := &adminv3.EndpointsConfigDump{}
	for i := range d.state.clusters {
		s := &d.state.clusters[i]
		if s.active == nil {
			continue
		}
		name := s.active.Name()
		if service, _, ok := s.active.EDS(); ok {
			name = service
		}
		hosts := d.any(assignmentOf(name, s.active.Hosts(), s.active.Drop()))
		if s.static {
			out.StaticEndpointConfigs = append(out.StaticEndpointConfigs, &adminv3.EndpointsConfigDump_StaticEndpointConfig{EndpointConfig: hosts})
			continue
		}
		c := &adminv3.EndpointsConfigDump_DynamicEndpointConfig{EndpointConfig: hosts}
		if eds := d.state.endpoints[s.active]; eds != nil {
			c.ErrorState = d.failure(eds)
		}
		out.DynamicEndpointConfigs = append(out.DynamicEndpointConfigs, c)
	}
	return out
}

func assignmentOf(name string, hosts *cluster.HostSet, drop cluster.Drop) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Policy: &endpointv3.ClusterLoadAssignment_Policy{
			OverprovisioningFactor: wrapperspb.UInt32(hosts.OverprovisioningFactor),
		},
	}
	if n := drop.PerMillion(); n > 0 {
		out.Policy.DropOverloads = []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{{
			Category: drop.Category, DropPercentage: &typev3.FractionalPercent{Numerator: n, Denominator: typev3.FractionalPercent_MILLION},
		}}
	}
	for priority := range hosts.Priorities {
		for _, l := range hosts.Priorities[priority].Localities {
			e := &endpointv3.LocalityLbEndpoints{
				Locality: &corev3.Locality{Region: l.Locality.Region, Zone: l.Locality.Zone, SubZone: l.Locality.SubZone},
				Priority: uint32(priority), LoadBalancingWeight: wrapperspb.UInt32(l.Weight), //nolint:gosec // not negative
			}
			for _, h := range l.Hosts {
				e.LbEndpoints = append(e.LbEndpoints, endpointOf(h))
			}
			out.Endpoints = append(out.Endpoints, e)
		}
	}
	return out
}

func endpointOf(h *cluster.Host) *endpointv3.LbEndpoint {
	a := h.Attributes()
	health := corev3.HealthStatus_HEALTHY
	switch h.Health() {
	case cluster.Unhealthy:
		health = corev3.HealthStatus_UNHEALTHY
	case cluster.Degraded:
		health = corev3.HealthStatus_DEGRADED
	case cluster.Healthy:
	}
	address := h.Address()
	return &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: addressProto(&address), Hostname: h.Hostname(), HealthCheckConfig: &endpointv3.Endpoint_HealthCheckConfig{},
		}},
		HealthStatus: health, Metadata: a.Metadata, LoadBalancingWeight: wrapperspb.UInt32(a.Weight),
	}
}
