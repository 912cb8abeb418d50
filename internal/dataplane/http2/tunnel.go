package http2

import (
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Upgrades of HTTP/1 are requests of their own kind in HTTP/2: CONNECT with
// :protocol (RFC 8441). Between the connections a request for an upgrade has the
// form of HTTP/1, whichever way it came: the functions of this file make the one
// of the other. As in Envoy, :protocol bytestream is a plain CONNECT.

// protocolBytestream is the :protocol of a CONNECT that is no upgrade.
const protocolBytestream = "bytestream"

// UpgradeOfRequest makes the upgrade of HTTP/1 of an extended CONNECT, in place,
// and reports whether the request was one. The request's head is valid.
func UpgradeOfRequest(m *header.Map) bool {
	kind, ok := m.LookupID(header.Protocol)
	if !ok || kind == protocolBytestream || m.Method() != methodConnect {
		return false
	}
	m.SetID(header.Method, "GET")
	m.SetID(header.Connection, "upgrade")
	m.SetID(header.Upgrade, kind)
	m.DelID(header.Protocol)
	return true
}

// ConnectOfRequest makes the extended CONNECT of a request for an upgrade in to,
// or the CONNECT that HTTP/2 knows of one that has more than a
// host and a port. It returns the type of the upgrade, or "". ok is false, and
// nothing was done, for all other requests.
func ConnectOfRequest(m, to *header.Map) (kind string, ok bool) {
	switch {
	case IsUpgrade(m):
		kind = m.GetID(header.Upgrade)
		to.CopyFrom(m)
		to.SetID(header.Method, methodConnect)
		to.SetID(header.Protocol, kind)
		withoutUpgrade(to)
		return kind, true
	case m.Method() == methodConnect && (m.HasID(header.Path) || m.HasID(header.Scheme) || m.HasID(header.Protocol)):
		to.CopyFrom(m)
		to.DelID(header.Path)
		to.DelID(header.Scheme)
		to.DelID(header.Protocol)
		return "", true
	}
	return "", false
}

// UpgradeOfResponse makes the 101 of HTTP/1 of the response to an extended
// CONNECT, in place, if it accepts it.
func UpgradeOfResponse(m *header.Map, kind string) {
	if m.Status() != 200 {
		return
	}
	m.SetID(header.Status, "101")
	m.SetID(header.Upgrade, kind)
	m.SetID(header.Connection, "upgrade")
}

// ConnectOfResponse makes the 200 to an extended CONNECT of a 101 in to. ok is false, and nothing was done, for all other responses.
func ConnectOfResponse(m, to *header.Map) (ok bool) {
	if m.Status() != 101 || !IsUpgrade(m) {
		return false
	}
	to.CopyFrom(m)
	to.SetID(header.Status, "200")
	withoutUpgrade(to)
	return true
}

// withoutUpgrade removes what belongs to HTTP/1's form, with a content-length of
// 0: a tunnel has none.
func withoutUpgrade(m *header.Map) {
	m.DelID(header.Upgrade)
	m.DelID(header.Connection)
	if m.GetID(header.ContentLength) == "0" {
		m.DelID(header.ContentLength)
	}
}

// IsUpgrade reports whether a message asks for an upgrade of HTTP/1, or grants it.
func IsUpgrade(m *header.Map) bool {
	if m.GetID(header.Upgrade) == "" {
		return false
	}
	for option := range strings.SplitSeq(m.GetID(header.Connection), ",") {
		if strings.EqualFold(strings.Trim(option, " \t"), "upgrade") {
			return true
		}
	}
	return false
}
