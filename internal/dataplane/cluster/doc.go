// Package cluster keeps the proxy's upstream clusters: their configuration,
// their hosts, DNS discovery, circuit breakers, statistics, and what the admin
// endpoint /clusters says of them.
//
// [New] turns an envoy.config.cluster.v3.Cluster into a [Cluster]. Its
// configuration never changes; its hosts are an immutable [HostSet] that is
// replaced as a whole. A [Host] keeps its identity while its address and
// hostname stay, so that connections, counters and active requests survive a
// change of weight, metadata, locality, priority or health.
//
// What Envoy's API describes and this package does not do is refused by the
// name of the field when the cluster is built.
package cluster
