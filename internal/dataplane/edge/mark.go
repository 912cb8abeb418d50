package edge

import (
	"encoding/binary"

	"github.com/xebec-proxy/xebec/filter/header"
)

// mark sets and removes what says where the request comes from (HC-27, HC-33,
// HC-35, HC-36, HC-53).
func (r *Rules) mark(h *header.Map, q *Request, seen *idSet) {
	edge := !q.Internal && r.useRemote
	if q.Internal {
		h.SetID(header.XEnvoyInternal, "true")
	} else {
		r.sanitize(h, edge, seen)
	}
	if r.userAgent && r.localCluster != "" {
		h.SetID(header.XEnvoyDownstreamServiceCluster, r.localCluster)
		if h.GetID(header.UserAgent) == "" {
			h.SetID(header.UserAgent, r.localCluster)
		}
		if r.localNode != "" {
			h.SetID(header.XEnvoyDownstreamServiceNode, r.localNode)
		}
	}
	if r.via != "" {
		h.AppendValue("via", ", ", r.via)
	}
	if edge && q.Remote.IP.IsValid() {
		ip := q.peer
		if ip == "" || q.Remote.IP.Addr() != q.Info.Connection.Remote.IP.Addr() {
			ip = keepIP(h, &q.Remote)
		}
		h.SetID(header.XEnvoyExternalAddress, ip)
	}
	if r.requestID {
		r.setRequestID(h, q, edge)
	}
	r.clientCerts.apply(h, q)
}

// sanitize removes what only the inside may say. What the edge alone removes is
// told on by the proxies behind it.
func (r *Rules) sanitize(h *header.Map, edge bool, seen *idSet) {
	if edge && seen.meets(&r.sets.sanitizeEdge) {
		for _, id := range r.sets.sanitizeAtEnd {
			h.DelID(id)
		}
	}
	if seen.meets(&r.sets.sanitize) {
		for _, id := range r.sets.sanitizeIDs {
			h.DelID(id)
		}
	}
}

// uuidLength is the length of a UUID; its version is at uuidVersion and says
// whether the request is traced: 4 is no.
const uuidLength, uuidVersion = 36, 14

// setRequestID makes or keeps the request's x-request-id (HC-35). Of an
// outsider's that is kept the trace decision is not.
func (r *Rules) setRequestID(h *header.Map, q *Request, edge bool) {
	old := h.GetID(header.XRequestID)
	if old != "" && (!edge || r.keepExternal) {
		if edge && r.packTrace && len(old) == uuidLength && old[uuidVersion] != '4' {
			var id [uuidLength]byte
			copy(id[:], old)
			id[uuidVersion] = '4'
			h.SetIDBytes(header.XRequestID, id[:])
		}
		return
	}
	var id [uuidLength]byte
	putUUID(&id, q.Random.Uint64(), q.Random.Uint64())
	h.SetIDBytes(header.XRequestID, id[:])
}

// putUUID writes a UUID of version 4 (RFC 9562).
func putUUID(dst *[uuidLength]byte, a, b uint64) {
	a = a&^0xf000 | 0x4000
	b = b&^(3<<62) | 2<<62
	binary.BigEndian.PutUint64(dst[0:], hex8(a>>32))
	mid := hex8(a & 0xffffffff)
	dst[8], dst[13], dst[18], dst[23] = '-', '-', '-', '-'
	binary.BigEndian.PutUint32(dst[9:], uint32(mid>>32))
	binary.BigEndian.PutUint32(dst[14:], uint32(mid&0xffffffff))
	mid = hex8(b >> 32)
	binary.BigEndian.PutUint32(dst[19:], uint32(mid>>32))
	binary.BigEndian.PutUint32(dst[24:], uint32(mid&0xffffffff))
	binary.BigEndian.PutUint64(dst[28:], hex8(b&0xffffffff))
}

// hex8 makes eight hexadecimal digits of 32 bits, all at once: it gives each
// four bits a byte, and adds '0', and for the letters what lies between.
func hex8(v uint64) uint64 {
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & 0x0f0f0f0f0f0f0f0f
	letters := (v + 0x0606060606060606) >> 4 & 0x0101010101010101
	return v + 0x3030303030303030 + letters*('a'-'0'-10)
}
