package router

import (
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
)

// tunnel is what a request asks for besides a response (HC-43 to HC-46).
type tunnel uint8

const (
	noTunnel tunnel = iota
	websocket
	upgrade // of another type
	connect
)

func tunnelOf(h *header.Map) tunnel {
	switch {
	case h.Method() == "CONNECT":
		return connect
	case !http2.IsUpgrade(h):
		return noTunnel
	case strings.EqualFold(h.GetID(header.Upgrade), "websocket"):
		return websocket
	}
	return upgrade
}

// waits tells whether what the client sends through the tunnel stays here until
// the host has agreed: a host that does not could take it for a request. As in
// Envoy, upgrades of other types may have a body that the host asks for first.
func (t tunnel) waits() bool { return t == websocket || t == connect }

// grants tells whether a status opens the tunnel.
func (t tunnel) grants(status int) bool {
	switch t {
	case websocket, upgrade:
		return status == 101
	case connect:
		return status/100 == 2
	}
	return false
}

// grant looks whether the response's head opens the tunnel: then there is no time
// within which the stream has to end, and what has waited goes out.
func (u *upstream) grant() {
	f := u.f
	if !f.tunnel.grants(u.resp.Status()) {
		return
	}
	f.granted = true
	f.routeTimer.Stop()
	f.keeping = false
	f.kept.Reset()
	if u.awaits {
		u.awaits = false
		u.flushWaiting()
	}
}

// refuseTunnel ends a stream whose response HTTP/2 cannot say to its client, for
// there is no 101 and any 2xx is a consent; true if so. To a refusal it answers
// as Envoy: the status alone, and the end of the stream.
func (f *Filter) refuseTunnel(status int) bool {
	switch {
	case f.host.DownstreamProtocol() < filter.HTTP2:
		return false
	case status == 101:
		if http2.IsUpgrade(&f.up.resp) {
			return false
		}
		f.up.cancel()
		f.onReset(pool.ProtocolError, "")
		return true
	case f.tunnel == connect || f.info.Upstream.Protocol >= filter.HTTP2 || status/100 > 3:
		return false
	}
	f.cleanup()
	f.host.Chain().LocalReply(&filter.LocalReply{Status: status, Details: "websocket_handshake_unsuccessful", Edit: f.sayAttempts})
	return true
}
