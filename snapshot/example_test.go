package snapshot_test

import (
	"fmt"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// A snapshot never changes: With makes the next one and says what differs.
func ExampleSnapshot_With() {
	first, _, err := snapshot.New().With(snapshot.Changes{Set: []*xds.Resource{
		xds.NewResource(xds.ClusterType, "a", []byte{}),
		xds.NewResource(xds.ClusterType, "b", []byte{}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	second, changes, err := first.With(snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: "a"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range changes {
		fmt.Println("removed", c.Name)
	}
	fmt.Println(first.Len(), second.Len())
	// Output:
	// removed a
	// 2 1
}
