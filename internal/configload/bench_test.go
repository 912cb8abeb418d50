package configload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/configload"
)

// manyClusters is a file with n clusters of eleven lines each.
func manyClusters(n int) []byte {
	var b strings.Builder
	b.WriteString("static_resources:\n  clusters:\n")
	for i := range n {
		fmt.Fprintf(&b, `  - name: cluster-%d
    connect_timeout: 0.25s
    type: STATIC
    lb_policy: LEAST_REQUEST
    load_assignment:
      cluster_name: cluster-%d
      endpoints:
      - lb_endpoints:
        - endpoint:
            address:
              socket_address: {address: 10.%d.%d.%d, port_value: 8080}
`, i, i, i>>16&255, i>>8&255, i&255)
	}
	return []byte(b.String())
}

func BenchmarkFileYAML50kClusters(b *testing.B) { benchmarkYAML(b, 50_000) }

func BenchmarkFileYAML1kClusters(b *testing.B) { benchmarkYAML(b, 1000) }

func benchmarkYAML(b *testing.B, n int) {
	data := manyClusters(n)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		rs, errs := configload.File("f.yaml", data)
		if len(rs) != n || len(errs) > 0 {
			b.Fatalf("%d resources, problems %v", len(rs), errs)
		}
	}
}
