package xdsclient

import (
	"runtime/debug"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
)

const modulePath = "github.com/xebec-proxy/xebec"

// completeNode fills in what the library says of itself (XC-37, GC-19 … GC-21),
// and warns of what servers commonly need.
func completeNode(c *Config) (n *corev3.Node, warnings []string) {
	n = &corev3.Node{}
	if c.Node != nil {
		n, _ = proto.Clone(c.Node).(*corev3.Node)
	}
	n.UserAgentName = c.UserAgent
	if n.GetUserAgentName() == "" {
		n.UserAgentName = defaultUserAgent
	}
	version := c.UserAgentVersion
	if version == "" {
		version = moduleVersion()
	}
	n.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: version}
	features := append([]string{xds.FeatureResourceTTL, xds.FeatureResourceInSotw}, c.Features...)
	slices.Sort(features)
	n.ClientFeatures = slices.Compact(features)
	if n.GetId() == "" {
		warnings = append(warnings, "no id: servers tell clients apart by it")
	}
	return n, warnings
}

// moduleVersion is the version of this module in the running program.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, m := range info.Deps {
		if m.Path == modulePath {
			version = m.Version
		}
	}
	if version == "" {
		return "devel"
	}
	return version
}
