package clientstatus

import (
	"errors"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/internal/redact"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// OfSource is what a source knows of each resource that was asked of it (XD-04).
// The scope becomes the client_scope (XD-06).
func OfSource(scope string, s *xdsclient.Source, o Options) *statusv3.ClientConfig {
	out := &statusv3.ClientConfig{Node: s.Node(), ClientScope: scope}
	list := s.Resources()
	for i := range list {
		out.GenericXdsConfigs = append(out.GenericXdsConfigs, ofResource(&list[i], o))
	}
	return out
}

// Resource is one that is in a client's bootstrap.
type Resource struct {
	Name    string
	Message proto.Message
}

// OfBootstrap is what a client has in its bootstrap: resources that no server can
// change (XD-06). The error is that of encoding.
func OfBootstrap(scope string, node *corev3.Node, list []Resource, o Options) (*statusv3.ClientConfig, error) {
	out := &statusv3.ClientConfig{Node: node, ClientScope: scope}
	for _, r := range list {
		a := &anypb.Any{}
		if err := anypb.MarshalFrom(a, r.Message, proto.MarshalOptions{Deterministic: true}); err != nil {
			return nil, err //nolint:wrapcheck // it names the message
		}
		g := &statusv3.ClientConfig_GenericXdsConfig{TypeUrl: a.GetTypeUrl(), Name: r.Name, IsStaticResource: true}
		g.XdsConfig = o.shown(a)
		out.GenericXdsConfigs = append(out.GenericXdsConfigs, g)
	}
	return out, nil
}

func ofResource(r *xdsclient.ResourceStatus, o Options) *statusv3.ClientConfig_GenericXdsConfig {
	g := &statusv3.ClientConfig_GenericXdsConfig{
		TypeUrl: r.TypeURL, Name: r.Name, VersionInfo: r.Version, ClientStatus: stateOf(r), XdsConfig: o.shown(r.Body),
	}
	if r.Held {
		g.LastUpdated = timestamppb.New(r.Updated)
	}
	// A server that is away is no failure of what is held.
	if r.Err != nil && g.GetClientStatus() != adminv3.ClientResourceStatus_ACKED {
		g.ErrorState = &adminv3.UpdateFailureState{
			Details: r.Err.Error(), LastUpdateAttempt: timestamppb.New(r.ErrAt), VersionInfo: r.Refused, FailedConfiguration: o.shown(r.RefusedBody),
		}
	}
	return g
}

// stateOf is the resource's state in the protocol's words (gRFC A40, A88).
func stateOf(r *xdsclient.ResourceStatus) adminv3.ClientResourceStatus {
	is := func(reason error) bool { return errors.Is(r.Err, reason) }
	switch {
	case is(xdsclient.ErrRejected):
		return adminv3.ClientResourceStatus_NACKED
	case is(xdsclient.ErrMissing), is(xdsclient.ErrExpired):
		return adminv3.ClientResourceStatus_DOES_NOT_EXIST
	case is(xdsclient.ErrRefused):
		return adminv3.ClientResourceStatus_RECEIVED_ERROR
	case is(xdsclient.ErrTimeout):
		return adminv3.ClientResourceStatus_TIMEOUT
	case !r.Held, is(xdsclient.ErrStored):
		return adminv3.ClientResourceStatus_REQUESTED
	}
	return adminv3.ClientResourceStatus_ACKED
}

// shown is a resource without its secrets: as it was received if there are none
// in it. What cannot be looked into is not shown.
func (o Options) shown(a *anypb.Any) *anypb.Any {
	if a == nil || o.ExcludeContents {
		return nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return nil
	}
	public := proto.Clone(m)
	redact.Message(public.ProtoReflect())
	if proto.Equal(m, public) {
		return a
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(public)
	if err != nil {
		return nil
	}
	return &anypb.Any{TypeUrl: a.GetTypeUrl(), Value: b}
}
