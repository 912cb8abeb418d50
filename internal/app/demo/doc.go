// Package demo shows the whole system in one process on loopback: the
// management server on the files of examples/quickstart, two servers of a small
// gRPC service, a gRPC client that finds them by xDS, and a proxy for other
// clients, with and without TLS.
package demo
