package file_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/xds"
)

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "xds")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const clusters = `
resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: backend
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: slow
  connect_timeout: -1s
`
	if err := os.WriteFile(filepath.Join(dir, "clusters.yaml"), []byte(clusters), 0o600); err != nil {
		fmt.Println(err)
		return
	}

	batch, findings, err := file.Load(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range batch.Groups[file.DefaultGroup].Set {
		fmt.Println(xds.Kind(r.TypeURL()), r.Name())
	}
	for _, f := range findings {
		fmt.Println(f.Severity, filepath.Base(f.Pos.String()), f.Name, f.Path)
	}
	// Output:
	// Cluster backend
	// error clusters.yaml:7:3 slow connect_timeout
}
