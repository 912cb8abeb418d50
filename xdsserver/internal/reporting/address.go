package reporting

import (
	"errors"
	"net"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Address names a reported endpoint: "ip:port", a pipe's path, or
// "envoy_internal:name/id". It returns an error, which begins with the field's
// name, if there is no address.
func Address(p *corev3.Address) (string, error) {
	switch a := p.GetAddress().(type) {
	case *corev3.Address_SocketAddress:
		port := a.SocketAddress.GetNamedPort()
		if port == "" {
			port = strconv.FormatUint(uint64(a.SocketAddress.GetPortValue()), 10)
		}
		return net.JoinHostPort(a.SocketAddress.GetAddress(), port), nil
	case *corev3.Address_Pipe:
		return a.Pipe.GetPath(), nil
	case *corev3.Address_EnvoyInternalAddress:
		i := a.EnvoyInternalAddress
		return "envoy_internal:" + i.GetServerListenerName() + "/" + i.GetEndpointId(), nil
	}
	return "", errors.New("address is empty; give the endpoint's address")
}
