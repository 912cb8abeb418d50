package proxy

import (
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/tcpproxy"
)

// otherTerminal builds the terminal network filters besides the connection
// manager.
func (p *Proxy) otherTerminal(cfg proto.Message, l *listener.Listener) (listener.Terminal, bool, error) {
	c, ok := cfg.(*tcpv3.TcpProxy)
	if !ok {
		return nil, false, nil
	}
	t, err := tcpproxy.New(c, &tcpproxy.Env{
		Formats: p.formats(),
		Stats:   p.stat, Logs: p.logs, BufferLimit: l.BufferLimit,
		ClusterExists: p.res.hasCluster, CheckClusterSource: p.env.CheckClusterSource,
	})
	if err != nil {
		return nil, true, err //nolint:wrapcheck // it names the field
	}
	return &tcpproxy.Proxy{Config: t}, true, nil
}
