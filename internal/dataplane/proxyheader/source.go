package proxyheader

import (
	"encoding/binary"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// Source is the connection of a client, as headers tell of it. It is not changed
// once it is made.
type Source struct {
	// From and To are the connection's addresses: the client's and the one that it
	// is connected to, or those that a PROXY header has put in their place.
	From, To filter.Address
	// TLVs are what is kept of that header's (pass_through_tlvs of the listener
	// filter).
	TLVs []inspect.TLV
}

// SourceOf is what is told of a stream's connection; info.Connection is not nil.
func SourceOf(info *filter.StreamInfo) Source {
	s := Source{From: info.Connection.Remote, To: info.Connection.Local}
	if h, ok := info.State[inspect.HeaderState].(*inspect.ProxyHeader); ok {
		s.TLVs = h.PassThrough
	}
	return s
}

// AppendKey appends what tells apart the sources that share no connections: their
// addresses, and if the socket is configured so, the TLVs that it passes on. As in
// Envoy a connection has the TLVs of the one that it was opened for otherwise. It
// does not allocate if dst has room.
func (c *Config) AppendKey(dst []byte, s *Source) []byte {
	dst = appendAddress(appendAddress(dst, &s.From), &s.To)
	for ; c != nil; c = c.inner {
		if !c.tlvsTell || c.version == 1 {
			continue
		}
		for _, t := range s.TLVs {
			if c.passes(t.Type) {
				dst = appendTLV(dst, t)
			}
		}
	}
	return dst
}

// appendAddress appends an address so that nothing else begins as it does.
func appendAddress(dst []byte, a *filter.Address) []byte {
	if !a.IP.IsValid() {
		return append(binary.BigEndian.AppendUint32(append(dst, 0), uint32(len(a.Pipe))), a.Pipe...) //nolint:gosec // a path
	}
	ip := a.IP.Addr()
	if zone := ip.Zone(); zone != "" {
		dst = append(append(append(dst, 6, byte(len(zone))), zone...), 0)
	}
	dst = append(dst, byte(ip.BitLen()/8))
	bytes := ip.As16()
	return binary.BigEndian.AppendUint16(append(dst, bytes[:]...), a.IP.Port())
}

func (c *Config) passes(kind byte) bool { return c.passAll || c.pass[kind] }

func appendTLV(dst []byte, t inspect.TLV) []byte {
	dst = binary.BigEndian.AppendUint16(append(dst, t.Type), uint16(len(t.Value))) //nolint:gosec // its caller has looked
	return append(dst, t.Value...)
}
