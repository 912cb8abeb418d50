package edge

import "github.com/xebec-proxy/xebec/filter/header"

// idSet is a set of known header names.
type idSet [2]uint64

func setOf(ids []header.ID) (s idSet) {
	for _, id := range ids {
		s[id>>6] |= 1 << (id & 63)
	}
	return s
}

func (s *idSet) has(id header.ID) bool { return s[id>>6]&(1<<(id&63)) != 0 }

// meets reports whether two sets have a name in common.
func (s *idSet) meets(o *idSet) bool { return s[0]&o[0]|s[1]&o[1] != 0 }

// sets are the groups of names that the rules treat alike.
type sets struct {
	foldRequest, foldResponse  idSet
	sanitize, sanitizeEdge     idSet
	hopByHop                   idSet
	sanitizeIDs, sanitizeAtEnd []header.ID
}

func newSets() sets {
	all := []header.ID{
		header.XEnvoyRetriableStatusCodes, header.XEnvoyRetriableHeaderNames, header.XEnvoyRetryOn, header.XEnvoyRetryGRPCOn,
		header.XEnvoyMaxRetries, header.XEnvoyUpstreamAltStatName, header.XEnvoyUpstreamRQTimeoutMS, header.XEnvoyUpstreamRQPerTryTimeoutMS,
		header.XEnvoyUpstreamRQTimeoutAltResponse, header.XEnvoyExpectedRQTimeoutMS, header.XEnvoyForceTrace, header.XEnvoyIPTags,
		header.XEnvoyHedgeOnPerTryTimeout,
	}
	atEdge := []header.ID{
		header.XEnvoyDecoratorOperation, header.XEnvoyDownstreamServiceCluster, header.XEnvoyDownstreamServiceNode,
		header.XEnvoyOriginalPath, header.XEnvoyOriginalHost,
	}
	return sets{
		sanitizeIDs: all, sanitize: setOf(all), sanitizeAtEnd: atEdge, sanitizeEdge: setOf(atEdge),
		hopByHop: setOf([]header.ID{
			header.Connection, header.KeepAlive, header.ProxyConnection, header.TransferEncoding, header.Upgrade, header.TE, header.XEnvoyInternal,
		}),
		foldRequest: setOf([]header.ID{
			header.Connection, header.TE, header.Expect, header.Accept, header.ContentEncoding, header.AcceptEncoding, header.UserAgent,
			header.Via, header.CacheControl, header.Referer, header.Origin, header.Authorization, header.ContentType,
			header.XForwardedFor, header.XForwardedProto, header.XForwardedHost, header.XForwardedPort, header.XForwardedClientCert,
			header.XRequestID, header.XEnvoyExternalAddress, header.XEnvoyAttemptCount, header.XEnvoyOriginalPath, header.XEnvoyOriginalHost,
			header.XEnvoyDecoratorOperation, header.XEnvoyDownstreamServiceCluster, header.XEnvoyDownstreamServiceNode,
			header.XEnvoyIsTimeoutRetry, header.XClientTraceID, header.GRPCTimeout, header.GRPCAcceptEncoding,
			header.XEnvoyRetryOn, header.XEnvoyRetryGRPCOn, header.XEnvoyMaxRetries, header.XEnvoyUpstreamAltStatName,
			header.XEnvoyUpstreamRQTimeoutMS, header.XEnvoyUpstreamRQPerTryTimeoutMS, header.XEnvoyUpstreamRQTimeoutAltResponse,
			header.XEnvoyExpectedRQTimeoutMS, header.XEnvoyForceTrace, header.XEnvoyIPTags, header.XEnvoyHedgeOnPerTryTimeout,
			header.XEnvoyRetriableStatusCodes, header.XEnvoyRetriableHeaderNames,
		}),
		foldResponse: setOf([]header.ID{
			header.Connection, header.ContentEncoding, header.Date, header.Server, header.Via, header.Location, header.CacheControl,
			header.ETag, header.LastModified, header.Vary, header.XRequestID, header.XEnvoyUpstreamServiceTime, header.XEnvoyAttemptCount,
			header.XEnvoyDecoratorOperation, header.XEnvoyDegraded, header.XEnvoyImmediateHealthCheckFail, header.XEnvoyUpstreamCanary,
			header.XEnvoyRatelimited, header.GRPCStatus, header.GRPCMessage, header.ContentType,
		}),
	}
}

// scan is the set of known names in a message. Of those in folded that occur
// several times one field is made, with the values joined by commas, as Envoy
// does: a client must not hide a value behind another of the same name.
func scan(h *header.Map, folded *idSet) (seen idSet) {
	var twice idSet
	fields := h.Fields()
	for i := range fields {
		id := fields[i].ID()
		w, b := (id>>6)&1, uint64(1)<<(id&63)
		twice[w] |= seen[w] & b
		seen[w] |= b
	}
	if twice.meets(folded) {
		for i := range fields {
			if id := fields[i].ID(); id != header.Other && twice.has(id) && folded.has(id) {
				fold(h, i, id)
			}
		}
	}
	return seen
}

// fold joins the fields of a name into the first of them.
func fold(h *header.Map, first int, id header.ID) {
	fields := h.Fields()
	size, more := 0, false
	for i := first; i < len(fields); i++ {
		if fields[i].ID() == id {
			size += len(fields[i].Value) + 1
			more = more || i > first
		}
	}
	if !more {
		return
	}
	joined := make([]byte, 0, size)
	for i := first; i < len(fields); i++ {
		if fields[i].ID() != id {
			continue
		}
		if v := fields[i].Value; v != "" {
			if len(joined) > 0 {
				joined = append(joined, ',')
			}
			joined = append(joined, v...)
		}
		if i > first {
			h.DelAt(i)
		}
	}
	h.SetAt(first, h.Keep(joined))
}
