package loadreport

import (
	"context"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

type statsStream = grpc.BidiStreamingServer[lrsv3.LoadStatsRequest, lrsv3.LoadStatsResponse]

// StreamLoadStats serves one stream. It is called by gRPC.
//
// The stream ends with INVALID_ARGUMENT if its first request has no node, a
// later one has another node, or a report is malformed; with
// RESOURCE_EXHAUSTED if it exceeds [Limits]; with UNAVAILABLE after
// [Server.Close]. A report is recorded whole or not at all. Bytes that are no
// LoadStatsRequest at all never get here: gRPC ends that stream with INTERNAL.
func (s *Server) StreamLoadStats(stream statsStream) error {
	in := reporting.Receive(stream, s.gate)
	first, ok, err := in.First()
	if !ok {
		return err
	}
	se, err := s.open(stream.Context(), first)
	if err != nil {
		return err
	}
	defer s.leave(se)
	log := s.log.With("node", se.info.ID)
	log.Debug("load report stream opened")
	err = s.serve(stream, se, first, in)
	log.Debug("load report stream ended", "err", err)
	return err
}

// open checks the first request and admits its node.
func (s *Server) open(ctx context.Context, first *lrsv3.LoadStatsRequest) (*session, error) {
	if first.GetNode() == nil {
		return nil, status.Error(codes.InvalidArgument, "the first request on a load report stream must have a node")
	}
	info := xds.NodeFromProto(first.GetNode())
	if err := s.gate.Admit(ctx, info); err != nil {
		return nil, err
	}
	return s.join(info)
}

// serve records the first request if it is a report already, then answers it,
// and goes on: it records reports and sends the configuration whenever it is
// replaced.
func (s *Server) serve(
	stream statsStream, se *session, first *lrsv3.LoadStatsRequest, in *reporting.Incoming[lrsv3.LoadStatsRequest],
) error {
	if len(first.GetClusterStats()) > 0 {
		if err := s.record(se, first); err != nil {
			return err
		}
	}
	return in.Serve(func() (<-chan struct{}, error) {
		now := s.current()
		return now.replaced, stream.Send(now.config.response(se.info))
	}, func(r *lrsv3.LoadStatsRequest) error { return s.record(se, r) })
}

func (s *Server) record(se *session, r *lrsv3.LoadStatsRequest) error {
	if n := r.GetNode(); n != nil && (reporting.Key{ID: n.GetId(), Cluster: n.GetCluster()}) != se.member.Key {
		return status.Errorf(codes.InvalidArgument,
			"the stream began as node %q and now says %q; open a stream per node", se.info.ID, n.GetId())
	}
	t, err := decode(r.GetClusterStats())
	if err != nil {
		s.log.Warn("malformed load report", "node", se.info.ID, "err", err)
		return status.Errorf(codes.InvalidArgument, "malformed load report: %v", err)
	}
	if err := se.member.State.record(se, t, s.limits, s.retention); err != nil {
		s.log.Warn("load report exceeds a limit", "node", se.info.ID, "err", err)
		return status.Errorf(codes.ResourceExhausted, "load report: %v", err)
	}
	s.subs.Deliver(func() Report { return Report{Node: se.info, Time: time.Now(), Clusters: t.export()} })
	return nil
}
