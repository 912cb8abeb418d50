package demo

import (
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/internal/localcert"
)

const day = 24 * time.Hour

// newAuthority signs the certificates of the proxy's port with TLS. It lives as
// long as the demo does.
func newAuthority() (*localcert.Authority, error) {
	return localcert.New("xebec demo", 2*day) //nolint:wrapcheck // it says what failed
}

// secret is a resource with a new certificate, as a file.
func secret(a *localcert.Authority, life time.Duration) (string, error) {
	cert, key, err := a.Issue("greeter", life)
	if err != nil {
		return "", err //nolint:wrapcheck // it says what failed
	}
	block := func(text []byte) string {
		return "|\n      " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n      ")
	}
	return `# Made by xebec demo; it is good for nothing else.
"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
name: ` + secretName + `
tls_certificate:
  certificate_chain:
    inline_string: ` + block(cert) + `
  private_key:
    inline_string: ` + block(key) + "\n", nil
}
