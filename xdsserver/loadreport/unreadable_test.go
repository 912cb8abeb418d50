package loadreport_test

import (
	"testing"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                      { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)     { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, out any) error { *out.(*[]byte) = b; return nil }

// The code is gRPC's choice: it ends a stream by itself when a message cannot
// be decoded.
func TestUnreadableBytesEndOnlyTheirStream(t *testing.T) {
	inBubble(t, func(b *bench) {
		good, _ := b.join(sendsAll("good"))
		defer good.Leave()
		stream, err := b.conn.NewStream(b.Context(), &lrsv3.LoadReportingService_ServiceDesc.Streams[0],
			lrsv3.LoadReportingService_StreamLoadStats_FullMethodName, grpc.ForceCodec(rawCodec{}))
		if err != nil {
			b.Fatal(err)
		}
		if err := stream.SendMsg([]byte{0xff}); err != nil {
			b.Fatal(err)
		}
		var answer []byte
		err = stream.RecvMsg(&answer)
		if status.Code(err) != codes.Internal {
			b.Errorf("the stream ended with %v", err)
		}
		good.report(full())
		if n := len(b.server.Loads()); n != 1 {
			b.Errorf("the good stream's report was not recorded: %d clusters", n)
		}
	})
}
