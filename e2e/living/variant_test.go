//go:build interop

package living

import (
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
)

// variant is a way in which a proxy gets its configuration.
type variant struct {
	name string
	// wire is "sotw" or "delta"; empty without a stream.
	wire string
	// ads says that one stream has everything.
	ads bool
	// ordered says that the server keeps the order that keeps traffic flowing;
	// else whoever makes changes keeps that order.
	ordered bool
	files   bool // no server: the proxy follows files
}

func variants() []variant {
	return []variant{
		{name: "delta-ADS", wire: "delta", ads: true, ordered: true},
		{name: "SotW-ADS", wire: "sotw", ads: true, ordered: true},
		{name: "delta-per-type", wire: "delta"},
		{name: "SotW-per-type", wire: "sotw"},
		{name: "REST"},
		{name: "files", files: true},
		{name: "delta-per-type-in-order", wire: "delta", ordered: true},
		{name: "SotW-per-type-in-order", wire: "sotw", ordered: true},
	}
}

// xdsCluster is the name of the management server in the bootstrap.
const xdsCluster = "xebec_xds"

// source is the ConfigSource of a resource. dir is where files are.
func (v variant) source(dir, typeURL, name string) *corev3.ConfigSource {
	api := &corev3.ApiConfigSource{TransportApiVersion: corev3.ApiVersion_V3}
	c := &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: api},
	}
	switch {
	case v.files:
		c.ConfigSourceSpecifier = &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: responseFile(dir, typeURL, name)}}
	case v.ads:
		c.ConfigSourceSpecifier = &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}
	case v.wire == "":
		api.ApiType, api.ClusterNames = corev3.ApiConfigSource_REST, []string{xdsCluster}
		api.RefreshDelay = durationpb.New(50 * time.Millisecond)
	default:
		api.ApiType = corev3.ApiConfigSource_GRPC
		if v.wire == "delta" {
			api.ApiType = corev3.ApiConfigSource_DELTA_GRPC
		}
		api.GrpcServices = []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: xdsCluster}}}}
	}
	return c
}

// responseFile is where a proxy without a server finds a resource: all clusters
// are in one file, all listeners in another, anything else in one of its own.
func responseFile(dir, typeURL, name string) string {
	// Envoy refuses a resource that names a file which is not there.
	kind := strconv.Itoa(rank(typeURL)) + "-" + strings.ToLower(xds.Kind(typeURL))
	if typeURL == xds.ClusterType || typeURL == xds.ListenerType {
		return filepath.Join(dir, kind+".json")
	}
	return filepath.Join(dir, kind+"-"+name+".json")
}
