package inspect

import (
	"encoding/binary"
	"strconv"

	"github.com/xebec-proxy/xebec/filter"
)

// AppendProxyHeader appends a PROXY header of version 1 or 2 that says who talks
// to whom (the HAProxy project's proxy-protocol.txt, sections 2.1 and 2.2). Of
// addresses that are not of one family of IP it says that they are not known.
func AppendProxyHeader(out []byte, version int, from, to filter.Address) []byte {
	src, dst := from.IP, to.IP
	known := src.IsValid() && dst.IsValid() && src.Addr().Is4() == dst.Addr().Is4()
	if version == 1 {
		return appendProxyText(out, known, from, to)
	}
	out = append(out, "\r\n\r\n\x00\r\nQUIT\n"...)
	switch {
	case !known:
		return append(out, 0x20, 0, 0, 0)
	case src.Addr().Is4():
		out = append(out, 0x21, 0x11, 0, 12)
	default:
		out = append(out, 0x21, 0x21, 0, 36)
	}
	out = append(append(out, src.Addr().AsSlice()...), dst.Addr().AsSlice()...)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(out, src.Port()), dst.Port())
}

func appendProxyText(out []byte, known bool, from, to filter.Address) []byte {
	if !known {
		return append(out, "PROXY UNKNOWN\r\n"...)
	}
	family := "PROXY TCP4 "
	if !from.IP.Addr().Is4() {
		family = "PROXY TCP6 "
	}
	out = from.IP.Addr().WithZone("").AppendTo(append(out, family...))
	out = to.IP.Addr().WithZone("").AppendTo(append(out, ' '))
	out = strconv.AppendUint(append(out, ' '), uint64(from.IP.Port()), 10)
	out = strconv.AppendUint(append(out, ' '), uint64(to.IP.Port()), 10)
	return append(out, "\r\n"...)
}
