package edge

import (
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Response is what is known of a response besides its head.
type Response struct {
	Info *filter.StreamInfo
	// Date is the present time for responses without a date.
	Date string
	// Upgrade: it grants an upgrade, whose headers stay.
	Upgrade bool
	Request *Request
}

// Response applies the rules to a response's head, local replies included
// (HC-27 … HC-29, HC-35). req is the request's head as the filters left it.
func (r *Rules) Response(req, h *header.Map, q *Response) {
	seen := scan(h, &r.sets.foldResponse)
	if seen.meets(&r.sets.hopByHop) {
		responseHops(h, q)
	}
	if !seen.has(header.Date) {
		h.SetID(header.Date, q.Date)
	}
	if r.serverMode == hcmv3.HttpConnectionManager_OVERWRITE || r.serverMode == hcmv3.HttpConnectionManager_APPEND_IF_ABSENT && !seen.has(header.Server) {
		h.SetID(header.Server, r.server)
	}
	if r.answerID || req.HasID(header.XEnvoyForceTrace) {
		if id, ok := req.LookupID(header.XRequestID); ok {
			h.SetID(header.XRequestID, id)
		}
	}
	if r.via != "" {
		h.AppendValue("via", ", ", r.via)
	}
}

func responseHops(h *header.Map, q *Response) {
	if !q.Upgrade {
		if v, ok := h.LookupID(header.Connection); ok {
			nominated(h, v)
			h.DelID(header.Connection)
		}
		h.DelID(header.Upgrade)
	}
	h.DelID(header.TransferEncoding)
	h.DelID(header.KeepAlive)
	h.DelID(header.ProxyConnection)
}
