package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/admin"
)

// LogLevels are the log levels of components, which are the values of the
// attribute "component" of log lines, in slog's numbers: trace is four below
// debug, critical four above error. Safe for concurrent use.
type LogLevels interface {
	Level(component string) slog.Level
	Set(component string, l slog.Level)
	SetAll(l slog.Level)
}

// componentKey is the attribute of log lines that says where they come from.
const componentKey = "component"

// components are the values of the attribute, as /logging lists them. Lines
// without it are of main.
func components() []string {
	return []string{"admin", "config", "connection", "file", "filter", "http", "main", "router", "stats", "upstream"}
}

// component is the logger of a component.
func (p *Proxy) component(name string) *slog.Logger {
	return p.log.With(slog.String(componentKey, name))
}

// adminServer is the admin endpoints on their own listener (AD-19).
type adminServer struct {
	p       *Proxy
	network string // "" without an admin listener
	address string
	mode    os.FileMode // of a UNIX socket; 0 leaves it
	server  *admin.Server
	ln      net.Listener

	logs  accesslog.Logs
	mu    sync.Mutex // guards lines and timer
	lines *accesslog.Worker
	timer *time.Timer
}

func (p *Proxy) buildAdmin() error {
	a := &adminServer{p: p}
	p.admin = a
	cfg := p.cfg.GetAdmin()
	if cfg.GetAddress() == nil {
		return nil // no admin endpoints (BS-43)
	}
	var err error
	errs := []error{a.addressOf(cfg.GetAddress())}
	if len(cfg.GetSocketOptions()) > 0 {
		errs = append(errs, errors.New("admin.socket_options: known but not built in this version; leave it out"))
	}
	a.logs, err = p.adminLogs(cfg)
	errs = append(errs, err)
	a.lines = p.files.NewWorker(a.later)
	a.server, err = admin.New(admin.Options{
		View: view{p}, Levels: p.o.Levels, Components: components(), AllowPaths: cfg.GetAllowPaths(),
		ProfilePath: cfg.GetProfilePath(), Stats: p.stat, Access: a.access, Logger: p.component("admin"),
	})
	return errors.Join(append(errs, err)...)
}

// adminLogs are the access logs of the endpoints; access_log_path is the old
// way to name a file.
func (p *Proxy) adminLogs(cfg *bootstrapv3.Admin) (accesslog.Logs, error) {
	list := cfg.GetAccessLog()
	if path := cfg.GetAccessLogPath(); path != "" { //nolint:staticcheck // still in use (BS-43)
		c, err := anypb.New(&filelogv3.FileAccessLog{Path: path})
		if err != nil {
			return nil, fmt.Errorf("admin.access_log_path: %w", err)
		}
		list = append(slices.Clip(list), &accesslogv3.AccessLog{
			Name: "envoy.access_loggers.file", ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: c},
		})
	}
	return p.logs("admin", list)
}

func (a *adminServer) addressOf(c *corev3.Address) error {
	if pipe := c.GetPipe(); pipe != nil {
		a.network, a.address, a.mode = "unix", pipe.GetPath(), os.FileMode(pipe.GetMode())
		return nil
	}
	s := c.GetSocketAddress()
	_, isPort := s.GetPortSpecifier().(*corev3.SocketAddress_PortValue)
	switch {
	case s == nil:
		return errors.New("admin.address: socket_address or pipe is needed")
	case s.GetProtocol() != corev3.SocketAddress_TCP:
		return errors.New("admin.address.socket_address.protocol: only TCP is possible")
	case s.GetResolverName() != "" || !isPort:
		return errors.New("admin.address.socket_address: give port_value, and no resolver_name")
	case net.ParseIP(s.GetAddress()) == nil:
		return fmt.Errorf("admin.address.socket_address.address: malformed IP address: %s", s.GetAddress())
	case s.GetPortValue() > 65535:
		return fmt.Errorf("admin.address.socket_address.port_value: %d is not a port", s.GetPortValue())
	}
	a.network = "tcp4"
	if strings.Contains(s.GetAddress(), ":") {
		a.network = "tcp6"
	}
	a.address = net.JoinHostPort(s.GetAddress(), strconv.FormatUint(uint64(s.GetPortValue()), 10))
	return nil
}

// listen binds the listener and writes its address where --admin-address-path
// says.
func (a *adminServer) listen(ctx context.Context) (err error) {
	if a.network == "" {
		return nil
	}
	if a.network == "unix" {
		removeSocket(a.address)
	}
	if a.ln, err = (&net.ListenConfig{}).Listen(ctx, a.network, a.address); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	if a.network == "unix" && a.mode != 0 {
		if err := os.Chmod(a.address, a.mode); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
	}
	at := a.ln.Addr()
	if tcp, ok := at.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		a.p.component("admin").Warn("the admin endpoints can be reached from other machines, without any authentication", slog.String("address", at.String()))
	}
	if path := a.p.o.AdminAddressPath; path != "" {
		if err := os.WriteFile(path, []byte(at.String()), 0o644); err != nil { //nolint:gosec // others read it
			return fmt.Errorf("cannot open admin address output file %s for writing: %w", path, err)
		}
	}
	return nil
}

// removeSocket removes a socket that an earlier process left behind, and
// nothing else.
func removeSocket(path string) {
	if i, err := os.Lstat(path); err == nil && i.Mode().Type() == os.ModeSocket {
		_ = os.Remove(path)
	}
}

// close gives up a listener that run was not called for.
func (a *adminServer) close() {
	if a.ln != nil {
		_ = a.ln.Close()
	}
}

// run serves until ctx ends.
func (a *adminServer) run(ctx context.Context) error {
	if a.ln == nil {
		return nil
	}
	err := a.server.Serve(ctx, a.ln)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines.Flush()
	if a.timer != nil {
		a.timer.Stop()
	}
	return err //nolint:wrapcheck // it says admin
}

// later flushes the access log after a while. a.mu is held.
func (a *adminServer) later(after time.Duration) {
	a.timer = time.AfterFunc(after, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lines.Flush()
	})
}
