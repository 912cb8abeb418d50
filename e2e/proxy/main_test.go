//go:build interop

package proxy

import (
	"os"
	"testing"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testcert"
)

// What TestMain finds or makes for the suite.
var (
	envoyBinary  string
	xebecBinary  string
	h2specBinary string
	certificates string // a directory: ca.pem, server.pem, server-key.pem
)

func TestMain(m *testing.M) {
	suite := harness.Suite{
		Name:  "e2e/proxy",
		Needs: []harness.Tool{harness.Envoy, harness.H2spec},
		Prepare: func(f *harness.Found) error {
			envoyBinary, h2specBinary, xebecBinary = f.Tool(harness.Envoy), f.Tool(harness.H2spec), f.Xebec
			certificates = f.Dir
			return testcert.WriteSet(f.Dir, "server")
		},
	}
	os.Exit(suite.Run(m))
}
