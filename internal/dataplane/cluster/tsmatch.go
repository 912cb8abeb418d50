package cluster

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TransportSocketMatch is one entry of transport_socket_matches.
type TransportSocketMatch struct {
	Name   string
	Socket *corev3.TransportSocket

	criteria map[string]*structpb.Value
}

const transportSocketMatchKey = "envoy.transport_socket_match"

// matchTransportSocket finds the entry for an endpoint, -1 if there is none
// (TS-23): the first whose criteria the endpoint's metadata meet, else the
// first that the locality's meet. Empty criteria are met by anything. Proven
// on Envoy: an entry the endpoint meets wins over an earlier one that only its
// locality meets.
func matchTransportSocket(matches []TransportSocketMatch, endpoint, locality *corev3.Metadata) int {
	for _, m := range []*corev3.Metadata{endpoint, locality} {
		fields := m.GetFilterMetadata()[transportSocketMatchKey].GetFields()
		for i := range matches {
			if meets(matches[i].criteria, fields) {
				return i
			}
		}
	}
	return -1
}

// MatchTransportSocket is the entry of [Cluster.TransportSocketMatches] that
// criteria select in place of an endpoint's metadata, or -1 (HK-09).
func (c *Cluster) MatchTransportSocket(criteria *structpb.Struct) int {
	for i := range c.matches {
		if meets(c.matches[i].criteria, criteria.GetFields()) {
			return i
		}
	}
	return -1
}

func meets(criteria, fields map[string]*structpb.Value) bool {
	for k, want := range criteria {
		have, ok := fields[k]
		if !ok || !proto.Equal(want, have) {
			return false
		}
	}
	return true
}
