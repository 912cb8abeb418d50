// Package xdsserver serves snapshots of resources to xDS clients: every
// discovery service of the v3 protocol, aggregated and one stream per type,
// state of the world and delta, with client status (CSDS).
//
// A [Server] takes resources by [Server.Apply] (it is a source.Sink) and is
// registered on a grpc.Server that was built with [Server.GRPCOptions]. It
// follows the project's transport requirements (XS-00 to XS-95), except that
// streams of single types are not kept in order with one another (XS-75).
//
// Load reports and health discovery are servers of their own, in the packages
// below; they are registered on the same grpc.Server.
package xdsserver
