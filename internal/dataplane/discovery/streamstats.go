package discovery

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// streamStats are "grpc.<stat_prefix>." of a google_grpc service.
type streamStats struct {
	main   *stats.Main
	total  stats.Counter
	closed [codes.Unauthenticated + 1]stats.Counter // by code
}

func newStreamStats(r *stats.Registry, prefix string) *streamStats {
	scope := r.Scope("grpc." + prefix)
	s := &streamStats{main: r.Main(), total: scope.Counter("streams_total")}
	for code := range s.closed {
		s.closed[code] = scope.Counter("streams_closed_" + strconv.Itoa(code))
	}
	return s
}

func (s *streamStats) intercept(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s.main.Inc(s.total)
	stream, err := next(ctx, desc, cc, method, o...)
	if err != nil {
		s.ended(err)
		return nil, err
	}
	return &countedStream{ClientStream: stream, stats: s}, nil
}

func (s *streamStats) ended(err error) {
	code := status.Code(err)
	if errors.Is(err, io.EOF) {
		code = codes.OK
	}
	s.main.Inc(s.closed[min(code, codes.Unauthenticated)])
}

// countedStream counts how a stream ends.
type countedStream struct {
	grpc.ClientStream
	stats *streamStats
	once  sync.Once
}

// RecvMsg implements grpc.ClientStream. Its first error is the stream's end.
func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil {
		s.once.Do(func() { s.stats.ended(err) })
	}
	return err //nolint:wrapcheck // a stream's error is its status
}
