//go:build interop

package living

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/xds"
)

// chain is a filter chain that ends in a connection manager, whose routes are
// discovered.
func (w *world) chain(prefix, routes string) *listenerv3.FilterChain {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: prefix,
		// HTTP/2 connections of a chain that is replaced are closed after this time.
		DrainTimeout: durationpb.New(300 * time.Millisecond),
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			RouteConfigName: routes, ConfigSource: w.variant.source(w.dir, xds.RouteType, routes),
		}},
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		HttpFilters:    []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})}}},
	}
	return &listenerv3.FilterChain{Name: "of " + prefix, Filters: []*listenerv3.Filter{
		{Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(m)}},
	}}
}

// overTLS is chain behind TLS, with a certificate that is discovered.
func (w *world) overTLS(prefix, routes, certificate string) *listenerv3.FilterChain {
	c := w.chain(prefix, routes)
	c.TransportSocket = &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.DownstreamTlsContext{
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: []string{"h2", "http/1.1"},
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{
				{Name: certificate, SdsConfig: w.variant.source(w.dir, xds.SecretType, certificate)},
			},
		},
	})}}
	return c
}

func listenerAt(name string, port int, chains ...*listenerv3.FilterChain) *listenerv3.Listener {
	return &listenerv3.Listener{Name: name, Address: address(port), FilterChains: chains}
}

// replace changes what makes a listener another one.
func (w *world) replace(l *listenerv3.Listener) {
	switch w.random.IntN(3) {
	case 0:
		l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(uint32(w.between(1<<20, 1000))) //nolint:gosec // positive
	case 1:
		if l.AccessLog != nil {
			l.AccessLog = nil
			return
		}
		l.AccessLog = []*accesslogv3.AccessLog{{Name: "file", ConfigType: &accesslogv3.AccessLog_TypedConfig{
			TypedConfig: packed(&filelogv3.FileAccessLog{Path: "/dev/null"}),
		}}}
	default:
		if l.ListenerFilters != nil {
			l.ListenerFilters = nil
			return
		}
		l.ListenerFilters = []*listenerv3.ListenerFilter{{Name: "inspector", ConfigType: &listenerv3.ListenerFilter_TypedConfig{
			TypedConfig: packed(&inspectorv3.HttpInspector{}),
		}}}
	}
}
