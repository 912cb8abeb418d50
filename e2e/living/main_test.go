//go:build interop

package living

import (
	"os"
	"testing"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// What TestMain finds for the suite.
var (
	xebecBinary string
	envoyBinary string
)

func TestMain(m *testing.M) {
	suite := harness.Suite{
		Name: "e2e/living",
		Needs: []harness.Tool{
			harness.Envoy,
		},
		Prepare: func(f *harness.Found) error {
			xebecBinary, envoyBinary = f.Xebec, f.Tool(harness.Envoy)
			return nil
		},
	}
	os.Exit(suite.Run(m))
}
