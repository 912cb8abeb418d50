package cli_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/cli"
)

// ended is a proxy that has nothing to do.
type ended struct{ err error }

func (e ended) Run(context.Context) error { return e.err }

func (ended) Reopen() {}

// proxy runs xebec proxy and returns what the proxy would have been built of.
func proxy(t *testing.T, r proxyrun.Runner, env map[string]string, args ...string) (built *proxyrun.Options, loaded *proxyrun.Loaded, code int, stderr string) {
	t.Helper()
	var errOut bytes.Buffer
	code = cli.Main(t.Context(), cli.Process{
		Args: append([]string{"proxy"}, args...), Stdout: &bytes.Buffer{}, Stderr: &errOut,
		LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		BuildProxy: func(l *proxyrun.Loaded, o proxyrun.Options) (proxyrun.Runner, error) {
			built, loaded = &o, l
			return r, nil
		},
	})
	return built, loaded, code, errOut.String()
}

// Proves BS-49 and the defaults of BS-47 and BS-48: what the flags come to.
func TestProxyFlags(t *testing.T) {
	o, _, code, stderr := proxy(t, ended{}, nil, "--config-yaml", "{}")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want := proxyrun.Flags{
		ConfigYAML: "{}", Concurrency: runtime.GOMAXPROCS(0), DrainTime: 10 * time.Minute, ShutdownTime: 5 * time.Second, ParentShutdownTime: 15 * time.Minute,
		FileFlushInterval: 10 * time.Second, FileFlushMinSize: 64 << 10, LogLevel: "info",
	}
	if diff := cmp.Diff(want, o.Flags); diff != "" {
		t.Errorf("defaults: %s", diff)
	}
	o, l, code, stderr := proxy(t, ended{}, map[string]string{"XEBEC_SERVICE_ZONE": "z"},
		"--config-yaml", "{}", "--concurrency", "3", "--drain-time-s", "7", "--drain-strategy", "immediate", "--parent-shutdown-time-s", "6",
		"--file-flush-interval-msec", "7", "--file-flush-min-size-kb", "8", "--service-node", "n", "--service-cluster", "c",
		"--local-address-ip-version", "v6", "--stats-tag", "a:b,c", "--disable-extensions", "x,y", "--skip-deprecated-logs",
		"--allow-unknown-fields", "--reject-unknown-dynamic-fields", "--ignore-unknown-dynamic-fields", "--admin-address-path", "p", "--base-id", "9", "--disable-hot-restart", "-l", "warning",
		"--component-log-level", "config:debug", "--log-format", "%v", "--no-io-uring")
	if code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want = proxyrun.Flags{
		ConfigYAML: "{}", ServiceNode: "n", ServiceCluster: "c", ServiceZone: "z", AllowUnknownStaticFields: true, SkipDeprecatedLogs: true,
		RejectUnknownDynamicFields: true, IgnoreUnknownDynamicFields: true,
		DisableExtensions: []string{"x", "y"}, Concurrency: 3, NoIOURing: true, DrainTime: 7 * time.Second, ShutdownTime: 7 * time.Second, DrainImmediately: true,
		ParentShutdownTime: 6 * time.Second, BaseID: 9, DisableHotRestart: true, AdminAddressPath: "p", LocalAddressIPv6: true,
		FileFlushInterval: 7 * time.Millisecond, FileFlushMinSize: 8 << 10, StatsTags: []string{"a:b,c"},
		LogLevel: "warning", ComponentLogLevel: "config:debug", LogFormat: "%v",
	}
	if diff := cmp.Diff(want, o.Flags); diff != "" {
		t.Errorf("given: %s", diff)
	}
	if n := l.Bootstrap.GetNode(); n.GetId() != "n" || n.GetCluster() != "c" || n.GetLocality().GetZone() != "z" {
		t.Errorf("node %v", n)
	}
	if o.Levels.Level("config") != -4 || o.Levels.Level("http") != 4 || o.Log == nil || o.Catalog == nil || len(o.Arguments) == 0 {
		t.Errorf("options %+v", o)
	}
}

// Warnings are logged in the wanted format; how the proxy ends is how the
// program ends.
func TestProxyRuns(t *testing.T) {
	_, _, code, stderr := proxy(t, ended{errors.New("bind failed")}, nil, "--config-yaml", "enable_dispatcher_stats: true", "--log-format", "%l %n: %v")
	if code != cli.ExitFailed || !strings.Contains(stderr, "xebec: bind failed") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if !strings.Contains(stderr, "warning config: accepted without effect: envoy.config.bootstrap.v3.Bootstrap.enable_dispatcher_stats") ||
		!strings.Contains(stderr, "at=--config-yaml:1:1") {
		t.Errorf("log: %s", stderr)
	}
	name := filepath.Join(t.TempDir(), "log")
	_, _, code, stderr = proxy(t, ended{}, nil, "--config-yaml", "enable_dispatcher_stats: true", "--log-path", name)
	log, err := os.ReadFile(name)
	if code != cli.ExitOK || stderr != "" || err != nil || !strings.Contains(string(log), "accepted without effect") {
		t.Errorf("exit code %d, stderr %q, log %q, error %v", code, stderr, log, err)
	}
	_, _, code, stderr = proxy(t, ended{}, nil, "--log-format", "%v", "--config-yaml", `application_log_config: {log_format: {text_format: "%v"}}`)
	if code != cli.ExitFailed || !strings.Contains(stderr, "Only one of application_log_config or CLI option --log-format can be specified.") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// Proves HR-06: the flags of hot restart are taken as far as they mean nothing, and
// a process that is to take over from another is refused.
func TestHotRestartFlags(t *testing.T) {
	for _, args := range [][]string{{"--base-id", "7"}, {"--disable-hot-restart"}, {"--base-id", "7", "--restart-epoch", "0"}} {
		if _, _, code, stderr := proxy(t, ended{}, nil, append(args, "--config-yaml", "{}")...); code != cli.ExitOK {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	_, _, code, stderr := proxy(t, ended{}, nil, "--base-id", "7", "--restart-epoch", "1", "--config-yaml", "{}")
	if code != cli.ExitUsage || !strings.Contains(stderr, "--restart-epoch 1: hot restart is not built; start a new process with epoch 0") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
