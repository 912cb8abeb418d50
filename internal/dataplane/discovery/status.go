package discovery

import (
	"fmt"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"

	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

// Describe tells what the sources know, each in a scope of its own: "source=NAME
// variant=delta ads=true" (XD-06). The name is that of the cluster that is asked,
// or of the file.
func (d *Discovery) Describe(o clientstatus.Options) []*statusv3.ClientConfig {
	var out []*statusv3.ClientConfig
	for _, m := range d.sources.Made() {
		scope := fmt.Sprintf("source=%s variant=%s ads=%t", m.Name, m.Variant, m.Aggregated)
		out = append(out, clientstatus.OfSource(scope, m.Source, o))
	}
	for _, m := range d.demanded.Made() {
		out = append(out, clientstatus.OfSource(fmt.Sprintf("source=%s variant=%s on_demand=true", m.Name, m.Variant), m.Source, o))
	}
	return out
}
