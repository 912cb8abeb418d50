package hcm

import (
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/edge"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

func reasonOf(status int) string { return http1.Reason(status) }

// Encoded1xx implements chain.Owner.
func (s *Stream) Encoded1xx(h *header.Map) {
	if s.finished || s.respHead || h.Status() == 100 && !s.cfg.Proxy100 {
		return
	}
	s.countStatus(h.Status())
	s.codec.informational(s, h)
}

// EncodedHeaders implements chain.Owner: the head goes to the client.
func (s *Stream) EncodedHeaders(h *header.Map, end bool) {
	if s.finished || s.respHead {
		return
	}
	s.resp = h
	status := h.Status()
	r := &s.edgeResp
	*r = edge.Response{}
	r.Info, r.Date, r.Upgrade, r.Request = &s.info, s.w.Date(), s.upgrade && status == 101, &s.edge
	s.cfg.Rules.Response(&s.req, h, r)
	s.upgraded = s.upgrade && !end && (status == 101 || s.method == methodConnect && status/100 == 2)
	s.requestT.Stop() // as in Envoy: what has an answer is not late
	s.respHead = true
	s.info.ResponseCode = status
	s.info.ResponseHeadersBytes = uint64(h.Size())
	now := s.w.Loop.Now()
	s.info.Timing.FirstTx = now
	s.activity()
	s.countStatus(status)
	if !s.reqEnd {
		s.w.Stats.Inc(s.cfg.Stats.RqBeforeComplete)
	}
	if end {
		s.responseEnds()
	}
	s.codec.writeHead(s, h, end)
	if end {
		s.afterResponse()
	}
}

// EncodedData implements chain.Owner.
func (s *Stream) EncodedData(b []byte, end bool) {
	if s.finished || s.responded {
		return
	}
	s.info.BytesSent += uint64(len(b))
	s.activity()
	if end {
		s.responseEnds()
	}
	s.codec.data(s, b, end)
	if end {
		s.afterResponse()
	}
}

// EncodedTrailers implements chain.Owner.
func (s *Stream) EncodedTrailers(t *header.Map) {
	if s.finished || s.responded {
		return
	}
	s.info.ResponseTrailersLen = uint64(t.Size())
	s.responseEnds()
	s.codec.trailers(s, t)
	s.afterResponse()
}

// responseEnds notes that what goes to the codec now is the last.
func (s *Stream) responseEnds() {
	s.responded = true
	s.info.Timing.LastTx = s.w.Loop.Now()
}

// afterResponse ends the stream, or waits for what it still waits for.
func (s *Stream) afterResponse() {
	if s.finished {
		return
	}
	s.codec.responded(s, s.reqEnd)
}

func (s *Stream) countStatus(status int) {
	st, ls, sh := s.cfg.Stats, s.cfg.Listener, s.w.Stats
	sh.Inc(st.RqCompleted)
	sh.Inc(ls.RqCompleted)
	switch status / 100 {
	case 1:
		sh.Inc(st.Rq1xx)
		sh.Inc(ls.Rq1xx)
	case 2:
		sh.Inc(st.Rq2xx)
		sh.Inc(ls.Rq2xx)
	case 3:
		sh.Inc(st.Rq3xx)
		sh.Inc(ls.Rq3xx)
	case 4:
		sh.Inc(st.Rq4xx)
		sh.Inc(ls.Rq4xx)
	case 5:
		sh.Inc(st.Rq5xx)
		sh.Inc(ls.Rq5xx)
	}
}

// FillLocalReply implements chain.Owner (HC-48).
func (s *Stream) FillLocalReply(r *filter.LocalReply, h *header.Map) string {
	s.setDetails(r.Details)
	if r.Details == "request_payload_too_large" {
		s.w.Stats.Inc(s.cfg.Stats.RqTooLarge)
	}
	s.info.ResponseCode = r.Status // encoders may ask for it
	body := r.Body
	http1 := s.info.Protocol < filter.HTTP2
	if r.Status == 400 && http1 && !s.cfg.StreamErrorOnInvalid {
		s.closeAfter = true // the messages may not be told apart any more
	}
	if isGRPC(&s.req) {
		s.fillGRPC(r, h)
		body = ""
	} else {
		h.AddID(header.Status, statusText(r.Status, h))
		s.finalizeLocal(h)
		if r.Edit != nil {
			r.Edit(h)
		}
		if body != "" {
			h.SetID(header.ContentLength, s.w.Itoa(int64(len(body)), h))
			if !h.HasID(header.ContentType) {
				h.AddID(header.ContentType, "text/plain")
			}
		} else {
			h.DelID(header.ContentType) // of nothing, whoever added it
		}
	}
	if s.method != "HEAD" {
		return body
	}
	if body == "" && http1 && h.Status() != 204 && h.Status() != 304 {
		h.SetID(header.ContentLength, "0")
	}
	return ""
}

// finalizeLocal applies the response headers of a route that forwards to the
// proxy's own answer; those of other routes are a part of their answer.
func (s *Stream) finalizeLocal(h *header.Map) {
	if s.entry != nil && s.entry.Kind() == route.Forward {
		s.rctx.Response = h
		s.entry.FinalizeResponse(&s.rctx, s.target)
	}
}

// statusText is a status as a string; usual ones are not made anew.
func statusText(status int, h *header.Map) string {
	switch status {
	case 200:
		return "200"
	case 404:
		return "404"
	case 503:
		return "503"
	}
	return h.Keep(strconv.AppendInt(nil, int64(status), 10))
}

func isGRPC(h *header.Map) bool {
	t := h.GetID(header.ContentType)
	const prefix = "application/grpc"
	return strings.HasPrefix(t, prefix) && (len(t) == len(prefix) || t[len(prefix)] == '+')
}

// fillGRPC makes a trailers-only response.
func (s *Stream) fillGRPC(r *filter.LocalReply, h *header.Map) {
	h.AddID(header.Status, "200")
	s.finalizeLocal(h)
	if r.Edit != nil {
		r.Edit(h)
	}
	h.SetID(header.ContentType, "application/grpc")
	code := grpcStatus(r.Status)
	if r.GRPCSet {
		code = r.GRPCStatus
	}
	h.AddID(header.GRPCStatus, strconv.FormatUint(uint64(code), 10))
	if r.Body != "" && s.method != "HEAD" {
		h.AddID(header.GRPCMessage, percentEncode(r.Body))
	}
}

// grpcStatus is the code of a HTTP status (HC-48).
func grpcStatus(status int) uint32 {
	switch status {
	case 400:
		return 13
	case 401:
		return 16
	case 403:
		return 7
	case 404:
		return 12
	case 429, 502, 503, 504:
		return 14
	}
	return 2
}

func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == '%' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}
