package configsource

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// ads is the source of the bootstrap's ads_config: one stream for everything.
func (s *Sources) ads() (xdsclient.Config, error) {
	c, err := s.fill(s.cfg.ADS)
	if err != nil {
		return c, fmt.Errorf("ads_config.%w", err)
	}
	switch t := s.cfg.ADS.GetApiType(); t {
	case corev3.ApiConfigSource_GRPC, corev3.ApiConfigSource_AGGREGATED_GRPC:
	case corev3.ApiConfigSource_DELTA_GRPC, corev3.ApiConfigSource_AGGREGATED_DELTA_GRPC:
		c.Delta = true
	default:
		return c, fmt.Errorf("ads_config.api_type: %v cannot carry all types: use GRPC or DELTA_GRPC", t)
	}
	return c, nil
}

// api is the source of an api_config_source.
func (s *Sources) api(a *corev3.ApiConfigSource) (xdsclient.Config, error) {
	c, err := s.fill(a)
	if err != nil {
		return c, fmt.Errorf("api_config_source.%w", err)
	}
	switch t := a.GetApiType(); t {
	case corev3.ApiConfigSource_GRPC, corev3.ApiConfigSource_REST:
		c.PerType = true
	case corev3.ApiConfigSource_DELTA_GRPC:
		c.PerType, c.Delta = true, true
	case corev3.ApiConfigSource_AGGREGATED_GRPC:
	case corev3.ApiConfigSource_AGGREGATED_DELTA_GRPC:
		c.Delta = true
	default:
		return c, fmt.Errorf("api_config_source.api_type: %v is not supported: use GRPC, DELTA_GRPC, AGGREGATED_GRPC, AGGREGATED_DELTA_GRPC or REST", t)
	}
	return c, nil
}

// fill takes over what does not depend on the variant. Its errors start with
// the field.
func (s *Sources) fill(a *corev3.ApiConfigSource) (xdsclient.Config, error) {
	c := s.base()
	if err := checkVersion("transport_api_version", a.GetTransportApiVersion()); err != nil {
		return c, err
	}
	c.RepeatNode = !a.GetSetNodeOnFirstMessageOnly()
	if l := a.GetRateLimitSettings(); l != nil {
		c.RateLimit = &xdsclient.RateLimit{Burst: int(l.GetMaxTokens().GetValue()), PerSecond: l.GetFillRate().GetValue()}
		if l.GetFillRate() != nil && l.GetFillRate().GetValue() <= 0 {
			return c, errors.New("rate_limit_settings.fill_rate: must be larger than 0")
		}
	}
	if err := s.validators(&c, a); err != nil {
		return c, err
	}
	if a.GetApiType() == corev3.ApiConfigSource_REST {
		return c, s.rest(&c, a)
	}
	return c, s.grpc(&c, a)
}

// grpc makes the transports. Several services are ways to one server, tried in
// turn (XC-31).
func (s *Sources) grpc(c *xdsclient.Config, a *corev3.ApiConfigSource) error {
	services := a.GetGrpcServices()
	switch {
	case len(services) == 0:
		return errors.New("grpc_services: name the service to ask")
	case s.cfg.GRPC == nil:
		return errors.New("grpc_services: gRPC is not available here")
	}
	err := ways(c, serviceName(services[0]), "grpc_services", len(services), func(i int) (xdsclient.Transport, error) { return s.cfg.GRPC(services[i]) })
	if err != nil {
		return err
	}
	return backoff(c, services[0])
}

// backoff takes over the retry_policy of a service's envoy_grpc, which is the one
// for streams of discovery, or else the service's (XC-28).
func backoff(c *xdsclient.Config, svc *corev3.GrpcService) error {
	b, field := svc.GetEnvoyGrpc().GetRetryPolicy().GetRetryBackOff(), "envoy_grpc.retry_policy"
	if b == nil {
		b, field = svc.GetRetryPolicy().GetRetryBackOff(), "retry_policy"
	}
	if b == nil {
		return nil
	}
	c.Backoff = xdsclient.DefaultBackoff()
	if d := b.GetBaseInterval(); d != nil {
		c.Backoff.Base = d.AsDuration()
		c.Backoff.Max = 10 * c.Backoff.Base // RetryPolicy.RetryBackOff's default
	}
	if d := b.GetMaxInterval(); d != nil {
		c.Backoff.Max = d.AsDuration()
	}
	if c.Backoff.Base <= 0 || c.Backoff.Max < c.Backoff.Base {
		return fmt.Errorf("grpc_services[0].%s.retry_back_off: needs 0 < base_interval ≤ max_interval", field)
	}
	return nil
}

// serviceName is what a gRPC service is called in errors and statistics.
func serviceName(svc *corev3.GrpcService) string {
	if e := svc.GetEnvoyGrpc(); e != nil {
		return e.GetClusterName()
	}
	return svc.GetGoogleGrpc().GetTargetUri()
}

func (s *Sources) rest(c *xdsclient.Config, a *corev3.ApiConfigSource) error {
	names := a.GetClusterNames()
	switch {
	case len(names) == 0:
		return errors.New("cluster_names: name the cluster to ask")
	case a.GetRefreshDelay() == nil:
		return errors.New("refresh_delay: is required for REST")
	case s.cfg.REST == nil:
		return errors.New("api_type: REST is not available here")
	}
	return ways(c, names[0], "cluster_names", len(names), func(i int) (xdsclient.Transport, error) { return s.cfg.REST(a, names[i]) })
}

// ways makes the n ways to a server, which are in a field.
func ways(c *xdsclient.Config, name, field string, n int, way func(i int) (xdsclient.Transport, error)) error {
	server := xdsclient.Server{Name: name}
	for i := range n {
		t, err := way(i)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		if i == 0 {
			server.Transport = t
		} else {
			server.Alternates = append(server.Alternates, t)
		}
	}
	c.Servers = []xdsclient.Server{server}
	return nil
}

// validators makes what config_validators name (XC-38).
func (s *Sources) validators(c *xdsclient.Config, a *corev3.ApiConfigSource) error {
	for i, v := range a.GetConfigValidators() {
		if s.cfg.Validator == nil {
			return fmt.Errorf("config_validators[%d]: %q is not supported", i, v.GetName())
		}
		typeURL, f, err := s.cfg.Validator(v)
		if err != nil {
			return fmt.Errorf("config_validators[%d]: %w", i, err)
		}
		all := map[string][]xdsclient.ResponseValidator{}
		for k, list := range c.Validators {
			all[k] = append(all[k], list...)
		}
		all[typeURL] = append(all[typeURL], f)
		c.Validators = all
	}
	return nil
}

// checkVersion refuses v2 by name: the client does not speak it (XV-09).
func checkVersion(field string, v corev3.ApiVersion) error {
	if v == corev3.ApiVersion_V2 { //nolint:staticcheck // to be refused it must be named
		return fmt.Errorf("%s: V2 is not supported; use V3", field)
	}
	return nil
}
