// Package echo is the network filter envoy.filters.network.echo: it sends back
// what it gets.
package echo

import (
	"fmt"

	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
)

// Type is the kind of filter
// (envoy/extensions/filters/network/echo/v3/echo.proto; spec NF-11). It is
// terminal.
func Type() filter.NetworkType {
	return filter.NetworkType{Config: (*echov3.Echo)(nil), New: build, Terminal: true}
}

func build(cfg proto.Message, _ *filter.Env) (filter.NetworkFactory, error) {
	if _, ok := cfg.(*echov3.Echo); !ok {
		return nil, fmt.Errorf("a configuration of type %T is not an Echo", cfg)
	}
	return func(c filter.Connection) filter.NetworkFilter {
		return filter.NetworkFilter{Read: &echo{conn: c}}
	}, nil
}

// echo is the filter of one connection.
type echo struct {
	conn   filter.Connection
	paused bool
}

// OnNewConnection implements filter.ReadFilter.
func (*echo) OnNewConnection() filter.NetworkStatus { return filter.NetworkContinue }

// OnData implements filter.ReadFilter.
func (e *echo) OnData(data *filter.Buffer, end bool) filter.NetworkStatus {
	e.conn.Write(data.Bytes(), end)
	data.Drain(data.Len())
	return filter.NetworkStop
}

// OnAboveHighWatermark implements filter.ConnectionWatcher: a client that does
// not read what it gets back may not send more.
func (e *echo) OnAboveHighWatermark() { e.pause(true) }

// OnBelowLowWatermark implements filter.ConnectionWatcher.
func (e *echo) OnBelowLowWatermark() { e.pause(false) }

// OnClose implements filter.ConnectionWatcher.
func (*echo) OnClose(bool) {}

func (e *echo) pause(on bool) {
	if on != e.paused {
		e.paused = on
		e.conn.ReadDisable(on)
	}
}
