package edge

import (
	"math/rand/v2"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Request is what is known of a request besides its head, and what the rules
// find out.
type Request struct {
	// Info is the stream; its Connection is set. Remote is set by the rules.
	Info     *filter.StreamInfo
	Protocol filter.Protocol
	// TLS: the connection is encrypted.
	TLS bool
	// Random is what identifiers are made of.
	Random rand.Source
	// RemoteText is the IP address of Info.Connection.Remote as text, if the caller has
	// it at hand.
	RemoteText string
	// Upgrade: an HTTP/1 message asks for an upgrade, whose headers stay.
	Upgrade bool

	// UpgradeType is the protocol it asks for, in lower case; "connect" for
	// CONNECT.
	UpgradeType string
	// ConnectPort is what was stripped off the authority of a CONNECT, with its
	// colon: the port it goes to is wanted after routing, and "" otherwise.
	ConnectPort string
	// Expect100: the client waits for a 100 Continue.
	Expect100 bool
	// Internal: the request comes from inside (HC-32).
	Internal bool
	// Remote is the trusted client.
	Remote filter.Address

	peer string // the peer's address as it was appended to x-forwarded-for
}

// Verdict is what becomes of a request.
type Verdict struct {
	// Status is 0 to go on, or that of the local reply.
	Status        int
	Body, Details string
	Flag          filter.Flags
	// Location is that of a redirect.
	Location string
	Close    bool
}

// Request applies the rules to a request's head, in Envoy's order: what is
// asked is settled first (Expect, host, path), then who asks and what may be
// said of it (HC-01). It is called once a request and allocates nothing for a
// usual one.
func (r *Rules) Request(h *header.Map, q *Request) Verdict {
	seen := scan(h, &r.sets.foldRequest)
	if !r.proxy100 && seen.has(header.Expect) && strings.EqualFold(h.GetID(header.Expect), "100-continue") {
		q.Expect100 = true
		h.DelID(header.Expect)
	}
	if status, details := r.check(h, q); status != 0 {
		return refuse(status, details)
	}
	if v := r.path(h); v.Status != 0 {
		return v
	}
	if r.stripDot {
		stripDot(h)
	}
	if r.stripAny || r.stripMatch {
		r.stripPort(h, q)
	}
	if seen.meets(&r.sets.hopByHop) || q.Upgrade {
		hopByHop(h, q)
	}
	if seen.has(header.Referer) && !validReferer(h.GetID(header.Referer)) {
		h.DelID(header.Referer)
	}
	r.identify(h, q)
	r.mark(h, q, &seen)
	return Verdict{}
}

// The response code details of refusals.
const (
	detailNoHost       = "missing_host_header"
	detailNoPath       = "missing_path_rejected"
	detailAbsolutePath = "absolute_path_rejected"
	detailHTTPS        = "http1.https_url_on_plaintext_connection"
)

// check refuses requests without a host or a path, and a URL with https on a
// plain connection that is the client's own (HC-51). The codecs have looked at
// the authority's characters.
func (r *Rules) check(h *header.Map, q *Request) (status int, details string) {
	if !h.HasID(header.Authority) {
		return 400, detailNoHost
	}
	http1 := q.Protocol == filter.HTTP11 || q.Protocol == filter.HTTP10
	if http1 && r.useRemote && r.hops == 0 && !q.TLS && h.Scheme() == "https" {
		return 403, detailHTTPS
	}
	p, ok := h.LookupID(header.Path)
	switch {
	case p == "" && (ok || h.Method() != "CONNECT"):
		return 404, detailNoPath
	case p != "" && p[0] != '/':
		return 404, detailAbsolutePath
	}
	return 0, ""
}

func refuse(status int, details string) Verdict {
	v := Verdict{Status: status, Details: details}
	if details == detailHTTPS {
		v.Body, v.Flag, v.Close = "Forbidden", filter.FlagDownstreamProtocolError, true
	}
	return v
}

// portAt is the index of the colon before a port, or that of the end. A colon
// within brackets belongs to an IPv6 address.
func portAt(a string) int {
	if i := strings.LastIndexByte(a, ':'); i >= 0 && i > strings.LastIndexByte(a, ']') {
		return i
	}
	return len(a)
}

// stripPort takes the port off :authority (HC-41), CONNECT included.
func (r *Rules) stripPort(h *header.Map, q *Request) {
	a := h.Authority()
	i := portAt(a)
	if i == len(a) {
		return
	}
	port, ok := uint64(0), i+1 < len(a) && len(a)-i <= 11
	for _, c := range []byte(a[i+1:]) {
		ok = ok && c >= '0' && c <= '9'
		port = port*10 + uint64(c-'0')
	}
	if ok && (r.stripAny || port == uint64(q.Info.Connection.Local.IP.Port())) {
		if h.Method() == "CONNECT" {
			q.ConnectPort = a[i:]
		}
		h.SetID(header.Authority, a[:i])
	}
}

// stripDot takes one dot off the end of the host in :authority (HC-41).
func stripDot(h *header.Map) {
	a := h.Authority()
	switch i := portAt(a); {
	case i == 0 || a[i-1] != '.':
	case i == len(a):
		h.SetID(header.Authority, a[:i-1])
	default:
		var room [128]byte
		h.SetIDBytes(header.Authority, append(append(room[:0], a[:i-1]...), a[i:]...))
	}
}

// hopByHop removes what belongs to this connection only (HC-29).
func hopByHop(h *header.Map, q *Request) {
	switch {
	case h.Method() == "CONNECT":
		q.UpgradeType = "connect"
		h.DelID(header.Connection)
		h.DelID(header.Upgrade)
	case q.Upgrade:
		q.UpgradeType = strings.ToLower(h.GetID(header.Upgrade))
	default:
		if v, ok := h.LookupID(header.Connection); ok {
			nominated(h, v)
			h.DelID(header.Connection)
		}
		h.DelID(header.Upgrade)
	}
	keepTrailers(h)
	h.DelID(header.XEnvoyInternal)
	h.DelID(header.KeepAlive)
	h.DelID(header.ProxyConnection)
	h.DelID(header.TransferEncoding)
}

// nextElement takes the first element off a list with commas.
func nextElement(list string) (element, rest string) {
	element, rest, _ = strings.Cut(list, ",")
	return strings.Trim(element, " \t"), rest
}

// keepTrailers leaves of TE only "trailers".
func keepTrailers(h *header.Map) {
	v, ok := h.LookupID(header.TE)
	if !ok || v == "trailers" || v == "" {
		return
	}
	for element := ""; v != ""; {
		if element, v = nextElement(v); element == "trailers" {
			h.SetID(header.TE, "trailers")
			return
		}
	}
	h.DelID(header.TE)
}

// nominated removes the headers that a Connection header names. The pseudo
// headers are never removed; te stays if it asks for trailers.
func nominated(h *header.Map, list string) {
	for name := ""; list != ""; {
		name, list = nextElement(list)
		switch {
		case name == "keep-alive", name == "", name[0] == ':', strings.EqualFold(name, "close"), strings.EqualFold(name, "keep-alive"), strings.EqualFold(name, "connection"):
		case strings.EqualFold(name, "te"):
			nominatedTE(h)
		default:
			h.Del(strings.ToLower(name))
		}
	}
}

// nominatedTE is stricter and laxer than keepTrailers: an element in any case
// will do, and an empty value goes.
func nominatedTE(h *header.Map) {
	for v, element := h.GetID(header.TE), ""; v != ""; {
		if element, v = nextElement(v); strings.EqualFold(element, "trailers") {
			h.SetID(header.TE, "trailers")
			return
		}
	}
	h.DelID(header.TE)
}
