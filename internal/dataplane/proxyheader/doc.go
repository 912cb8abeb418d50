// Package proxyheader makes the PROXY headers with which connections to hosts
// begin: what the transport socket envoy.transport_sockets.upstream_proxy_protocol
// sends before anything of the socket within it
// (extensions/transport_sockets/proxy_protocol/v3/upstream_proxy_protocol.proto and
// config/core/v3/proxy_protocol.proto; spec TS-24).
//
// A [Config] is immutable and safe for concurrent use. What a header tells of is a
// [Source], the connection of a client; without one it tells of nobody, as in
// health checks.
package proxyheader
