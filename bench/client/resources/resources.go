// Package resources is what the server of the comparison holds: clusters and an
// assignment for each, numbered, as every client under test accepts them.
package resources

import (
	"fmt"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Type URLs.
const (
	ClusterType    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	AssignmentType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// NameFormat makes the name of a cluster and of its assignment from its number.
const NameFormat = "outbound|8080||svc-%05d.default.svc.cluster.local"

const endpoints = 5

// Name names cluster i and its assignment.
func Name(i int) string { return fmt.Sprintf(NameFormat, i) }

// Cluster is cluster i; its connect timeout carries the generation, so that
// each generation differs from the others.
func Cluster(i, generation int) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 Name(i),
		ConnectTimeout:       durationpb.New(time.Second + time.Duration(generation)*time.Millisecond),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{EdsConfig: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}},
	}
}

// Assignment is five endpoints of cluster i in one locality.
func Assignment(i int) *endpointv3.ClusterLoadAssignment {
	locality := &endpointv3.LocalityLbEndpoints{
		Locality:            &corev3.Locality{Region: "r1", Zone: "z1"},
		LoadBalancingWeight: wrapperspb.UInt32(1),
	}
	for host := range endpoints {
		locality.LbEndpoints = append(locality.LbEndpoints, endpoint(i, host+1))
	}
	return &endpointv3.ClusterLoadAssignment{ClusterName: Name(i), Endpoints: []*endpointv3.LocalityLbEndpoints{locality}}
}

func endpoint(cluster, host int) *endpointv3.LbEndpoint {
	address := "10." + strconv.Itoa(cluster>>8&255) + "." + strconv.Itoa(cluster&255) + "." + strconv.Itoa(host)
	return &endpointv3.LbEndpoint{
		HealthStatus: corev3.HealthStatus_HEALTHY,
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address:       address,
				PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
			}}},
		}},
	}
}
