package discovery

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/xds"
)

// Await makes the next receipt of a resource that is wanted set it although it did
// not change, for a parent that waits for that after a change of its own (XC-43).
// False says that there is no use in waiting: only on a stream that carries all
// types does the server know of the change. It does not block.
func (d *Discovery) Await(typeURL, name string, c *corev3.ConfigSource) bool {
	if c.GetAds() == nil {
		return false
	}
	s, err := d.wanting(c, typeURL, name)
	if err != nil {
		return false
	}
	s.Source.Await(typeURL, name)
	return true
}

// AskAgain asks for a resource that is awaited once more, if the server has not
// sent it by itself. It does not block.
func (d *Discovery) AskAgain(typeURL, name string, c *corev3.ConfigSource) {
	if s, err := d.wanting(c, typeURL, name); err == nil {
		s.Source.AskAgain(typeURL, name)
	} else {
		d.cfg.Logger.Error("a config source cannot be used", "type", xds.Kind(typeURL), "resource", name, "error", err)
	}
}
