// Package grpcconn speaks the client's side of gRPC's streaming calls over one
// connection: the codec internal/dataplane/http2, with sockets, time and
// goroutines around it.
//
// It is made for few streams with little traffic, where most of what a message
// costs is waking threads. So no goroutine stands between the socket and who
// waits for a message: of those in Stream.Recv one reads the connection for
// all (the leader), and another takes over when it leaves with its message.
// When nobody has been in Recv for a while, a goroutine stands in for them, so
// that pings are answered and windows followed whatever the users of the
// streams do. What is sent is written by who sends it, as far as the socket
// takes it without waiting; the rest is written by a goroutine that ends with it.
//
// Source: gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), RFC 9113.
package grpcconn
