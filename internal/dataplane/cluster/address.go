package cluster

import (
	"errors"
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
)

// target is where an endpoint points: an address, or a name that DNS resolves.
type target struct {
	addr filter.Address // if literal
	name string         // if to be resolved
	port uint16
}

// staticHint ends Envoy's complaint about an address that STATIC cannot use.
const staticHint = ". Consider setting resolver_name or setting cluster type to 'STRICT_DNS' or 'LOGICAL_DNS'"

// staticTarget reads the address of an endpoint that is not resolved.
func staticTarget(a *corev3.Address) (filter.Address, error) {
	switch v := a.GetAddress().(type) {
	case *corev3.Address_SocketAddress:
		return socketAddress(v.SocketAddress)
	case *corev3.Address_Pipe:
		if v.Pipe.GetMode() != 0 {
			return filter.Address{}, errors.New("pipe.mode: a mode is for listeners; remove it")
		}
		return filter.PipeAddress(v.Pipe.GetPath()), nil
	case *corev3.Address_EnvoyInternalAddress:
		return filter.Address{}, errors.New("envoy_internal_address: internal listeners are known but not built")
	default:
		return filter.Address{}, fmt.Errorf("Address must be set%s", staticHint)
	}
}

func socketAddress(s *corev3.SocketAddress) (filter.Address, error) {
	if s.GetResolverName() != "" {
		//nolint:staticcheck // Envoy's text
		return filter.Address{}, fmt.Errorf("Unknown address resolver: %s%s", s.GetResolverName(), staticHint)
	}
	port, err := portOf(s)
	if errors.Is(err, errNamedPort) {
		return filter.Address{}, fmt.Errorf("%w%s", err, staticHint)
	}
	if err != nil {
		return filter.Address{}, err
	}
	ip, err := netip.ParseAddr(s.GetAddress())
	if err != nil {
		return filter.Address{}, fmt.Errorf("malformed IP address: %s%s", s.GetAddress(), staticHint)
	}
	return filter.IPAddress(netip.AddrPortFrom(ip, port)), nil
}

// dnsTarget reads the address of an endpoint of a DNS cluster; a literal IP is
// used as it is.
func dnsTarget(kind string, a *corev3.Address) (target, error) {
	s := a.GetSocketAddress()
	if s == nil {
		return target{}, fmt.Errorf("a %s cluster resolves names: give a socket_address", kind)
	}
	if s.GetResolverName() != "" {
		return target{}, fmt.Errorf("%s clusters must NOT have a custom resolver name set", kind)
	}
	port, err := portOf(s)
	if err != nil {
		return target{}, err
	}
	t := target{name: s.GetAddress(), port: port}
	if ip, err := netip.ParseAddr(s.GetAddress()); err == nil {
		t.addr = filter.IPAddress(netip.AddrPortFrom(ip, port))
	}
	return t, nil
}

// errNamedPort is Envoy's text.
var errNamedPort = errors.New("IP resolver can't handle port specifier type 4")

func portOf(s *corev3.SocketAddress) (uint16, error) {
	if s.GetProtocol() != corev3.SocketAddress_TCP {
		return 0, errors.New("protocol: only TCP endpoints are built")
	}
	if s.GetNetworkNamespaceFilepath() != "" {
		return 0, errors.New("network_namespace_filepath: known but not built")
	}
	switch p := s.GetPortSpecifier().(type) {
	case *corev3.SocketAddress_PortValue:
		if p.PortValue > 65535 {
			return 0, fmt.Errorf("port_value: %d is over 65535", p.PortValue)
		}
		return uint16(p.PortValue), nil
	default:
		return 0, errNamedPort
	}
}
