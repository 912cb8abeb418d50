// Package originaldst is the listener filter envoy.filters.listener.original_dst:
// it puts the address that a redirected connection was going to in the place of
// the socket's.
package originaldst

import (
	"fmt"

	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
)

// Type is the kind of filter
// (envoy/extensions/filters/listener/original_dst/v3/original_dst.proto; spec
// LF-11). It has neither fields nor statistics.
func Type() filter.ListenerType {
	return filter.ListenerType{Config: (*originaldstv3.OriginalDst)(nil), New: build}
}

func build(cfg proto.Message, _ *filter.Env) (filter.ListenerFactory, error) {
	if _, ok := cfg.(*originaldstv3.OriginalDst); !ok {
		return nil, fmt.Errorf("a configuration of type %T is not an OriginalDst", cfg)
	}
	return func() filter.ListenerFilter { return restorer{} }, nil
}

// restorer is the filter of any connection.
type restorer struct{}

// OnAccept implements filter.ListenerFilter. Where the system does not know, as of a
// connection that was not redirected, the address stays.
func (restorer) OnAccept(c *filter.Accepted) filter.ListenerStatus {
	if c.Socket != nil {
		if to, ok := c.Socket.OriginalDestination(); ok {
			c.Info.Connection.Local = to
		}
	}
	return filter.ListenerContinue
}

// OnData implements filter.ListenerFilter. It asks for no bytes.
func (restorer) OnData(*filter.Accepted, []byte) (filter.ListenerStatus, int) {
	return filter.ListenerContinue, 0
}
