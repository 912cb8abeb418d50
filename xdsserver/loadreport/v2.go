package loadreport

import (
	lrsv2 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v2"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
)

// inV2 is the service of v2 (XV-01), whose messages are those of v3 on the wire as
// far as they go.
func inV2() *grpc.ServiceDesc {
	d := lrsv3.LoadReportingService_ServiceDesc
	d.ServiceName, d.Metadata = lrsv2.LoadReportingService_ServiceDesc.ServiceName, lrsv2.LoadReportingService_ServiceDesc.Metadata
	return &d
}
