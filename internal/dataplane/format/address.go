package format

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
)

// end finds one end of a connection; nil if there is none.
type end func(*Context) *filter.Address

func downstreamEnd(get func(*filter.ConnectionInfo) *filter.Address) end {
	return func(c *Context) *filter.Address {
		if cx := c.connection(); cx != nil {
			return known(get(cx))
		}
		return nil
	}
}

// client is the stream's trusted client (HC-30), or who the connection is with.
func client(c *Context) *filter.Address {
	if c.Info != nil && c.Info.Remote.IsValid() {
		return &c.Info.Remote
	}
	if cx := c.connection(); cx != nil {
		return known(&cx.Remote)
	}
	return nil
}

func upstreamEnd(get func(*filter.UpstreamInfo) *filter.Address) end {
	return func(c *Context) *filter.Address {
		if up := c.upstream(); up != nil {
			return known(get(up))
		}
		return nil
	}
}

func known(a *filter.Address) *filter.Address {
	if a == nil || !a.IsValid() {
		return nil
	}
	return a
}

// ends finds an end by the middle of an operator's name.
func ends(name string) end {
	switch name {
	case "DOWNSTREAM_LOCAL":
		return downstreamEnd(func(i *filter.ConnectionInfo) *filter.Address { return &i.Local })
	case "DOWNSTREAM_REMOTE":
		return client
	case "DOWNSTREAM_DIRECT_LOCAL":
		return downstreamEnd((*filter.ConnectionInfo).DirectLocal)
	case "DOWNSTREAM_DIRECT_REMOTE":
		return downstreamEnd((*filter.ConnectionInfo).DirectRemote)
	case "UPSTREAM_LOCAL":
		return upstreamEnd(func(u *filter.UpstreamInfo) *filter.Address { return &u.Local })
	case "UPSTREAM_REMOTE":
		return upstreamEnd(func(u *filter.UpstreamInfo) *filter.Address {
			if !u.Local.IsValid() { // not connected
				return nil
			}
			return &u.Host
		})
	}
	return nil
}

// endOp makes the operators of addresses that take no parameter.
func endOp(name string) *op {
	if of, ok := strings.CutSuffix(name, "_ADDRESS_ENDPOINT_ID"); ok {
		if name == "UPSTREAM_LOCAL_ADDRESS_ENDPOINT_ID" || strings.HasSuffix(of, "DOWNSTREAM_REMOTE") || of == "DOWNSTREAM_DIRECT_REMOTE" {
			return nil
		}
		return addressText(ends(of), func(dst []byte, _ *filter.Address) []byte { return dst }) // of internal addresses only
	}
	if of, ok := strings.CutSuffix(name, "_ADDRESS"); ok {
		return addressText(ends(of), func(dst []byte, a *filter.Address) []byte { return a.AppendTo(dst) })
	}
	if of, ok := strings.CutSuffix(name, "_PORT"); ok {
		if at := ends(of); at != nil {
			return &op{number: func(c *Context) (int64, bool) {
				a := at(c)
				if a == nil || !a.IP.IsValid() {
					return 0, false
				}
				return int64(a.IP.Port()), true
			}}
		}
	}
	return nil
}

func addressText(at end, write func([]byte, *filter.Address) []byte) *op {
	if at == nil {
		return nil
	}
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		a := at(c)
		if a == nil {
			return dst, false
		}
		return write(dst, a), true
	}}
}

// addressOp makes the operators ..._ADDRESS_WITHOUT_PORT(prefix length). A
// length that is none is left aside, and a larger one than the address has bits
// is that many, as in Envoy.
func addressOp(name string) maker {
	of, ok := strings.CutSuffix(name, "_ADDRESS_WITHOUT_PORT")
	at := ends(of)
	if !ok || at == nil {
		return nil
	}
	return func(t *token, _ *Options) (*op, error) {
		bits, err := strconv.ParseUint(t.param, 10, 31)
		if err != nil {
			return addressText(at, appendHost), nil
		}
		return addressText(at, func(dst []byte, a *filter.Address) []byte {
			if !a.IP.IsValid() {
				return appendHost(dst, a)
			}
			ip := a.IP.Addr().WithZone("")
			return netip.PrefixFrom(ip, min(int(bits), ip.BitLen())).Masked().AppendTo(dst)
		}), nil
	}
}

// appendHost appends an address without its port.
func appendHost(dst []byte, a *filter.Address) []byte {
	if a.IP.IsValid() {
		return a.IP.Addr().AppendTo(dst)
	}
	return append(dst, a.Pipe...)
}
