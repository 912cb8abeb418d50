package filtertest

import (
	"log/slog"
	"net/netip"
	"slices"

	"github.com/xebec-proxy/xebec/filter"
)

// Inspection is what listener filters made of a connection.
type Inspection struct {
	Accepted filter.Accepted
	Info     filter.StreamInfo
	Conn     filter.ConnectionInfo
	// Status is ListenerWait if the bytes did not suffice.
	Status filter.ListenerStatus
	// Rest is what was not consumed.
	Rest []byte
}

// Inspect gives a connection's first bytes to listener filters in order, in
// pieces of a size.
func Inspect(s *Stats, data []byte, piece int, filters ...filter.ListenerFactory) *Inspection {
	out := &Inspection{}
	client, server := netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("192.0.2.2:80")
	out.Conn.Remote = filter.IPAddress(client)
	out.Conn.Local = filter.IPAddress(server)
	out.Conn.KeepDirect()
	out.Info.Connection = &out.Conn
	out.Accepted = filter.Accepted{Info: &out.Info, Stats: s, Logger: slog.New(slog.DiscardHandler)}
	var peeked []byte
	for _, f := range filters {
		made := f()
		out.Status = made.OnAccept(&out.Accepted)
		for out.Status == filter.ListenerWait {
			if len(peeked) > 0 {
				var used int
				out.Status, used = made.OnData(&out.Accepted, slices.Clone(peeked))
				peeked = peeked[used:]
			}
			if out.Status != filter.ListenerWait {
				break
			}
			if len(data) == 0 {
				return out
			}
			n := min(piece, len(data))
			peeked, data = append(peeked, data[:n]...), data[n:]
		}
		if out.Status == filter.ListenerReject {
			break
		}
	}
	out.Rest = slices.Concat(peeked, data)
	return out
}
