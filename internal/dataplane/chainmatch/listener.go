package chainmatch

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Env is what the matchers of listeners are built with.
type Env struct {
	// Unpack decodes a typed configuration.
	Unpack func(*anypb.Any) (proto.Message, error)
	// Counter makes a counter of the whole server.
	Counter func(name string) stats.Counter
}

// ForListener is [New] for the chains of l, or of its filter_chain_matcher, if it has
// one. Errors begin as Envoy's do, with "error adding listener '<addresses>': ".
// use_proxy_proto is refused by name: it is not implemented. Source: spec FC-13.
func ForListener(l *listenerv3.Listener, env Env) (*Matcher, error) {
	var errs []error
	for i, c := range l.GetFilterChains() {
		if c.GetUseProxyProto() != nil { //nolint:staticcheck // deprecated, yet must not be ignored
			errs = append(errs, fmt.Errorf("filter_chains[%d].use_proxy_proto: not implemented: add envoy.filters.listener.proxy_protocol to listener_filters", i))
		}
	}
	var m *Matcher
	var err error
	if l.GetFilterChainMatcher() != nil {
		m, err = newTree(l, env)
	} else {
		m, err = New(l.GetFilterChains(), l.GetDefaultFilterChain() != nil)
	}
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
