package healthdiscovery

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Locality is a place of endpoints.
type Locality struct {
	Region, Zone, SubZone string
}

// EndpointHealth is what one node says of one endpoint.
type EndpointHealth struct {
	// Cluster and Locality are empty if the node sent the deprecated flat list.
	Cluster string
	Locality
	// Address is "ip:port", a pipe's path, or "envoy_internal:name/id".
	Address string
	// Hostname is the endpoint's, if it has one.
	Hostname string
	Status   corev3.HealthStatus
	// Metadata is what the checker adds, such as an HTTP status. Read-only;
	// may be nil.
	Metadata *structpb.Struct
	// Since is when the node first reported this status without another one in
	// between.
	Since time.Time
}

// key identifies an endpoint within a report.
func (e *EndpointHealth) key() endpointKey {
	return endpointKey{e.Cluster, e.Locality, e.Address}
}

type endpointKey struct {
	cluster string
	Locality
	address string
}

// NodeHealth is what one node reported.
type NodeHealth struct {
	Checker
	// Streams is how many streams the node has open.
	Streams int
	// LastReport is when the newest report came; zero if none did.
	LastReport time.Time
	// Endpoints is the newest report, sorted by cluster, locality and address.
	// Read-only.
	Endpoints []EndpointHealth
}

// Observation is what one node says of an endpoint.
type Observation struct {
	// NodeID and NodeCluster identify the node.
	NodeID, NodeCluster string
	// Connected is false for a node that has gone but is still remembered.
	Connected bool
	Status    corev3.HealthStatus
	Metadata  *structpb.Struct
	// Since is as in EndpointHealth; Reported is when the node last said so.
	Since, Reported time.Time
}

// Endpoint is what all nodes say of one endpoint.
type Endpoint struct {
	Cluster string
	Locality
	Address, Hostname string
	// Observations is sorted by the nodes' ID and cluster.
	Observations []Observation
}

// Status is the status that most connected nodes report, and of those that
// equally many report the worst: draining counts as worse than unhealthy, then
// come timeout, degraded, unknown and healthy. It is UNKNOWN if no connected
// node reports the endpoint.
func (e *Endpoint) Status() corev3.HealthStatus {
	votes := map[corev3.HealthStatus]int{}
	for _, o := range e.Observations {
		if o.Connected {
			votes[o.Status]++
		}
	}
	winner := corev3.HealthStatus_UNKNOWN
	for s, n := range votes {
		if n > votes[winner] || n == votes[winner] && severity(s) > severity(winner) {
			winner = s
		}
	}
	return winner
}

func severity(s corev3.HealthStatus) int {
	switch s {
	case corev3.HealthStatus_DRAINING:
		return 5
	case corev3.HealthStatus_UNHEALTHY:
		return 4
	case corev3.HealthStatus_TIMEOUT:
		return 3
	case corev3.HealthStatus_DEGRADED:
		return 2
	case corev3.HealthStatus_HEALTHY:
		return 0
	}
	return 1
}
