// Package healthdiscovery is a management server for delegated health checks:
// it implements envoy.service.health.v3.HealthDiscoveryService (HDS).
//
// A [Server] tells each client which endpoints to probe and how (a
// HealthCheckSpecifier from a [Provider]), tells it again when that changes
// ([Server.Refresh]), and keeps what it reports. [Server.Nodes] reads the
// results by client, [Server.ByCluster] by endpoint over all clients;
// [Server.Subscribe] delivers every report as it arrives.
//
// Memory is bounded by [Limits]. The results of a client that has been gone
// for the retention time are forgotten.
package healthdiscovery
