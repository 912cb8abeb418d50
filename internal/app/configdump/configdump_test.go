package configdump

import (
	"strings"
	"testing"
)

// Whatever is in a file, reading it neither panics nor invents names of types.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump", "static_clusters": [{"cluster": {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "a"}}]}]}`))
	f.Add([]byte(`{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.X", "a": [[{"@type": 1}], null, {"version_info": {}}]}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Read(data)
		if !Is(data) && (err == nil || len(list) > 0) {
			t.Errorf("%q is no dump: %v, %v", data, list, err)
		}
		for _, r := range list {
			if !isResource(r.TypeURL) {
				t.Errorf("%v", r)
			}
		}
	})
}

// What is in the bootstrap is told apart, in whole dumps and in elements of them.
func TestStatic(t *testing.T) {
	const cluster = `{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "a"}`
	for config, want := range map[string]bool{
		`"ClustersConfigDump", "static_clusters": [{"cluster": ` + cluster + `}]`:         true,
		`"ClustersConfigDump", "dynamic_active_clusters": [{"cluster": ` + cluster + `}]`: false,
		`"ClustersConfigDump.StaticCluster", "cluster": ` + cluster:                       true,
		`"ClustersConfigDump.DynamicCluster", "cluster": ` + cluster:                      false,
	} {
		list, err := Read([]byte(`{"configs": [{"@type": ` + strings.Replace(config, `"`, `"`+dumpPrefix, 1) + `}]}`))
		if err != nil || len(list) != 1 || list[0].Static != want {
			t.Errorf("%s: %v, %v", config, list, err)
		}
	}
}
