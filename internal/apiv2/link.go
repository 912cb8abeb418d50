package apiv2

// The resource types of v2 and the extensions that nearly every configuration
// has. Programs that need others link these in, as internal/alltypes does.
import (
	_ "github.com/envoyproxy/go-control-plane/envoy/api/v2"                                           // LDS, RDS, SRDS, CDS, EDS
	_ "github.com/envoyproxy/go-control-plane/envoy/api/v2/auth"                                      // SDS, TLS
	_ "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v2"                              // access logs
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/accesslog/v2"                       // their filters
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/fault/v2"                           // delays
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/http/fault/v2"                      // faults, which gRPC has too
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/http/router/v2"                     // the router
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/network/http_connection_manager/v2" // HTTP
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/network/tcp_proxy/v2"               // TCP
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v2"                               // API listeners
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"                 // the same in v3
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"                // …
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v2" // RTDS and the services
	_ "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
)
