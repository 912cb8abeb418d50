package xdsserver

import (
	"context"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv2 "github.com/envoyproxy/go-control-plane/envoy/service/status/v2"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/internal/apiv2"
	"github.com/xebec-proxy/xebec/xds"
)

// clientStatusV2 is CSDS in v2 (XV-08): for each subscription to listeners,
// clusters, routes or scoped routes its state and a dump of what the client holds.
// v2 has no place for other types.
type clientStatusV2 struct {
	statusv2.UnimplementedClientStatusDiscoveryServiceServer
	clients *clientStatus
}

// FetchClientStatus answers once.
func (c *clientStatusV2) FetchClientStatus(_ context.Context, req *statusv2.ClientStatusRequest) (*statusv2.ClientStatusResponse, error) {
	return c.respond(req)
}

// StreamClientStatus answers every request of the stream.
func (c *clientStatusV2) StreamClientStatus(st statusv2.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	return answerEach(st, c.respond)
}

func (c *clientStatusV2) respond(req *statusv2.ClientStatusRequest) (*statusv2.ClientStatusResponse, error) {
	var in statusv3.ClientStatusRequest
	if err := apiv2.RereadAll(req, &in); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	in.ExcludeResourceContents = false
	resp, err := c.clients.report(&in, perTypeInV2)
	if err != nil {
		return nil, err
	}
	to := &statusv2.ClientStatusResponse{}
	if err := apiv2.Reread(resp, to); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return to, nil
}

// perType fills the dump of one subscription: xds_config, which v3 has
// deprecated (XD-09). It is nil for a type that the message has no place for.
func (r *statusReport) perType(list []ResourceStatus, c *Client, t *TypeStatus) *statusv3.PerXdsConfig {
	p := &statusv3.PerXdsConfig{Status: statusv3.ConfigStatus(statusv3.ConfigStatus_value[t.State])}
	switch canonical(t.TypeURL) {
	case xds.ListenerType:
		p.PerXdsConfig = &statusv3.PerXdsConfig_ListenerConfig{ListenerConfig: r.listeners(list, c, t)}
	case xds.ClusterType:
		d := &adminv3.ClustersConfigDump{VersionInfo: t.AckedVersion}
		for _, x := range r.held(list, c, t) {
			d.DynamicActiveClusters = append(d.DynamicActiveClusters, &adminv3.ClustersConfigDump_DynamicCluster{
				VersionInfo: x.version, Cluster: x.body, LastUpdated: x.updated,
			})
		}
		p.PerXdsConfig = &statusv3.PerXdsConfig_ClusterConfig{ClusterConfig: d}
	case xds.RouteType:
		d := &adminv3.RoutesConfigDump{}
		for _, x := range r.held(list, c, t) {
			d.DynamicRouteConfigs = append(d.DynamicRouteConfigs, &adminv3.RoutesConfigDump_DynamicRouteConfig{
				VersionInfo: x.version, RouteConfig: x.body, LastUpdated: x.updated,
			})
		}
		p.PerXdsConfig = &statusv3.PerXdsConfig_RouteConfig{RouteConfig: d}
	case xds.ScopedRouteType:
		d := &adminv3.ScopedRoutesConfigDump{}
		for _, x := range r.held(list, c, t) {
			d.DynamicScopedRouteConfigs = append(d.DynamicScopedRouteConfigs, &adminv3.ScopedRoutesConfigDump_DynamicScopedRouteConfigs{
				Name: x.name, VersionInfo: x.version, ScopedRouteConfigs: []*anypb.Any{x.body}, LastUpdated: x.updated,
			})
		}
		p.PerXdsConfig = &statusv3.PerXdsConfig_ScopedRouteConfig{ScopedRouteConfig: d}
	case xds.EndpointType:
		if r.form == perTypeInV2 {
			return nil
		}
		d := &adminv3.EndpointsConfigDump{}
		for _, x := range r.held(list, c, t) {
			d.DynamicEndpointConfigs = append(d.DynamicEndpointConfigs, &adminv3.EndpointsConfigDump_DynamicEndpointConfig{
				VersionInfo: x.version, EndpointConfig: x.body, LastUpdated: x.updated,
			})
		}
		p.PerXdsConfig = &statusv3.PerXdsConfig_EndpointConfig{EndpointConfig: d}
	default:
		return nil
	}
	return p
}

func (r *statusReport) listeners(list []ResourceStatus, c *Client, t *TypeStatus) *adminv3.ListenersConfigDump {
	d := &adminv3.ListenersConfigDump{VersionInfo: t.AckedVersion}
	for _, x := range r.held(list, c, t) {
		l := &adminv3.ListenersConfigDump_DynamicListener{Name: x.name}
		state := &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: x.version, Listener: x.body, LastUpdated: x.updated}
		if x.refused == nil {
			l.ActiveState = state
		} else { // what the client holds instead is not known
			l.ErrorState = &adminv3.UpdateFailureState{
				FailedConfiguration: x.body, LastUpdateAttempt: timestamppb.New(x.refused.Time), Details: x.refused.Message,
			}
		}
		d.DynamicListeners = append(d.DynamicListeners, l)
	}
	return d
}

// heldResource is a resource that was sent.
type heldResource struct {
	name, version string
	body          *anypb.Any
	updated       *timestamppb.Timestamp
	refused       *Nack
}

func (r *statusReport) held(list []ResourceStatus, c *Client, t *TypeStatus) []heldResource {
	var out []heldResource
	for i := range list {
		res := &list[i]
		if res.resource == nil {
			continue
		}
		h := heldResource{name: res.Name, version: res.Version, body: r.dump(res.resource, t.TypeURL), refused: res.Nack}
		if at := lastUpdate(res, c, t); !at.Equal(time.Time{}) {
			h.updated = timestamppb.New(at)
		}
		if r.bare {
			h.body = nil
		}
		out = append(out, h)
	}
	return out
}

// withBuildVersion shows what a client of v2 calls its version (XV-07): in v2 in the
// field for it, which v3 does not know, else as the version.
func withBuildVersion(p *corev3.Node, version string, v2 bool) {
	const buildVersion = 5
	switch {
	case version == "":
	case v2:
		p.ProtoReflect().SetUnknown(stringField(nil, buildVersion, version))
	case p.GetUserAgentVersionType() == nil:
		p.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: version}
	}
}
