// Package resources is the configuration that every server under test serves:
// EDS clusters and their assignments, numbered, each at a generation that can
// be read back from its encoded form.
package resources

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Kind says which of the two resource types is meant.
type Kind int

// The kinds, in the order in which a client asks for them.
const (
	CDS Kind = iota
	EDS
	Kinds
)

// Type URLs of the kinds.
const (
	ClusterType    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	AssignmentType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

const (
	namePrefix = "outbound|8080||svc-"
	nameSuffix = ".default.svc.cluster.local"
	nameDigits = 5

	zones            = 2
	endpointsPerZone = 5
)

// String is the name of the kind's discovery service in lower case.
func (k Kind) String() string {
	if k == CDS {
		return "cds"
	}
	return "eds"
}

// TypeURL is the kind's type URL.
func (k Kind) TypeURL() string {
	if k == CDS {
		return ClusterType
	}
	return AssignmentType
}

// ParseKind is the inverse of String.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "cds":
		return CDS, nil
	case "eds":
		return EDS, nil
	}
	return 0, fmt.Errorf("kind %q: want cds or eds", s)
}

// KindOf finds the kind of a type URL.
func KindOf(typeURL []byte) (Kind, bool) {
	switch string(typeURL) {
	case ClusterType:
		return CDS, true
	case AssignmentType:
		return EDS, true
	}
	return 0, false
}

// Name names cluster i and its assignment; i is at most 99 999.
func Name(i int) string { return fmt.Sprintf("%s%0*d%s", namePrefix, nameDigits, i, nameSuffix) }

// Index is the inverse of Name; false if Name never returns the name.
func Index(name []byte) (int, bool) {
	const digits = len(namePrefix)
	if len(name) != digits+nameDigits+len(nameSuffix) || string(name[:digits]) != namePrefix ||
		string(name[digits+nameDigits:]) != nameSuffix {
		return 0, false
	}
	i := 0
	for _, c := range name[digits : digits+nameDigits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		i = i*10 + int(c-'0')
	}
	return i, true
}

// New is resource i of a kind at a generation.
func New(k Kind, i, gen int) proto.Message {
	if k == CDS {
		return Cluster(i, gen)
	}
	return Assignment(i, gen)
}

// Cluster is cluster i; its connect timeout carries the generation.
func Cluster(i, gen int) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 Name(i),
		ConnectTimeout:       durationpb.New(time.Second + time.Duration(gen)*time.Millisecond),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		LbPolicy:             clusterv3.Cluster_LEAST_REQUEST,
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}},
	}
}

// Assignment is the ten endpoints of cluster i in two zones; the weight of the
// zones carries the generation.
func Assignment(i, gen int) *endpointv3.ClusterLoadAssignment {
	cla := &endpointv3.ClusterLoadAssignment{ClusterName: Name(i)}
	for z := range zones {
		zone := &endpointv3.LocalityLbEndpoints{
			Locality:            &corev3.Locality{Region: "r1", Zone: "z" + strconv.Itoa(z)},
			LoadBalancingWeight: wrapperspb.UInt32(uint32(gen) + 1),
		}
		for e := range endpointsPerZone {
			zone.LbEndpoints = append(zone.LbEndpoints, endpoint(i, z*endpointsPerZone+e+1))
		}
		cla.Endpoints = append(cla.Endpoints, zone)
	}
	return cla
}

func endpoint(cluster, host int) *endpointv3.LbEndpoint {
	ip := []string{"10", strconv.Itoa(cluster >> 8 & 255), strconv.Itoa(cluster & 255), strconv.Itoa(host)}
	return &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address:       strings.Join(ip, "."),
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
		}}},
	}}}
}
