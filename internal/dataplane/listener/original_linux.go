package listener

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// soOriginalDst is SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST, of
// linux/netfilter_ipv4.h and linux/netfilter_ipv6/ip6_tables.h.
const soOriginalDst = 80

// originalDestination asks the system where a connection was going before it was
// redirected here. It has no answer where connections are not tracked.
func originalDestination(c *loop.Conn, local *filter.Address) (filter.Address, bool) {
	fd := c.Descriptor()
	switch {
	case fd < 0 || !local.IP.IsValid():
		return filter.Address{}, false
	case local.IP.Addr().Unmap().Is4():
		return original4(fd)
	}
	return original6(fd)
}

// original4 and original6 read a struct sockaddr_in and a struct sockaddr_in6: each
// is the beginning of another struct that the system hands out as an option.
func original4(fd int) (filter.Address, bool) {
	m, err := unix.GetsockoptIPv6Mreq(fd, unix.IPPROTO_IP, soOriginalDst)
	if err != nil {
		return filter.Address{}, false
	}
	b := m.Multiaddr
	return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))), true
}

func original6(fd int) (filter.Address, bool) {
	m, err := unix.GetsockoptIPv6MTUInfo(fd, unix.IPPROTO_IPV6, soOriginalDst)
	if err != nil {
		return filter.Address{}, false
	}
	port := binary.NativeEndian.AppendUint16(nil, m.Addr.Port) // as it lies in memory, which is as on the wire
	return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr), binary.BigEndian.Uint16(port))), true
}
