package discovery

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/routedecode"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// routes are route configurations, with what resolving does. Of one that has changed
// only what has is decoded.
func (d *Discovery) routes(s *xdsclient.Source, from *corev3.ConfigSource) xdsclient.Type[*routev3.RouteConfiguration] {
	t := resolving(xdsclient.Routes(), from)
	whole := t.Decode
	t.Decode = func(name string, body []byte) (*routev3.RouteConfiguration, error) {
		if dec := d.decoder(want{s, xds.RouteType, name}, from); dec != nil {
			if rc, err := dec.Decode(body); err == nil {
				return rc, nil
			}
		}
		return whole(name, body) // or says what is wrong
	}
	return t
}

// decoder is that of routes, nil if nobody wants them any more.
func (d *Discovery) decoder(k want, from *corev3.ConfigSource) *routedecode.Decoder {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.wanted[k]) == 0 {
		return nil
	}
	dec := d.decoders[k]
	if dec == nil {
		dec = &routedecode.Decoder{Decoded: func(m proto.Message, body []byte) error {
			if !mayHaveSelf(body) {
				return nil
			}
			_, err := resolveSelf(m.ProtoReflect(), from)
			return err
		}}
		d.decoders[k] = dec
	}
	return dec
}
