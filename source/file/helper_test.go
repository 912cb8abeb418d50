package file

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/xds"
)

// timeoutOf is the connect timeout of a cluster; 0 for none.
func timeoutOf(r *xds.Resource) time.Duration {
	if r == nil {
		return 0
	}
	m, err := r.Message()
	if err != nil {
		return 0
	}
	return m.(*clusterv3.Cluster).GetConnectTimeout().AsDuration()
}
