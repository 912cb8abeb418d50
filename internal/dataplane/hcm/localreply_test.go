package hcm

import (
	"testing"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// replyOf is the head and body of a local reply to a request.
func replyOf(p filter.Protocol, method, contentType string, r *filter.LocalReply) (*Stream, *header.Map, string) {
	s := &Stream{cfg: &Config{}, w: &worker.Worker{}, method: method}
	s.info.Protocol = p
	if contentType != "" {
		s.req.Add("content-type", contentType)
	}
	h := &header.Map{}
	body := s.FillLocalReply(r, h)
	return s, h, body
}

// Proves HC-48: heads and bodies as Envoy 1.40 makes them; only the
// content-length of an empty answer to HEAD is not Envoy's.
func TestLocalReplies(t *testing.T) {
	html := func(h *header.Map) { h.Add("content-type", "text/html"); h.Add("x-z", "1") }
	const grpc = "application/grpc"
	for _, tc := range []struct {
		name, method, contentType string
		protocol                  filter.Protocol
		reply                     filter.LocalReply
		head, body                string
	}{
		{"with body", "GET", "", filter.HTTP11, filter.LocalReply{Status: 503, Body: "gone"}, ":status: 503\ncontent-length: 4\ncontent-type: text/plain\n", "gone"},
		{"without body", "GET", "", filter.HTTP11, filter.LocalReply{Status: 404}, ":status: 404\n", ""},
		{"edited", "GET", "", filter.HTTP11, filter.LocalReply{Status: 200, Body: "x", Edit: html}, ":status: 200\ncontent-type: text/html\nx-z: 1\ncontent-length: 1\n", "x"},
		{"edited without body", "GET", "", filter.HTTP11, filter.LocalReply{Status: 200, Edit: html}, ":status: 200\nx-z: 1\n", ""},
		{"HEAD with body", "HEAD", "", filter.HTTP11, filter.LocalReply{Status: 404, Body: "gone"}, ":status: 404\ncontent-length: 4\ncontent-type: text/plain\n", ""},
		{"HEAD without body", "HEAD", "", filter.HTTP11, filter.LocalReply{Status: 404}, ":status: 404\ncontent-length: 0\n", ""},
		{"HEAD 204", "HEAD", "", filter.HTTP11, filter.LocalReply{Status: 204}, ":status: 204\n", ""},
		{"HEAD 304", "HEAD", "", filter.HTTP11, filter.LocalReply{Status: 304}, ":status: 304\n", ""},
		{"HEAD on HTTP/2", "HEAD", "", filter.HTTP2, filter.LocalReply{Status: 404}, ":status: 404\n", ""},
		{"gRPC", "POST", grpc, filter.HTTP2, filter.LocalReply{Status: 503, Body: "msg é 100%\n"}, ":status: 200\ncontent-type: application/grpc\ngrpc-status: 14\ngrpc-message: msg %C3%A9 100%25%0A\n", ""},
		{"gRPC of a kind", "POST", grpc + "+proto", filter.HTTP2, filter.LocalReply{Status: 404}, ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12\n", ""},
		{"gRPC-Web", "POST", grpc + "-web", filter.HTTP2, filter.LocalReply{Status: 404}, ":status: 404\n", ""},
		{"not gRPC by a parameter", "POST", grpc + ";charset=x", filter.HTTP2, filter.LocalReply{Status: 404}, ":status: 404\n", ""},
		{"not gRPC in capitals", "POST", "Application/grpc", filter.HTTP2, filter.LocalReply{Status: 404}, ":status: 404\n", ""},
		{"gRPC edited", "POST", grpc, filter.HTTP2, filter.LocalReply{Status: 200, Body: "x", Edit: html}, ":status: 200\ncontent-type: application/grpc\nx-z: 1\ngrpc-status: 2\ngrpc-message: x\n", ""},
		{"gRPC with its own status", "POST", grpc, filter.HTTP2, filter.LocalReply{Status: 504, GRPCSet: true, GRPCStatus: 4}, ":status: 200\ncontent-type: application/grpc\ngrpc-status: 4\n", ""},
		{"gRPC HEAD", "HEAD", grpc, filter.HTTP11, filter.LocalReply{Status: 404, Body: "x"}, ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12\ncontent-length: 0\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, h, body := replyOf(tc.protocol, tc.method, tc.contentType, &tc.reply)
			if h.String() != tc.head || body != tc.body {
				t.Errorf("got\n%s%q, want\n%s%q", h.String(), body, tc.head, tc.body)
			}
		})
	}
}

// Proves HC-48: the mapping of statuses.
func TestGRPCStatuses(t *testing.T) {
	want := map[int]string{400: "13", 401: "16", 403: "7", 404: "12", 429: "14", 502: "14", 503: "14", 504: "14"}
	for _, status := range []int{200, 204, 304, 400, 401, 403, 404, 405, 408, 409, 413, 426, 429, 431, 500, 501, 502, 503, 504} {
		code := want[status]
		if code == "" {
			code = "2"
		}
		_, h, _ := replyOf(filter.HTTP2, "POST", "application/grpc", &filter.LocalReply{Status: status})
		if got := h.Get("grpc-status"); got != code {
			t.Errorf("%d has grpc-status %s, want %s", status, got, code)
		}
	}
}

// A 400 of the proxy's own ends an HTTP/1 connection, unless
// stream_error_on_invalid_http_message is set.
func TestBadRequestsClose(t *testing.T) {
	for _, tc := range []struct {
		protocol     filter.Protocol
		status       int
		streamErrors bool
		want         bool
	}{
		{filter.HTTP11, 400, false, true},
		{filter.HTTP11, 404, false, false},
		{filter.HTTP11, 400, true, false},
		{filter.HTTP2, 400, false, false},
	} {
		s := &Stream{cfg: &Config{StreamErrorOnInvalid: tc.streamErrors}, w: &worker.Worker{}, method: "GET"}
		s.info.Protocol = tc.protocol
		s.FillLocalReply(&filter.LocalReply{Status: tc.status}, &header.Map{})
		if s.closeAfter != tc.want {
			t.Errorf("%s %d: closes %t, want %t", tc.protocol, tc.status, s.closeAfter, tc.want)
		}
	}
}
