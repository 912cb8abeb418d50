package chainmatch

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
)

// ForListener is [New] for the chains of l. Its errors begin as Envoy's do,
// with "error adding listener '<addresses>': ". A filter_chain_matcher and
// use_proxy_proto are refused by name: neither is implemented. Source: spec
// FC-13.
func ForListener(l *listenerv3.Listener) (*Matcher, error) {
	var errs []error
	if l.GetFilterChainMatcher() != nil {
		errs = append(errs, errors.New("filter_chain_matcher: not implemented: use filter_chain_match in each of filter_chains"))
	}
	for i, c := range l.GetFilterChains() {
		if c.GetUseProxyProto() != nil { //nolint:staticcheck // deprecated, yet must not be ignored
			errs = append(errs, fmt.Errorf("filter_chains[%d].use_proxy_proto: not implemented: add envoy.filters.listener.proxy_protocol to listener_filters", i))
		}
	}
	m, err := New(l.GetFilterChains(), l.GetDefaultFilterChain() != nil)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("error adding listener '%s': %w", addresses(l), err)
	}
	return m, nil
}

func addresses(l *listenerv3.Listener) string {
	all := []string{address(l.GetAddress())}
	for _, a := range l.GetAdditionalAddresses() {
		all = append(all, address(a.GetAddress()))
	}
	return strings.Join(all, ",")
}

func address(a *corev3.Address) string {
	switch v := a.GetAddress().(type) {
	case *corev3.Address_SocketAddress:
		return net.JoinHostPort(v.SocketAddress.GetAddress(), strconv.Itoa(int(v.SocketAddress.GetPortValue())))
	case *corev3.Address_Pipe:
		return v.Pipe.GetPath()
	case *corev3.Address_EnvoyInternalAddress:
		return "envoy://" + v.EnvoyInternalAddress.GetServerListenerName()
	}
	return ""
}
