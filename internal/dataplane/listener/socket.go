package listener

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Socket is one address of a listener.
type Socket struct {
	// Address is what was configured; after Bind with the real port.
	Address filter.Address
	// Mode is a UNIX socket's file mode; 0 leaves it.
	Mode    uint32
	Compat  bool // ipv4_compat
	Bind    bool // bind_to_port
	Reuse   bool // a socket for each worker (enable_reuse_port)
	options socketOptions

	asked filter.Address // as configured
	local filter.Address
	fixed bool // every accepted connection has this local address
	port  *Port
	// released says that the port is not the socket's any more.
	released bool

	workerTotal  []stats.Counter
	workerActive []stats.Gauge
}

// socketOptions are set on listening sockets (LM-17).
type socketOptions struct {
	transparent, freebind bool
	fastOpen              int
	backlog               int
	keepalive             *corev3.TcpKeepalive
	list                  []*corev3.SocketOption
}

// addressOf reads an address of the API.
func addressOf(path string, a *corev3.Address) (addr filter.Address, mode uint32, compat bool, err error) {
	switch x := a.GetAddress().(type) {
	case *corev3.Address_SocketAddress:
		addr, err = socketAddress(path+".socket_address", x.SocketAddress)
		return addr, 0, x.SocketAddress.GetIpv4Compat(), err
	case *corev3.Address_Pipe:
		p := x.Pipe.GetPath()
		if len(p) > 107 {
			return addr, 0, false, fmt.Errorf("%s.pipe.path: %q exceeds maximum UNIX domain socket path size of 108", path, p)
		}
		return filter.PipeAddress(p), x.Pipe.GetMode(), false, nil
	case *corev3.Address_EnvoyInternalAddress:
		return addr, 0, false, fmt.Errorf("%s.envoy_internal_address: known but not built in this version", path)
	}
	return addr, 0, false, fmt.Errorf("%s: an address is needed: socket_address or pipe", path)
}

func socketAddress(path string, a *corev3.SocketAddress) (filter.Address, error) {
	if a.GetProtocol() == corev3.SocketAddress_UDP {
		return filter.Address{}, fmt.Errorf("%s.protocol: UDP is known but not built in this version", path)
	}
	if _, named := a.GetPortSpecifier().(*corev3.SocketAddress_NamedPort); named {
		return filter.Address{}, fmt.Errorf("%s.named_port: named ports are not supported; give port_value", path)
	}
	if a.GetResolverName() != "" {
		return filter.Address{}, fmt.Errorf("%s.resolver_name: known but not built in this version", path)
	}
	ip, err := netip.ParseAddr(a.GetAddress())
	if err != nil {
		return filter.Address{}, fmt.Errorf("%s.address: malformed IP address: %s", path, a.GetAddress())
	}
	if a.GetPortValue() > 65535 {
		return filter.Address{}, fmt.Errorf("%s.port_value: %d is not a port", path, a.GetPortValue())
	}
	return filter.IPAddress(netip.AddrPortFrom(ip, uint16(a.GetPortValue()))), nil
}

// sockets reads the listener's addresses.
func sockets(l *listenerv3.Listener) ([]*Socket, error) {
	var list []*Socket
	var errs []error
	add := func(path string, a *corev3.Address, o socketOptions) {
		addr, mode, compat, err := addressOf(path, a)
		if err != nil {
			errs = append(errs, err)
			return
		}
		reuse := l.GetEnableReusePort() == nil || l.GetEnableReusePort().GetValue()
		list = append(list, &Socket{
			Address: addr, asked: addr, Mode: mode, Compat: compat, Reuse: reuse && addr.IP.IsValid(),
			Bind: l.GetBindToPort() == nil || l.GetBindToPort().GetValue(), options: o,
		})
	}
	o := socketOptions{
		transparent: l.GetTransparent().GetValue(), freebind: l.GetFreebind().GetValue(),
		fastOpen: int(l.GetTcpFastOpenQueueLength().GetValue()), backlog: int(l.GetTcpBacklogSize().GetValue()),
		keepalive: l.GetTcpKeepalive(), list: l.GetSocketOptions(),
	}
	add("address", l.GetAddress(), o)
	for i, x := range l.GetAdditionalAddresses() {
		more := o
		if x.GetSocketOptions() != nil {
			more.list = x.GetSocketOptions().GetSocketOptions()
		}
		if x.GetTcpKeepalive() != nil {
			more.keepalive = x.GetTcpKeepalive()
		}
		add(fmt.Sprintf("additional_addresses[%d].address", i), x.GetAddress(), more)
	}
	return list, errors.Join(errs...)
}

// StatName is the listener's name in statistics.
func statName(l *listenerv3.Listener, first *Socket) string {
	if p := l.GetStatPrefix(); p != "" {
		return p
	}
	if first == nil {
		return l.GetName()
	}
	return strings.ReplaceAll(first.Address.String(), ":", "_")
}

// wildcard reports whether connections differ in their local address.
func wildcard(a *filter.Address) bool {
	return !a.IP.IsValid() || a.IP.Addr().IsUnspecified()
}
