//go:build interop

package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// Where the clients and the binary under test are. TestMain sets them.
var (
	xebecBinary string
	envoyBinary string
	nodeModules string
)

func TestMain(m *testing.M) {
	if target := os.Getenv(targetVariable); target != "" {
		if err := callForever(target); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	suite := harness.Suite{
		Name:  "e2e",
		Needs: []harness.Tool{harness.Envoy, harness.NodeModules},
		Prepare: func(f *harness.Found) error {
			xebecBinary, envoyBinary, nodeModules = f.Xebec, f.Tool(harness.Envoy), f.Tool(harness.NodeModules)
			return nil
		},
	}
	os.Exit(suite.Run(m))
}
