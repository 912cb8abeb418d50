//go:build interop

package e2e

import "testing"

// variant is one of the protocol's four ways to subscribe.
type variant struct {
	name string
	// wire is "sotw" or "delta".
	wire       string
	aggregated bool
}

func variants() []variant {
	return []variant{
		{name: "SotW-ADS", wire: "sotw", aggregated: true},
		{name: "delta-ADS", wire: "delta", aggregated: true},
		{name: "SotW-per-type", wire: "sotw"},
		{name: "delta-per-type", wire: "delta"},
	}
}

// forEachVariant runs a test for each way in which Envoy can subscribe.
func forEachVariant(t *testing.T, test func(t *testing.T, v variant)) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) { test(t, v) })
	}
}

// ads is the ConfigSource of what comes on an aggregated stream.
const ads = `{"ads": {}, "resource_api_version": "V3"}`

// source is the ConfigSource that resources name for what they refer to. It is
// JSON, to be put into a resource's YAML.
func (v variant) source() string {
	if v.aggregated {
		return ads
	}
	api := "GRPC"
	if v.wire == "delta" {
		api = "DELTA_GRPC"
	}
	return `{"resource_api_version": "V3", "api_config_source": {"api_type": "` + api + `", "transport_api_version": "V3",` +
		` "grpc_services": [{"envoy_grpc": {"cluster_name": "` + xdsCluster + `"}}]}}`
}
