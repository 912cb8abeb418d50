package proxyheader

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// HostNamespace is where an endpoint's metadata have TLVs of its own, as an
// envoy.config.core.v3.PerHostConfig in typed_filter_metadata.
const HostNamespace = "envoy.transport_sockets.proxy_protocol"

// CheckHost refuses metadata of an endpoint whose TLVs cannot be sent. An error
// begins with the path of its field.
func CheckHost(m *corev3.Metadata) error {
	_, err := hostTLVs(m)
	return err
}

// hostTLVs are the TLVs of an endpoint. There may be several of a type, and empty
// ones.
func hostTLVs(m *corev3.Metadata) ([]inspect.TLV, error) {
	packed := m.GetTypedFilterMetadata()[HostNamespace]
	if packed == nil {
		return nil, nil
	}
	const at = "typed_filter_metadata[" + HostNamespace + "]"
	var conf corev3.PerHostConfig
	if err := packed.UnmarshalTo(&conf); err != nil {
		return nil, fmt.Errorf(at+": it has to be an envoy.config.core.v3.PerHostConfig: %w", err)
	}
	list := make([]inspect.TLV, 0, len(conf.GetAddedTlvs()))
	var errs []error
	for i, t := range conf.GetAddedTlvs() {
		if t.GetType() > 255 {
			errs = append(errs, fmt.Errorf(at+".added_tlvs[%d].type: %d: value must be less than 256", i, t.GetType()))
		}
		if t.GetFormatString() != nil {
			errs = append(errs, fmt.Errorf(at+".added_tlvs[%d].format_string: it is for added_tlvs of the transport socket only; write a value", i))
		}
		list = append(list, inspect.TLV{Type: byte(t.GetType()), Value: t.GetValue()}) //nolint:gosec // refused otherwise
	}
	return list, errors.Join(errs...)
}
