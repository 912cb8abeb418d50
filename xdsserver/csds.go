package xdsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statusv2 "github.com/envoyproxy/go-control-plane/envoy/service/status/v2"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/internal/redact"
	"github.com/xebec-proxy/xebec/xds"
)

// clientStatus is CSDS over the server's streams and the clients that poll
// (envoy/service/status/v3/csds.proto).
type clientStatus struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer
	srv *Server
}

func (s *Server) registerStatus(r grpc.ServiceRegistrar) {
	c := &clientStatus{srv: s}
	statusv3.RegisterClientStatusDiscoveryServiceServer(r, c)
	statusv2.RegisterClientStatusDiscoveryServiceServer(r, &clientStatusV2{clients: c})
}

// FetchClientStatus answers once.
func (c *clientStatus) FetchClientStatus(_ context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	return c.respond(req)
}

// StreamClientStatus answers every request of the stream.
func (c *clientStatus) StreamClientStatus(st statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	return answerEach(st, c.respond)
}

// answerEach answers every request of a stream until the client ends it.
func answerEach[Q, A any](st interface {
	Recv() (*Q, error)
	Send(answer *A) error
}, respond func(*Q) (*A, error),
) error {
	for {
		req, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err //nolint:wrapcheck // a gRPC status
		}
		resp, err := respond(req)
		if err != nil {
			return err
		}
		if err := st.Send(resp); err != nil {
			return err //nolint:wrapcheck // a gRPC status
		}
	}
}

func (c *clientStatus) respond(req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	form := perResource
	if c.srv.cfg.perType {
		form = both
	}
	return c.report(req, form)
}

func (c *clientStatus) report(req *statusv3.ClientStatusRequest, form statusForm) (*statusv3.ClientStatusResponse, error) {
	match, err := newNodeMatcher(req.GetNodeMatchers())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	r := &statusReport{form: form, srv: c.srv, bare: req.GetExcludeResourceContents(), dumps: map[dumpKey]*anypb.Any{}}
	for _, x := range c.srv.everyone() {
		client := x.client()
		if !match.matches(client.Node) {
			continue
		}
		if err := r.add(x, &client); err != nil {
			return nil, err
		}
	}
	return &r.resp, nil
}

// maxStatusBytes bounds one answer, since it is made and sent as a whole.
const maxStatusBytes = 32 << 20

var errStatusTooLarge = newStatus(codes.ResourceExhausted,
	"the answer would be larger than 32 MiB; set exclude_resource_contents, or ask for fewer clients with node_matchers")

// statusReport is an answer in the making.
type statusReport struct {
	form  statusForm
	srv   *Server
	bare  bool
	resp  statusv3.ClientStatusResponse
	size  int
	dumps map[dumpKey]*anypb.Any // shared by the clients that have the same
}

// statusForm is what an answer holds of a client's resources.
type statusForm uint8

const (
	perResource statusForm = iota // generic_xds_configs
	both                          // and xds_config (XD-09)
	perTypeInV2                   // xds_config with what v2 has of it (XV-08)
)

// dumpKey is a resource, as v2 has it if v2 is set.
type dumpKey struct {
	res *xds.Resource
	v2  bool
}

// add adds one stream. The scope says what the node cannot: group, variant,
// stream.
func (r *statusReport) add(x *stream, c *Client) error {
	cfg := &statusv3.ClientConfig{Node: nodeProto(c.Node)}
	withBuildVersion(cfg.GetNode(), c.Node.BuildVersion, r.form == perTypeInV2)
	if r.form != perTypeInV2 {
		cfg.ClientScope = fmt.Sprintf("group=%s variant=%s ads=%t stream=%d", c.Group, c.Variant, c.Aggregated, c.ID)
	}
	r.resp.Config = append(r.resp.Config, cfg)
	r.size += proto.Size(cfg)
	for _, t := range c.Types {
		list := x.resources(t.TypeURL)
		if r.form != perResource {
			if p := r.perType(list, c, &t); p != nil {
				cfg.XdsConfig = append(cfg.XdsConfig, p) //nolint:staticcheck // what v2 has, and old tools read
				if r.size += proto.Size(p); r.size > maxStatusBytes {
					return errStatusTooLarge
				}
			}
		}
		if r.form == perTypeInV2 {
			continue
		}
		for _, res := range list {
			g := r.generic(&res, c, &t)
			if r.size += proto.Size(g); r.size > maxStatusBytes {
				return errStatusTooLarge
			}
			cfg.GenericXdsConfigs = append(cfg.GenericXdsConfigs, g)
		}
	}
	return nil
}

func (r *statusReport) generic(res *ResourceStatus, c *Client, t *TypeStatus) *statusv3.ClientConfig_GenericXdsConfig {
	g := &statusv3.ClientConfig_GenericXdsConfig{
		TypeUrl: res.TypeURL, Name: res.Name, VersionInfo: res.Version,
		ConfigStatus: statusv3.ConfigStatus(statusv3.ConfigStatus_value[res.State]),
	}
	if !t.Sent.IsZero() && res.State != NotSent {
		g.LastUpdated = timestamppb.New(lastUpdate(res, c, t))
	}
	if res.resource != nil && !r.bare {
		g.XdsConfig = r.dump(res.resource, t.TypeURL)
	}
	if res.Nack != nil {
		g.ErrorState = &adminv3.UpdateFailureState{
			Details: res.Nack.Message + origin(res), VersionInfo: res.Version, LastUpdateAttempt: timestamppb.New(res.Nack.Time),
			FailedConfiguration: g.GetXdsConfig(),
		}
	}
	return g
}

// dump is the resource with its secrets taken out, as the client was sent it that
// asked for a type URL.
func (r *statusReport) dump(res *xds.Resource, typeURL string) *anypb.Any {
	k := dumpKey{res, canonical(typeURL) != typeURL || r.form == perTypeInV2}
	a, ok := r.dumps[k]
	if !ok {
		a = dump(res)
		if k.v2 && a != nil {
			if v2, err := r.srv.toV2(a); err == nil { // else it is shown as it is
				a = v2
			}
		}
		r.dumps[k] = a
	}
	return a
}

func origin(r *ResourceStatus) string {
	if r.Origin.IsZero() {
		return ""
	}
	return " (from " + r.Origin.String() + ")"
}

// dump is the resource with its secrets taken out (XD-10). What cannot be
// looked into is not shown.
func dump(r *xds.Resource) *anypb.Any {
	m, err := messageOf(r)
	if err != nil {
		return nil
	}
	redact.Message(m.ProtoReflect())
	a, err := anypb.New(m)
	if err != nil {
		return nil
	}
	a.TypeUrl = r.BodyType()
	return a
}

// messageOf decodes a resource. A list collection is decoded as the one whose generated
// message has room for all entries, for all are alike on the wire.
func messageOf(r *xds.Resource) (proto.Message, error) {
	if r.BodyType() != xds.CollectionType(r.TypeURL()) {
		return r.Message() //nolint:wrapcheck // says it all
	}
	m := &listenerv3.ListenerCollection{}
	return m, proto.Unmarshal(r.Body(), m) //nolint:wrapcheck // says it all
}

func nodeProto(n *xds.Node) *corev3.Node {
	p := &corev3.Node{Id: n.ID, Cluster: n.Cluster, Metadata: n.Metadata, UserAgentName: n.UserAgent, ClientFeatures: n.Features}
	if n.Version != "" {
		p.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: n.Version}
	}
	if n.Region+n.Zone+n.SubZone != "" {
		p.Locality = &corev3.Locality{Region: n.Region, Zone: n.Zone, SubZone: n.SubZone}
	}
	return p
}

// lastUpdate is when the client got the resource as far as is known: when its
// content came to be, but not before the client came nor after the last
// response of the type.
func lastUpdate(r *ResourceStatus, c *Client, t *TypeStatus) time.Time {
	switch {
	case r.Updated.IsZero() || r.Updated.After(t.Sent):
		return t.Sent
	case r.Updated.Before(c.Connected):
		return c.Connected
	}
	return r.Updated
}
