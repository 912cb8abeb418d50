package edge

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// identify finds out who the client is, and over what it came (HC-30 … HC-32,
// HC-34).
func (r *Rules) identify(h *header.Map, q *Request) {
	c := q.Info.Connection
	xff, has := h.LookupID(header.XForwardedFor)
	back, single := r.hops, has && strings.IndexByte(xff, ',') < 0
	if r.useRemote {
		back, single = r.hops-1, !has
	}
	client := xffClient{}
	if has && back >= 0 {
		client = fromXFF(xff, back)
	}
	inside := single
	if client.ok {
		q.Remote = client.addr
		inside = inside && !client.mapped
	} else {
		q.Remote = c.Remote
		inside = inside && r.useRemote
	}
	q.peer = ""
	if r.useRemote && !r.skipAppend && c.Remote.IP.IsValid() {
		if q.peer = q.RemoteText; q.peer == "" {
			q.peer = keepIP(h, &c.Remote)
		}
		appendXFF(h, xff, q.peer)
	}
	r.transport(h, q)
	q.Internal = inside && r.internal.has(&q.Remote)
	q.Info.Remote = q.Remote
}

// transport sets x-forwarded-proto, x-forwarded-port and :scheme.
func (r *Rules) transport(h *header.Map, q *Request) {
	own := r.useRemote && r.hops == 0 // the connection is the client's own
	// One without a value stays: it has no route.
	if own || !h.HasID(header.XForwardedProto) {
		h.SetID(header.XForwardedProto, schemeOf(q.TLS))
	}
	if r.appendPort && (own || !h.HasID(header.XForwardedPort)) {
		var room [8]byte
		h.SetIDBytes(header.XForwardedPort, strconv.AppendUint(room[:0], uint64(q.Info.Connection.Local.IP.Port()), 10))
	}
	if r.schemeTo != "" {
		h.SetID(header.Scheme, r.schemeTo)
		h.SetID(header.XForwardedProto, r.schemeTo)
		return
	}
	// Envoy's router replaces a scheme that is none later, after the routes.
	switch s := h.Scheme(); {
	case s == "http", s == "https":
	case strings.EqualFold(s, "http"):
		h.SetID(header.Scheme, "http")
	case strings.EqualFold(s, "https"):
		h.SetID(header.Scheme, "https")
	default:
		h.SetID(header.Scheme, believed(h.GetID(header.XForwardedProto), q.TLS))
	}
}

func schemeOf(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

// believed is the scheme that x-forwarded-proto gives, if it gives one.
func believed(proto string, tls bool) string {
	switch {
	case strings.EqualFold(proto, "http"):
		return "http"
	case strings.EqualFold(proto, "https"):
		return "https"
	}
	return schemeOf(tls)
}

// keepIP is an address without its port, as text in the head's memory.
func keepIP(h *header.Map, a *filter.Address) string {
	var room [48]byte
	return h.Keep(a.IP.Addr().AppendTo(room[:0]))
}

// appendXFF appends the peer's address to x-forwarded-for.
func appendXFF(h *header.Map, old, ip string) {
	if old == "" {
		h.SetID(header.XForwardedFor, ip)
		return
	}
	h.AppendValue("x-forwarded-for", ",", ip)
}

// xffClient is an address out of x-forwarded-for.
type xffClient struct {
	addr filter.Address
	// mapped: it is an IPv4 address in IPv6, which no IPv4 range has.
	mapped bool
	ok     bool
}

// fromXFF is the address at a place of x-forwarded-for, counted from its end.
// Addresses with a port or a zone are none.
func fromXFF(xff string, back int) (c xffClient) {
	for ; back > 0; back-- {
		i := strings.LastIndexByte(xff, ',')
		if i < 0 {
			return c
		}
		xff = xff[:i]
	}
	if i := strings.LastIndexByte(xff, ','); i >= 0 {
		xff = xff[i+1:]
	}
	xff = strings.Trim(xff, " \t")
	if xff == "" || len(xff) > 45 {
		return c
	}
	ip, err := netip.ParseAddr(xff)
	if err != nil || ip.Zone() != "" {
		return c
	}
	return xffClient{addr: filter.IPAddress(netip.AddrPortFrom(ip, 0)), mapped: ip.Is4In6(), ok: true}
}
