package proxy

import (
	"errors"
	"fmt"

	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
)

// upstreamFilters builds upstream HTTP filters (HF-13), of which the codec must
// be the last.
func (p *Proxy) upstreamFilters(path string, list []*hcmv3.HttpFilter) ([]chain.Spec, error) {
	var out []chain.Spec
	var errs []error
	for i, f := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if f.GetConfigDiscovery() != nil {
			errs = append(errs, fmt.Errorf("%s.config_discovery: known but not built for upstream filters: write typed_config", at))
			continue
		}
		m, err := unpack(f.GetTypedConfig())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.typed_config: %w", at, err))
			continue
		}
		_, codec := m.(*codecv3.UpstreamCodec)
		if codec != (i == len(list)-1) {
			errs = append(errs, fmt.Errorf("%s: envoy.filters.http.upstream_codec must be the last of the upstream filters, and only it", at))
			continue
		}
		if codec {
			continue
		}
		t, ok := p.reg.HTTP(string(m.ProtoReflect().Descriptor().FullName()))
		if !ok || !t.Upstream {
			errs = append(errs, fmt.Errorf("%s: Didn't find a registered implementation for '%s' with type URL: '%s' that works upstream", at, f.GetName(), f.GetTypedConfig().GetTypeUrl()))
			continue
		}
		factory, err := t.New(m, &p.env)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.typed_config: %w", at, err))
			continue
		}
		out = append(out, chain.Spec{Name: f.GetName(), New: factory, Disabled: f.GetDisabled()})
	}
	return out, errors.Join(errs...)
}
