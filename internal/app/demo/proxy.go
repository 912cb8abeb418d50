package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/xebec-proxy/xebec/internal/app/bootstrap"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/app/serveproxy"
	"github.com/xebec-proxy/xebec/proxy"
)

// The proxy's node: groups.yaml sends it a listener with a port.
const (
	proxyNode    = "demo-proxy"
	proxyCluster = "proxies"
	proxyFile    = "proxy.yaml"
	proxyPort    = 18080
	securePort   = 18443
	plainName    = "greeter-port"
	secureName   = "greeter-tls"
)

// newProxy makes a proxy that takes everything from a management server, on one
// stream in the delta variant, as `xebec proxy` would with what `xebec bootstrap
// envoy --delta` writes.
func newProxy(server, version string, log *slog.Logger) (*proxy.Proxy, error) {
	file, err := bootstrap.Envoy{
		Options: bootstrap.Options{Server: server, NodeID: proxyNode, NodeCluster: proxyCluster}, Delta: true, Aggregated: true,
	}.YAML()
	if err != nil {
		return nil, err
	}
	flags := proxyrun.Flags{ConfigYAML: string(file), Concurrency: 1, SkipDeprecatedLogs: true, DrainTime: proxyrun.DefaultDrainTime, ShutdownTime: 200 * time.Millisecond}
	loaded, err := proxyrun.Load(flags, proxyrun.Environment{})
	if err != nil {
		return nil, fmt.Errorf("the proxy's bootstrap: %w", err)
	}
	p, err := proxy.New(loaded.Bootstrap, serveproxy.Options(loaded, proxyrun.Options{Flags: flags, Log: log, Version: version}, serveproxy.Environment{}))
	if err != nil {
		return nil, fmt.Errorf("the proxy: %w", err)
	}
	return p, nil
}

var errNoPort = errors.New("the files have no listener for the proxy (see groups.yaml and proxy.yaml in examples/quickstart)")

// addresses are where the proxy listens, by the names of its listeners, once it
// does.
func addresses(ctx context.Context, p *proxy.Proxy) (map[string][]string, error) {
	select {
	case <-p.Ready():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list := p.Listeners()
	maps.DeleteFunc(list, func(_ string, at []string) bool { return len(at) == 0 })
	if len(list) == 0 {
		return nil, errNoPort
	}
	return list, nil
}
