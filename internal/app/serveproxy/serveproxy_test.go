package serveproxy_test

import (
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/app/serveproxy"
)

func load(t *testing.T, f proxyrun.Flags) *proxyrun.Loaded {
	t.Helper()
	l, err := proxyrun.Load(f, proxyrun.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What the flags come to for package proxy, and that what --config-yaml holds is
// not shown.
func TestOptions(t *testing.T) {
	f := proxyrun.Flags{
		ConfigYAML: "{}", Concurrency: 3, NoIOURing: true, DrainTime: 7 * time.Second, ShutdownTime: 2 * time.Second, ParentShutdownTime: time.Second,
		FileFlushInterval: 3 * time.Second, FileFlushMinSize: 8 << 10, AdminAddressPath: "p", LogLevel: "debug", BaseID: 9,
		LocalAddressIPv6: true, DrainImmediately: true, DisableHotRestart: true, StatsTags: []string{"a:b"}, DisableExtensions: []string{"x"},
	}
	o := serveproxy.Options(load(t, f), proxyrun.Options{Flags: f, Version: "v1"}, serveproxy.Environment{})
	if o.Workers != 3 || !o.NoIOURing || o.DrainTime != 2*time.Second || o.LogFlushInterval != 3*time.Second || o.LogFlushSize != 8<<10 ||
		o.Version != "v1" || o.AdminAddressPath != "p" || o.Levels != nil || len(o.Extensions) == 0 {
		t.Errorf("%+v", o)
	}
	want := &adminv3.CommandLineOptions{
		BaseId: 9, Concurrency: 3, ConfigYaml: "[2 bytes]", AdminAddressPath: "p", LocalAddressIpVersion: adminv3.CommandLineOptions_v6,
		LogLevel: "debug", LogFormat: proxyrun.DefaultLogFormat, FileFlushInterval: durationpb.New(3 * time.Second), FileFlushMinSize: 8,
		DrainTime: durationpb.New(7 * time.Second), ParentShutdownTime: durationpb.New(time.Second), DrainStrategy: adminv3.CommandLineOptions_Immediate,
		DisableHotRestart: true, StatsTag: []string{"a:b"}, DisabledExtensions: []string{"x"},
	}
	if diff := cmp.Diff(want, o.CommandLine, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// Proves BS-52: a bootstrap that loads and cannot be built is refused, with the
// path of the field.
func TestBuilderRefuses(t *testing.T) {
	l := load(t, proxyrun.Flags{ConfigYAML: "{static_resources: {clusters: [{name: a}]}}"})
	build := serveproxy.Builder(serveproxy.Environment{})
	if _, err := build(l, proxyrun.Options{}); err != nil {
		t.Fatal(err)
	}
	l.Bootstrap.StaticResources.Clusters = append(l.Bootstrap.StaticResources.Clusters, l.Bootstrap.StaticResources.Clusters[0])
	if r, err := build(l, proxyrun.Options{}); err == nil || r != nil || err.Error() != "static_resources.clusters[1]: cluster manager: duplicate cluster 'a'" {
		t.Errorf("runner %v, error %v", r, err)
	}
}
