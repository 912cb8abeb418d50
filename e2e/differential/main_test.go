//go:build interop

package differential

import (
	"crypto/tls"
	"flag"
	"os"
	"testing"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testcert"
)

// What TestMain finds or makes for the suite.
var (
	envoyBinary string
	xebecBinary string
	certPEM     string
	keyPEM      string
	serverTLS   *tls.Config
)

func TestMain(m *testing.M) {
	flag.Parse()
	suite := harness.Suite{
		Name:         "e2e/differential",
		Needs:        []harness.Tool{harness.Envoy},
		WithoutXebec: *selfCheck,
		Prepare: func(f *harness.Found) error {
			envoyBinary, xebecBinary = f.Tool(harness.Envoy), f.Xebec
			// Waiting for timeouts and for quiet takes most of the time, not work.
			if err := flag.Set("test.parallel", "6"); err != nil {
				return err
			}
			return certificate()
		},
	}
	os.Exit(suite.Run(m))
}

func certificate() error {
	authority, err := testcert.NewAuthority("differential suite")
	if err != nil {
		return err
	}
	cert, key, err := authority.Issue("differential")
	if err != nil {
		return err
	}
	certPEM, keyPEM = string(cert), string(key)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	serverTLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	return nil
}
