package healthcheck

import (
	"errors"
	"fmt"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/core/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/health_check/event_sinks/file/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// Config is one entry of a cluster's health_checks. It is immutable.
type Config struct {
	// Name tells several checks of a cluster apart; empty for the only one.
	Name string
	// EventLogs are the paths of the files that events are written to.
	EventLogs []string
	// ALPN are the protocols that the transport socket offers instead of its own.
	ALPN []string
	// Criteria select the transport socket instead of an endpoint's metadata; nil:
	// they do not.
	Criteria *structpb.Struct

	timeout                      time.Duration
	unhealthyAfter, healthyAfter uint32
	schedule                     schedule
	reuse                        bool
	everyFailure, everySuccess   bool
	kind                         datav3.HealthCheckerType
	http                         *httpConfig // of HTTP
	tcp                          *tcpConfig  // of TCP
	grpc                         *grpcConfig // of gRPC
}

// Read reads the health_checks of a cluster; none if it has none. speaksHTTP2 tells
// that its requests may be HTTP/2. An error names the field; several are joined.
func Read(c *clusterv3.Cluster, speaksHTTP2 bool) ([]*Config, error) {
	var errs []error
	var list []*Config
	seen := map[string]bool{}
	for i, h := range c.GetHealthChecks() {
		path := fmt.Sprintf("health_checks[%d]", i)
		conf, err := read(h, c.GetName(), speaksHTTP2)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%w", path, err))
			continue
		}
		switch { // Envoy's texts
		case len(c.GetHealthChecks()) == 1:
		case conf.Name == "":
			errs = append(errs, fmt.Errorf("%s.name: health check at index %d is missing a name; all health checks must have a name when multiple health checks are configured", path, i))
		case seen[conf.Name]:
			errs = append(errs, fmt.Errorf("%s.name: duplicate health check name '%s' at index %d; all health check names must be unique within a cluster", path, conf.Name, i))
		}
		seen[conf.Name] = true
		list = append(list, conf)
	}
	return list, errors.Join(errs...)
}

func read(h *corev3.HealthCheck, clusterName string, speaksHTTP2 bool) (*Config, error) {
	if err := unbuilt(h); err != nil {
		return nil, err
	}
	c := &Config{
		Name: h.GetName(), ALPN: h.GetTlsOptions().GetAlpnProtocols(), Criteria: h.GetTransportSocketMatchCriteria(),
		timeout: h.GetTimeout().AsDuration(), schedule: newSchedule(h), reuse: true,
		unhealthyAfter: h.GetUnhealthyThreshold().GetValue(), healthyAfter: h.GetHealthyThreshold().GetValue(),
		everyFailure: h.GetAlwaysLogHealthCheckFailures(), everySuccess: h.GetAlwaysLogHealthCheckSuccess(),
	}
	if r := h.GetReuseConnection(); r != nil {
		c.reuse = r.GetValue()
	}
	if err := c.readEventLogs(h); err != nil {
		return nil, err
	}
	var err error
	switch k := h.GetHealthChecker().(type) {
	case *corev3.HealthCheck_HttpHealthCheck_:
		c.kind = datav3.HealthCheckerType_HTTP
		c.http, err = readHTTP(k.HttpHealthCheck, clusterName)
		err = below1("http_health_check", err)
	case *corev3.HealthCheck_TcpHealthCheck_:
		c.kind = datav3.HealthCheckerType_TCP
		c.tcp, err = readTCP(k.TcpHealthCheck)
		err = below1("tcp_health_check", err)
	case *corev3.HealthCheck_GrpcHealthCheck_:
		c.kind = datav3.HealthCheckerType_GRPC
		if !speaksHTTP2 { // Envoy's text
			return nil, fmt.Errorf("grpc_health_check: %s cluster must support HTTP/2 for gRPC healthchecking", clusterName)
		}
		c.grpc, err = readGRPC(k.GrpcHealthCheck, clusterName)
		err = below1("grpc_health_check", err)
	case *corev3.HealthCheck_CustomHealthCheck_:
		err = fmt.Errorf("custom_health_check: %s is known but not built; use http_health_check, tcp_health_check or grpc_health_check", k.CustomHealthCheck.GetName())
	}
	return c, err
}

// SpeaksHTTP1 tells that the check is one over HTTP/1, SpeaksHTTP2 that it is over
// HTTP/2.
func (c *Config) SpeaksHTTP1() bool { return c.http != nil && !c.http.http2 }

// SpeaksHTTP2 tells that the check is one over HTTP/2.
func (c *Config) SpeaksHTTP2() bool { return c.grpc != nil || c.http != nil && c.http.http2 }

func below1(field string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s.%w", field, err)
}

// unbuilt refuses what is known of a HealthCheck and not built.
func unbuilt(h *corev3.HealthCheck) error {
	const text = ": known but not built; remove it"
	switch {
	case h.GetAltPort() != nil:
		return errors.New("alt_port" + text + ", and give endpoints health_check_config.port_value")
	case h.GetEventService() != nil:
		return errors.New("event_service" + text)
	case h.GetHttpHealthCheck().GetUseAlpnProtocol():
		return errors.New("http_health_check.use_alpn_protocol" + text)
	}
	return nil
}

// readEventLogs finds the files that events go to.
func (c *Config) readEventLogs(h *corev3.HealthCheck) error {
	if p := h.GetEventLogPath(); p != "" { //nolint:staticcheck // deprecated fields still work
		c.EventLogs = append(c.EventLogs, p)
	}
	for i, e := range h.GetEventLogger() {
		m, err := e.GetTypedConfig().UnmarshalNew()
		if err != nil {
			return fmt.Errorf("event_logger[%d].typed_config: %w", i, err)
		}
		sink, ok := m.(*filev3.HealthCheckEventFileSink)
		if !ok {
			return fmt.Errorf("event_logger[%d]: Didn't find a registered implementation for '%s' with type URL: '%s'", i, e.GetName(), e.GetTypedConfig().GetTypeUrl())
		}
		if err := sink.ValidateAll(); err != nil {
			return fmt.Errorf("event_logger[%d].typed_config: %w", i, err)
		}
		c.EventLogs = append(c.EventLogs, sink.GetEventLogPath())
	}
	return nil
}
