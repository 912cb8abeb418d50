package grpcconn

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		status, message string
		code            codes.Code
		text            string
	}{
		{"0", "ignored", codes.OK, ""},
		{"5", "there%20is%20none", codes.NotFound, "there is none"},
		{"14", "50% off, %zz", codes.Unavailable, "50% off, %zz"},
		{"13", "%", codes.Internal, "%"},
		{"2", "%ff", codes.Unknown, "\ufffd"},
		{"99", "", codes.Code(99), ""},
		{"-1", "", codes.Unknown, `the server ended the stream with the grpc-status "-1"`},
		{"4294967296", "", codes.Unknown, `the server ended the stream with the grpc-status "4294967296"`},
		{"", "", codes.Unknown, "the server ended the stream without a grpc-status"},
		{"1", strings.Repeat("a", maxText+1), codes.Canceled, strings.Repeat("a", maxText)},
	} {
		var m header.Map
		if c.status != "" {
			m.Add("grpc-status", c.status)
		}
		m.Add("grpc-message", c.message)
		st := status.Convert(verdict(&m))
		if st.Code() != c.code || st.Message() != c.text {
			t.Errorf("%q, %q: got %v", c.status, c.message, st)
		}
	}
}

func TestForeignAnswers(t *testing.T) {
	for _, c := range []struct {
		status, contentType string
		want                codes.Code
	}{
		{"200", "application/grpc", codes.OK},
		{"200", "application/grpc+proto", codes.OK},
		{"200", "Application/gRPC;x=y", codes.OK},
		{"200", "application/grpc-web", codes.Unknown},
		{"200", "text/html", codes.Unknown},
		{"200", "", codes.Unknown},
		{"400", "application/grpc", codes.Internal},
		{"401", "", codes.Unauthenticated},
		{"403", "", codes.PermissionDenied},
		{"404", "", codes.Unimplemented},
		{"429", "", codes.Unavailable},
		{"502", "", codes.Unavailable},
		{"503", "", codes.Unavailable},
		{"504", "", codes.Unavailable},
		{"500", "", codes.Unknown},
	} {
		var m header.Map
		m.Add(":status", c.status)
		m.Add("content-type", c.contentType)
		if err := foreign(&m); status.Code(err) != c.want {
			t.Errorf("%s %q: got %v", c.status, c.contentType, err)
		}
	}
}

func TestResets(t *testing.T) {
	for code, want := range map[http2.ErrCode]codes.Code{
		http2.NoError: codes.Internal, http2.ProtocolError: codes.Internal, http2.RefusedStream: codes.Unavailable,
		http2.Cancel: codes.Canceled, http2.EnhanceYourCalm: codes.ResourceExhausted, http2.InadequateSecurity: codes.PermissionDenied,
	} {
		if got := ofReset(code); got != want {
			t.Errorf("%s: got %s", code, got)
		}
	}
}
