package serveproxy

import (
	"strconv"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

// commandLine is what /server_info shows of the flags. What --config-yaml gives
// may hold keys, so only that it was given is shown.
func commandLine(f proxyrun.Flags) *adminv3.CommandLineOptions {
	o := &adminv3.CommandLineOptions{
		BaseId: uint64(f.BaseID), Concurrency: uint32(f.Concurrency), ConfigPath: f.ConfigPath, //nolint:gosec // at most 1024
		AllowUnknownStaticFields: f.AllowUnknownStaticFields, RejectUnknownDynamicFields: f.RejectUnknownDynamicFields,
		IgnoreUnknownDynamicFields: f.IgnoreUnknownDynamicFields, AdminAddressPath: f.AdminAddressPath,
		LogLevel: f.LogLevel, ComponentLogLevel: f.ComponentLogLevel, LogFormat: f.LogFormat, LogPath: f.LogPath,
		ServiceCluster: f.ServiceCluster, ServiceNode: f.ServiceNode, ServiceZone: f.ServiceZone,
		FileFlushInterval: durationpb.New(f.FileFlushInterval), FileFlushMinSize: uint32(f.FileFlushMinSize >> 10), //nolint:gosec // from a uint32
		DrainTime: durationpb.New(f.DrainTime), ParentShutdownTime: durationpb.New(f.ParentShutdownTime),
		DisableHotRestart: f.DisableHotRestart, RestartEpoch: f.RestartEpoch, DisabledExtensions: f.DisableExtensions,
		StatsTag: f.StatsTags, SkipDeprecatedLogs: f.SkipDeprecatedLogs,
	}
	if f.ConfigYAML != "" {
		o.ConfigYaml = "[" + strconv.Itoa(len(f.ConfigYAML)) + " bytes]"
	}
	if o.LogFormat == "" {
		o.LogFormat = proxyrun.DefaultLogFormat
	}
	if f.LocalAddressIPv6 {
		o.LocalAddressIpVersion = adminv3.CommandLineOptions_v6
	}
	if f.DrainImmediately {
		o.DrainStrategy = adminv3.CommandLineOptions_Immediate
	}
	return o
}

// extensions are what the node says is built.
func extensions(l *proxyrun.Loaded) []*corev3.Extension {
	var out []*corev3.Extension
	for _, e := range l.Catalog.Extensions() {
		x := &corev3.Extension{Name: e.Name, Category: e.Category}
		for _, name := range e.Types {
			x.TypeUrls = append(x.TypeUrls, strings.TrimPrefix(name, "type.googleapis.com/"))
		}
		out = append(out, x)
	}
	return out
}
