package cli

import (
	"errors"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

const proxyHelp = `Runs a proxy on an Envoy bootstrap: the same file, the same flags, the same behaviour. -c names the file; .yaml, .yml,
.json, .pb (binary) and .pb_text (text) are understood. --config-yaml gives a bootstrap inline, or is merged over the file:
single values replace those of the file, lists are appended.

Nothing that is configured is silently ignored. A field or an extension of Envoy's API that this version does not have is
an error that names it, with file:line:column; the few fields that are accepted without effect give a warning. To see
whether a bootstrap will load, without opening a port or contacting anyone:

  xebec proxy --mode validate -c envoy.yaml

With dynamic_resources it takes clusters, endpoints, listeners and routes from a management server such as xebec serve, and
changes them without losing a request; "xebec bootstrap envoy" writes such a bootstrap.

SIGTERM and interrupt stop it in an orderly way: it is no longer ready, listeners are closed, requests under way get 5
seconds to finish (or as many as --drain-time-s says, if it is given), statistics and logs are flushed. A second signal
ends it at once. SIGUSR1 opens log files again after they were moved away; SIGHUP does nothing.

Log lines go to standard error, or to the file of --log-path. --log-format takes Envoy's patterns, such as "%l %n: %v", and
the words text and json.`

// proxyFlags are Envoy's flags and one of our own; those in seconds and so on are converted.
type proxyFlags struct {
	proxyrun.Flags
	mode, drainStrategy, ipVersion, disable string
	concurrency, drainSeconds, parentSecs   uint32
	flushMillis, flushKilobytes             uint32
	allowUnknown                            bool
	unbuilt                                 unbuiltFlags
}

func newProxy(p *Process) *cobra.Command {
	var f proxyFlags
	cmd := &cobra.Command{
		Use:   "proxy -c FILE",
		Short: "Run a proxy on an Envoy bootstrap",
		Long:  proxyHelp,
		Example: `  xebec proxy --mode validate -c envoy.yaml
  xebec proxy -c envoy.yaml --concurrency 4 -l warning
  xebec proxy -c envoy.yaml --config-yaml 'admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}'`,
		Version: thisBuild().String(),
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 0 {
				return nil // as in Envoy, what follows -- is ignored
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, p) },
	}
	f.flags(cmd)
	return cmd
}

func (f *proxyFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVarP(&f.ConfigPath, "config-path", "c", "", "bootstrap `file`")
	fl.StringVar(&f.ConfigYAML, "config-yaml", "", "bootstrap in `YAML`, merged over the file")
	fl.StringVar(&f.mode, "mode", "serve", "serve, or validate: check the configuration and exit")
	fl.BoolVar(&f.AllowUnknownStaticFields, "allow-unknown-static-fields", false, "make unknown fields of the bootstrap warnings")
	fl.BoolVar(&f.allowUnknown, "allow-unknown-fields", false, "the same (deprecated)")
	fl.BoolVar(&f.RejectUnknownDynamicFields, "reject-unknown-dynamic-fields", false, "refuse discovered resources with unknown fields")
	fl.BoolVar(&f.IgnoreUnknownDynamicFields, "ignore-unknown-dynamic-fields", false, "do not warn of them")
	fl.BoolVar(&f.SkipDeprecatedLogs, "skip-deprecated-logs", false, "do not warn of deprecated fields")
	fl.StringVar(&f.disable, "disable-extensions", "", "`names` of extensions to do without, separated by commas")
	fl.Uint32Var(&f.concurrency, "concurrency", 0, "number of `workers` (default: as many as processors may be used)")
	fl.BoolVar(&f.NoIOURing, "no-io-uring", false, "do not send by io_uring where the system has it (Xebec's own)")
	f.nodeFlags(cmd)
	f.logFlags(cmd)
	f.drainFlags(cmd)
	f.unbuilt.flags(cmd)
}

func (f *proxyFlags) nodeFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.ServiceNode, "service-node", "", "`id` of this proxy; over node.id of the bootstrap")
	fl.StringVar(&f.ServiceCluster, "service-cluster", "", "`name` of the proxies this is one of; over node.cluster")
	fl.StringVar(&f.ServiceZone, "service-zone", "", "`zone` this proxy runs in; over node.locality.zone")
	fl.StringVar(&f.AdminAddressPath, "admin-address-path", "", "write the address of the admin pages to this `file`")
	fl.StringVar(&f.ipVersion, "local-address-ip-version", "v4", "v4 or v6: which local address logs show")
	fl.StringArrayVar(&f.StatsTags, "stats-tag", nil, "`name:value` of a tag of every statistic; can be given again")
}

func (f *proxyFlags) logFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.LogLevel, "log-level", "l", "info", "trace, debug, info, warning, error, critical or off")
	fl.StringVar(&f.ComponentLogLevel, "component-log-level", "", "`levels` of components, such as upstream:debug,config:trace")
	fl.StringVar(&f.LogFormat, "log-format", "", "`pattern` of a log line, or text, or json (default \""+proxyrun.DefaultLogFormat+"\")")
	fl.StringVar(&f.LogPath, "log-path", "", "`file` for log lines; SIGUSR1 opens it again")
	fl.Uint32Var(&f.flushMillis, "file-flush-interval-msec", uint32(proxyrun.DefaultFileFlushInterval.Milliseconds()),
		"access logs reach their files after this many `milliseconds`")
	fl.Uint32Var(&f.flushKilobytes, "file-flush-min-size-kb", proxyrun.DefaultFileFlushMinSize>>10, "or when there are this many `kilobytes`")
}

func (f *proxyFlags) drainFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.Uint32Var(&f.drainSeconds, "drain-time-s", uint32(proxyrun.DefaultDrainTime.Seconds()), "`seconds` that connections of a drained listener get")
	fl.StringVar(&f.drainStrategy, "drain-strategy", "gradual", "gradual, or immediate: ask all of them to leave at once")
	fl.Uint32Var(&f.parentSecs, "parent-shutdown-time-s", uint32(proxyrun.DefaultParentShutdownTime.Seconds()), "reported only: hot restart is not built")
	fl.BoolVar(&f.DisableHotRestart, "disable-hot-restart", false, "accepted: hot restart is not built")
	fl.Uint32Var(&f.BaseID, "base-id", 0, "accepted: hot restart is not built")
	fl.Uint32Var(&f.RestartEpoch, "restart-epoch", 0, "0 only: hot restart is not built")
}

// unbuiltFlags are flags of Envoy that are refused by name.
type unbuiltFlags struct{ names []string }

// why says what to do instead of an unbuilt flag.
func (u *unbuiltFlags) why(name string) string {
	switch name {
	case "use-dynamic-base-id", "base-id-path", "socket-path", "socket-mode", "hot-restart-version",
		"skip-hot-restart-on-no-parent", "skip-hot-restart-parent-stats":
		return "it belongs to hot restart; leave it out"
	case "cpuset-threads":
		return "the number of workers follows the processors that may be used; leave it out, or set --concurrency"
	case "enable-core-dump":
		return "set GOTRACEBACK=crash in the environment"
	case "log-format-escaped", "log-stacktrace-single-entry":
		return "use --log-format json, whose lines are always whole"
	}
	return "leave it out"
}

func (u *unbuiltFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	switches := []string{
		"use-dynamic-base-id", "hot-restart-version", "skip-hot-restart-on-no-parent", "skip-hot-restart-parent-stats",
		"cpuset-threads", "enable-mutex-tracing", "enable-core-dump", "enable-fine-grain-logging", "log-format-escaped",
		"log-stacktrace-single-entry",
	}
	values := []string{"base-id-path", "socket-path", "socket-mode"}
	for _, name := range switches {
		fl.Bool(name, false, "not built")
	}
	for _, name := range values {
		fl.String(name, "", "not built")
	}
	u.names = slices.Concat(switches, values)
	for _, name := range u.names {
		fl.Lookup(name).Hidden = true
	}
}

func (u *unbuiltFlags) check(cmd *cobra.Command) error {
	for _, name := range u.names {
		if cmd.Flags().Changed(name) {
			return usageErrorf("--%s is not built: %s", name, u.why(name))
		}
	}
	return nil
}

// settled checks the flags that stand for themselves and fills the rest in.
func (f *proxyFlags) settled(cmd *cobra.Command) error {
	if err := f.unbuilt.check(cmd); err != nil {
		return err
	}
	switch {
	case f.mode != "serve" && f.mode != "validate":
		return usageErrorf("--mode %q is neither serve nor validate", f.mode)
	case f.drainStrategy != "gradual" && f.drainStrategy != "immediate":
		return usageErrorf("--drain-strategy %q is neither gradual nor immediate", f.drainStrategy)
	case f.ipVersion != "v4" && f.ipVersion != "v6":
		return usageErrorf("--local-address-ip-version %q is neither v4 nor v6", f.ipVersion)
	case f.RestartEpoch > 0:
		return usageErrorf("--restart-epoch %d: hot restart is not built; start a new process with epoch 0", f.RestartEpoch)
	case f.flushMillis == 0:
		return usageErrorf("--file-flush-interval-msec 0: give at least one millisecond")
	case f.concurrency > 1024:
		return usageErrorf("--concurrency %d: give 1024 workers at most", f.concurrency)
	}
	for _, t := range f.StatsTags {
		if name, value, ok := strings.Cut(t, ":"); !ok || !alphanumeric(name) || value == "" || strings.Contains(value, ".") {
			return usageErrorf("--stats-tag %q is no name:value of a name of letters and digits and a value without dots", t)
		}
	}
	f.Validate = f.mode == "validate"
	f.DrainImmediately = f.drainStrategy == "immediate"
	f.LocalAddressIPv6 = f.ipVersion == "v6"
	f.AllowUnknownStaticFields = f.AllowUnknownStaticFields || f.allowUnknown
	f.DrainTime = time.Duration(f.drainSeconds) * time.Second
	f.ShutdownTime = proxyrun.DefaultShutdownTime
	if cmd.Flags().Changed("drain-time-s") {
		f.ShutdownTime = f.DrainTime
	}
	f.ParentShutdownTime = time.Duration(f.parentSecs) * time.Second
	f.FileFlushInterval = time.Duration(f.flushMillis) * time.Millisecond
	f.FileFlushMinSize = int(f.flushKilobytes) << 10
	if f.Concurrency = int(f.concurrency); f.Concurrency == 0 {
		f.Concurrency = runtime.GOMAXPROCS(0)
	}
	if f.disable != "" {
		f.DisableExtensions = strings.Split(f.disable, ",")
	}
	return f.configFile()
}

// configFile checks the name of the bootstrap (BS-01, BS-02).
func (f *proxyFlags) configFile() error {
	if f.ConfigPath == "" {
		if f.ConfigYAML == "" {
			return &exitError{ExitUsage, proxyrun.ErrNoConfig}
		}
		return nil
	}
	switch strings.ToLower(path.Ext(f.ConfigPath)) {
	case ".yaml", ".yml", ".json", ".pb", ".pb_text":
		return nil
	}
	return usageErrorf("-c %s: the suffix says what is in a file, and this one is none of .yaml, .yml, .json, .pb and .pb_text", f.ConfigPath)
}

func alphanumeric(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return s != ""
}

func (f *proxyFlags) run(cmd *cobra.Command, p *Process) error {
	if err := f.settled(cmd); err != nil {
		return err
	}
	levels, err := proxyrun.NewLevels(f.LogLevel, f.ComponentLogLevel)
	if err != nil {
		return usageErrorf("%w", err)
	}
	o := proxyrun.Options{Flags: f.Flags, Levels: levels, Version: thisBuild().String(), Arguments: p.Args}
	env := proxyrun.Environment{LookupEnv: p.LookupEnv, Extensions: p.ProxyExtensions}
	err = proxyrun.Start(cmd.Context(), o, env, proxyrun.Streams{Stdout: p.Stdout, Stderr: p.Stderr}, p.BuildProxy)
	if pathErr, ok := errors.AsType[*os.PathError](err); ok && errors.Is(err, os.ErrNotExist) && pathErr.Path == f.ConfigPath {
		return usageErrorf("-c %s: there is no such file", f.ConfigPath)
	}
	return err
}
