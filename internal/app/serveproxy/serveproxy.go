// Package serveproxy makes the data plane of the proxy's command line: it puts
// together what was loaded, what the flags say and package proxy.
package serveproxy

import (
	"io"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// Environment is what the proxy gets from the system.
type Environment struct {
	// LookupEnv answers for environment variables that the bootstrap names; nil
	// means there are none.
	LookupEnv func(string) (string, bool)
	// Stdout and Stderr are what access logs to /dev/stdout and /dev/stderr write
	// to; the process's if nil.
	Stdout, Stderr io.Writer
}

// Builder makes proxies of loaded bootstraps.
func Builder(env Environment) proxyrun.Build {
	return func(l *proxyrun.Loaded, o proxyrun.Options) (proxyrun.Runner, error) {
		p, err := proxy.New(l.Bootstrap, Options(l, o, env))
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller names the file
		}
		return p, nil
	}
}

// Options turns flags into the options of package proxy.
func Options(l *proxyrun.Loaded, o proxyrun.Options, env Environment) proxy.Options {
	f := o.Flags
	out := proxy.Options{
		Logger: o.Log, Workers: f.Concurrency, NoIOURing: f.NoIOURing, Getenv: env.LookupEnv, Stdout: env.Stdout, Stderr: env.Stderr,
		LogFlushInterval: f.FileFlushInterval, LogFlushSize: f.FileFlushMinSize,
		DrainTime: f.ShutdownTime, ListenerDrainTime: max(f.DrainTime, 1), DrainImmediately: f.DrainImmediately, Version: o.Version, ReopenLog: o.ReopenLog,
		AdminAddressPath: f.AdminAddressPath, CommandLine: commandLine(f), Extensions: extensions(l),
		RejectUnknownFields: f.RejectUnknownDynamicFields, IgnoreUnknownFields: f.IgnoreUnknownDynamicFields,
		Checked: true, UnknownFields: l.UnknownFields, DeprecatedUses: l.DeprecatedUses,
	}
	if o.Levels != nil {
		out.Levels = o.Levels
	}
	return out
}
