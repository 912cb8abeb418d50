package redact_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/redact"
)

// Credentials of gRPC services are not shown, also those that the proto files do
// not mark.
func TestCredentials(t *testing.T) {
	for _, text := range []string{
		`{"callCredentials": [{"accessToken": "s3cret"}]}`,
		`{"callCredentials": [{"googleRefreshToken": "s3cret"}]}`,
		`{"callCredentials": [{"serviceAccountJwtAccess": {"jsonKey": "s3cret"}}]}`,
		`{"callCredentials": [{"googleIam": {"authorizationToken": "s3cret"}}]}`,
		`{"channelCredentials": {"sslCredentials": {"privateKey": {"inlineString": "s3cret"}}}}`,
	} {
		var m corev3.GrpcService_GoogleGrpc
		if err := protojson.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		redact.Message(m.ProtoReflect())
		out, err := protojson.Marshal(&m)
		if err != nil || strings.Contains(string(out), "s3cret") || !strings.Contains(string(out), "redacted") {
			t.Errorf("%s is shown as %s, %v", text, out, err)
		}
	}
}
