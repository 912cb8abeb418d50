package discovery

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// assignment is an assignment with its encoding, so that nobody has to encode it
// again to keep it.
type assignment struct {
	la      *endpointv3.ClusterLoadAssignment
	encoded []byte // nil if it may say something else
}

// assignments is the type of assignments. Where "self" may be in one, its encoding does
// not say what the assignment does.
func assignments(from *corev3.ConfigSource) xdsclient.Type[*assignment] {
	t := resolving(xdsclient.Endpoints(), from)
	return xdsclient.Type[*assignment]{Type: t.Type, Transient: t.Transient, Decode: func(name string, body []byte) (*assignment, error) {
		if la := plainAssignment(body); la != nil {
			return &assignment{la, body}, nil
		}
		la, err := t.Decode(name, body)
		if err != nil {
			return nil, err
		}
		a := &assignment{la: la}
		if !mayHaveSelf(body) {
			a.encoded = body
		}
		return a, nil
	}}
}
