package proxyrun

import (
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
)

// Defaults of Flags, those of Envoy (BS-48, BS-49).
const (
	DefaultDrainTime          = 600 * time.Second
	DefaultShutdownTime       = 5 * time.Second // Xebec's own; Envoy leaves at once
	DefaultParentShutdownTime = 900 * time.Second
	DefaultFileFlushInterval  = 10 * time.Second
	DefaultFileFlushMinSize   = 64 << 10
)

// Flags are what the command line says, in the words of Envoy's flags.
type Flags struct {
	// ConfigPath is the bootstrap file, its format told by its suffix (BS-01);
	// ConfigYAML a bootstrap in YAML that is merged over it (BS-02). At least one
	// is needed.
	ConfigPath, ConfigYAML string
	// ServiceNode, ServiceCluster and ServiceZone override node.id, node.cluster
	// and node.locality.zone of the bootstrap unless empty (BS-22).
	ServiceNode, ServiceCluster, ServiceZone string
	// AllowUnknownStaticFields makes unknown fields of the bootstrap warnings
	// (BS-16).
	AllowUnknownStaticFields bool
	// RejectUnknownDynamicFields refuses discovered resources with unknown fields;
	// IgnoreUnknownDynamicFields does not warn of them (BS-17).
	RejectUnknownDynamicFields, IgnoreUnknownDynamicFields bool
	// SkipDeprecatedLogs leaves deprecated fields out of the warnings; they count
	// all the same.
	SkipDeprecatedLogs bool
	// DisableExtensions are the names of extensions to treat as unregistered.
	DisableExtensions []string
	// Concurrency is the number of workers; 0 for as many as the container, or
	// the machine, has processors for (BS-47).
	Concurrency int
	// NoIOURing makes the workers do without io_uring.
	NoIOURing bool
	// DrainTime is how long a removed listener's connections get;
	// DrainImmediately drains all of them at the start of it, not by and by.
	DrainTime        time.Duration
	DrainImmediately bool
	// ShutdownTime is how long requests under way get when the program is told to
	// end (HR-03): DrainTime if --drain-time-s is given, else DefaultShutdownTime.
	ShutdownTime time.Duration
	// ParentShutdownTime, RestartEpoch and BaseID belong to hot restart, of which
	// they are reported by the admin pages.
	ParentShutdownTime   time.Duration
	RestartEpoch, BaseID uint32
	// DisableHotRestart is as on the command line; hot restart is not built.
	DisableHotRestart bool
	// AdminAddressPath is a file that gets the address of the admin pages.
	AdminAddressPath string
	// LocalAddressIPv6 says to report an IPv6 address as the local one.
	LocalAddressIPv6 bool
	// FileFlushInterval and FileFlushMinSize (bytes) say when what is written to
	// access logs reaches their files.
	FileFlushInterval time.Duration
	FileFlushMinSize  int
	// StatsTags are tags of every statistic, as "name:value".
	StatsTags []string
	// Validate is --mode validate; it is for information, Check does it.
	Validate bool
	// LogLevel, ComponentLogLevel, LogFormat and LogPath are as given, for the
	// admin pages.
	LogLevel, ComponentLogLevel, LogFormat, LogPath string
}

// Environment is what loading asks the system for besides files.
type Environment struct {
	// LookupEnv answers for environment variables; nil means there are none.
	LookupEnv func(string) (string, bool)
	// Extensions are those of the program around, see support.Options.
	Extensions []string
}

// Options go from the command line to the proxy.
type Options struct {
	Flags Flags
	// Log gets everything there is to say. Never nil.
	Log *slog.Logger
	// Levels are the levels of Log, which the admin pages may change.
	Levels *Levels
	// Version is what the program says of itself.
	Version string
	// Arguments are the command line, for /server_info.
	Arguments []string
	// Catalog is what is built.
	Catalog *support.Catalog
	// ReopenLog opens the file of --log-path anew.
	ReopenLog func() error
}
