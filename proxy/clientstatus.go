package proxy

import (
	"context"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"

	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

// describer is a Discovery that tells what it knows of resources.
type describer interface {
	Describe(o clientstatus.Options) []*statusv3.ClientConfig
}

// bootstrapScope is the client_scope of what is in the bootstrap.
const bootstrapScope = "source=bootstrap"

// ClientStatus implements admin.View.
func (v view) ClientStatus(_ context.Context, o clientstatus.Options) ([]*statusv3.ClientConfig, error) {
	var out []*statusv3.ClientConfig
	if d, ok := v.p.o.Discovery.(describer); ok {
		out = d.Describe(o)
	}
	static := v.p.cfg.GetStaticResources()
	var list []clientstatus.Resource
	for _, l := range static.GetListeners() {
		list = append(list, clientstatus.Resource{Name: l.GetName(), Message: l})
	}
	for _, c := range static.GetClusters() {
		list = append(list, clientstatus.Resource{Name: c.GetName(), Message: c})
	}
	for _, s := range static.GetSecrets() {
		list = append(list, clientstatus.Resource{Name: s.GetName(), Message: s})
	}
	if len(list) == 0 {
		return out, nil
	}
	c, err := clientstatus.OfBootstrap(bootstrapScope, v.p.node(), list, o)
	return append(out, c), err //nolint:wrapcheck // it says what is wrong
}
