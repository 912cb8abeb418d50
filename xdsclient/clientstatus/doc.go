// Package clientstatus tells what a client of xDS holds, by the
// ClientStatusDiscoveryService (CSDS, envoy/service/status/v3/csds.proto; gRFC
// A40, A71): the other half of what a management server says of its clients.
//
//	service := clientstatus.New(func(_ context.Context, o clientstatus.Options) ([]*statusv3.ClientConfig, error) {
//		return []*statusv3.ClientConfig{clientstatus.OfSource("my target", source, o)}, nil
//	})
//	statusv3.RegisterClientStatusDiscoveryServiceServer(grpcServer, service)
//
// `xebec status --server` and grpcdebug read it. Secrets are taken out of what is
// shown (XD-10); everything else is shown with the bytes that were received.
package clientstatus
