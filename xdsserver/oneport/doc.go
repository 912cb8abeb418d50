// Package oneport lets a grpc.Server and an http.Server share one port.
//
// Connections are told apart by how they begin, once: a connection on HTTP/1.1
// belongs to the http.Server; one on HTTP/2 (h2 over TLS, or h2c with prior
// knowledge) belongs to whom its first request is for, by its content type. The
// grpc.Server keeps its own transport; what it reads and writes is not looked at
// any more. A connection on HTTP/2 that says nothing for a while, or that begins
// with anything but a request, is gRPC's. So one connection carries one of the
// two, and a client that polls and streams over HTTP/2 needs a connection for
// each; with Envoy that means two clusters.
package oneport
