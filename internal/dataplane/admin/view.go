package admin

import (
	"context"
	"log/slog"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

// View is what the endpoints show, and what they make happen. All methods are
// safe for concurrent use, and none is called on a worker.
type View interface {
	// Info is /server_info, the state among it, which /ready tells too.
	Info() *adminv3.ServerInfo
	// Statistics are those of now; they end with ctx.
	Statistics(ctx context.Context) (*stats.Snapshot, error)
	// ResetCounters is /reset_counters.
	ResetCounters(ctx context.Context) error
	// Clusters are the clusters in the order they are shown.
	Clusters(ctx context.Context) ([]cluster.View, error)
	// Listeners are the listeners with the addresses they are bound to.
	Listeners() []*adminv3.ListenerStatus
	// Dumps are the parts of /config_dump in their order, such as
	// envoy.admin.v3.ClustersConfigDump; the endpoints only if they are wanted.
	// The caller may change them and takes the secrets out.
	Dumps(ctx context.Context, endpoints bool) ([]proto.Message, error)
	// Unready is /init_dump.
	Unready() []*adminv3.UnreadyTargetsDumps_UnreadyTargetsDump
	// ClientStatus is what the proxy as a client of xDS holds (CSDS).
	ClientStatus(ctx context.Context, o clientstatus.Options) ([]*statusv3.ClientConfig, error)
	// Certificates is /certs.
	Certificates() *adminv3.Certificates
	// Memory is /memory.
	Memory() *adminv3.Memory
	// Runtime are the runtime keys of now.
	Runtime() *layeredruntime.Snapshot
	// ModifyRuntime sets keys of the admin layer, or takes them out where the
	// value is empty; layeredruntime.ErrNoAdminLayer if there is none.
	ModifyRuntime(values map[string]string) error
	// ReopenLogs opens the access logs, and the program's log, anew.
	ReopenLogs() error
	// FailHealthCheck is /healthcheck/fail, or /healthcheck/ok.
	FailHealthCheck(fail bool)
	// DrainListeners is /drain_listeners. It does not wait.
	DrainListeners(o Drain)
	// Quit ends the proxy in order. It does not wait.
	Quit()
}

// Drain says how listeners are to be drained.
type Drain struct {
	// InboundOnly leaves those alone whose traffic_direction is not INBOUND.
	InboundOnly bool
	// Graceful lets connections end in order first, in the drain time.
	Graceful bool
	// SkipExit goes on accepting after that.
	SkipExit bool
}

// Levels are the log levels of components. Safe for concurrent use.
type Levels interface {
	Level(component string) slog.Level
	Set(component string, l slog.Level)
	SetAll(l slog.Level)
}
