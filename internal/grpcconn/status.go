package grpcconn

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/clip"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// maxText bounds what a server says in an error.
const maxText = 2 << 10

// verdict is the error that trailers say, nil for OK.
func verdict(m *header.Map) error {
	v, ok := m.LookupID(header.GRPCStatus)
	if !ok {
		return status.Error(codes.Unknown, "the server ended the stream without a grpc-status")
	}
	code, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return status.Errorf(codes.Unknown, "the server ended the stream with the grpc-status %q", clip.Text(v, maxText))
	}
	if code == 0 {
		return nil
	}
	return status.Error(codes.Code(code), percentDecoded(clip.Text(m.GetID(header.GRPCMessage), maxText))) //nolint:gosec // at most 31 bits
}

// percentDecoded undoes the encoding of grpc-message. What is not encoded well
// stays as it is, as the protocol has it.
func percentDecoded(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(v))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// foreign is the error of an answer that is not gRPC, nil for one that is.
func foreign(m *header.Map) error {
	st, ct := m.Status(), m.GetID(header.ContentType)
	switch {
	case st != 200:
		return status.Errorf(ofHTTP(st), "the server answers with HTTP status %d", st)
	case !isGRPC(ct):
		return status.Errorf(codes.Unknown, "the server answers with content-type %q, not application/grpc", clip.Text(ct, maxText))
	}
	return nil
}

func isGRPC(contentType string) bool {
	const own = "application/grpc"
	if len(contentType) < len(own) || !strings.EqualFold(contentType[:len(own)], own) {
		return false
	}
	rest := contentType[len(own):]
	return rest == "" || rest[0] == '+' || rest[0] == ';'
}

// ofHTTP is the code for an HTTP status (grpc/doc/http-grpc-status-mapping.md).
func ofHTTP(st int) codes.Code {
	switch st {
	case 400:
		return codes.Internal
	case 401:
		return codes.Unauthenticated
	case 403:
		return codes.PermissionDenied
	case 404:
		return codes.Unimplemented
	case 429, 502, 503, 504:
		return codes.Unavailable
	}
	return codes.Unknown
}

// ofReset is the code for an error code of HTTP/2 (PROTOCOL-HTTP2.md, "Errors").
func ofReset(code http2.ErrCode) codes.Code {
	switch code {
	case http2.RefusedStream:
		return codes.Unavailable
	case http2.Cancel:
		return codes.Canceled
	case http2.EnhanceYourCalm:
		return codes.ResourceExhausted
	case http2.InadequateSecurity:
		return codes.PermissionDenied
	}
	return codes.Internal
}
