package xds

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Hosts is what a resource says about the virtual hosts that clients ask for on
// demand (VHDS).
type Hosts struct {
	// Domains are those of a VirtualHost; of a RouteConfiguration those of its
	// own virtual hosts, which clients have without asking. In lower case, each
	// once, sorted.
	Domains []string
	// OnDemand says that a RouteConfiguration has vhds; IgnorePort that it
	// ignores the ports of hosts.
	OnDemand, IgnorePort bool
}

// Hosts returns what a VirtualHost, or a RouteConfiguration with vhds, says about
// virtual hosts on demand; nil for other resources. Read-only.
func (r *Resource) Hosts() *Hosts { return r.hosts }

// SplitHost cuts the name of a VirtualHost, "<route configuration>/<name>", at
// its last slash (XN-21). It reports false if one of the parts is missing.
func SplitHost(name string) (table, host string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i <= 0 || i == len(name)-1 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// WithoutPort is a host without its port, if it has one. The colons of an IPv6
// address are none of a port.
func WithoutPort(host string) string {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || i == len(host)-1 || strings.Trim(host[i+1:], "0123456789") != "" {
		return host
	}
	end := strings.LastIndexByte(host, ']')
	if end > i || end < 0 && strings.IndexByte(host, ':') != i {
		return host
	}
	return host[:i]
}

// Field numbers of RouteConfiguration and VirtualHost.
const (
	fieldTableHosts      = 2
	fieldTableVhds       = 9
	fieldTableIgnorePort = 14
	fieldHostDomains     = 2
)

// hostsOf reads an encoded VirtualHost or RouteConfiguration as far as it
// concerns virtual hosts on demand. What cannot be read is passed over.
func hostsOf(typeURL string, body []byte) *Hosts {
	h := &Hosts{}
	switch typeURL {
	case VirtualHostType:
		h.addDomains(body)
	case RouteType:
		eachField(body, func(n protowire.Number, v []byte, number uint64) {
			switch n {
			case fieldTableHosts:
				h.addDomains(v)
			case fieldTableVhds:
				h.OnDemand = true
			case fieldTableIgnorePort:
				h.IgnorePort = number != 0
			}
		})
		if !h.OnDemand {
			return nil
		}
	default:
		return nil
	}
	slices.Sort(h.Domains)
	h.Domains = slices.Compact(h.Domains)
	return h
}

func (h *Hosts) addDomains(host []byte) {
	eachField(host, func(n protowire.Number, v []byte, _ uint64) {
		if n == fieldHostDomains {
			h.Domains = append(h.Domains, strings.ToLower(string(v)))
		}
	})
}

// eachField visits the fields of an encoded message that are bytes or numbers.
func eachField(b []byte, visit func(n protowire.Number, v []byte, number uint64)) {
	for len(b) > 0 {
		n, t, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		var v []byte
		var number uint64
		switch t {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		default:
			if size = protowire.ConsumeFieldValue(n, t, b); size < 0 {
				return
			}
			b = b[size:]
			continue
		}
		if size < 0 {
			return
		}
		b = b[size:]
		visit(n, v, number)
	}
}
