package format

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// unset is an instant that has not come.
const unset time.Duration = -1

// millis is a time in whole milliseconds between two instants of the stream.
func millis(get func(*filter.StreamInfo) (from, to time.Duration)) *op {
	return &op{number: func(c *Context) (int64, bool) {
		if c.Info == nil {
			return 0, false
		}
		from, to := get(c.Info)
		if from == unset || to == unset {
			return 0, false
		}
		return int64((to - from) / time.Millisecond), true
	}}
}

// durationOp makes the operators of durations (AL-07).
func durationOp(name string) *op {
	switch name {
	case "DURATION":
		return counted(func(c *Context) int64 { return int64(c.Duration() / time.Millisecond) })
	case "REQUEST_DURATION":
		return millis(func(i *filter.StreamInfo) (from, to time.Duration) { return i.Timing.Start, i.Timing.LastRx })
	case "REQUEST_TX_DURATION":
		return millis(func(i *filter.StreamInfo) (from, to time.Duration) {
			return i.Timing.Start, i.Timing.LastUpstreamTx
		})
	case "RESPONSE_DURATION":
		return millis(func(i *filter.StreamInfo) (from, to time.Duration) { return i.Timing.Start, i.Timing.FirstUpstrRx })
	case "RESPONSE_TX_DURATION":
		return millis(func(i *filter.StreamInfo) (from, to time.Duration) {
			return i.Timing.FirstUpstrRx, i.Timing.LastTx
		})
	case "ROUNDTRIP_DURATION": // of QUIC only
		return never()
	case "DOWNSTREAM_HANDSHAKE_DURATION":
		return &op{number: func(c *Context) (int64, bool) {
			cx := c.connection()
			if cx == nil || cx.HandshakeDone == 0 {
				return 0, false
			}
			return int64((cx.HandshakeDone - cx.Start) / time.Millisecond), true
		}}
	case "UPSTREAM_CONNECTION_POOL_READY_DURATION":
		return &op{number: func(c *Context) (int64, bool) {
			if c.Info == nil || !c.Info.Upstream.PoolAnswered {
				return 0, false
			}
			return int64(c.Info.Upstream.PoolReady / time.Millisecond), true
		}}
	}
	return nil
}

// Duration is how long the stream took, or takes so far.
func (c *Context) Duration() time.Duration {
	switch i := c.Info; {
	case i == nil:
		return 0
	case i.Timing.End != unset && i.Timing.End >= i.Timing.Start:
		return i.Timing.End - i.Timing.Start
	case i.StartTime.IsZero():
		return 0
	default:
		return max(c.now().Sub(i.StartTime), 0)
	}
}

// now is the wall time, read only if the caller has not.
func (c *Context) now() time.Time {
	if c.Now.IsZero() {
		return time.Now()
	}
	return c.Now
}

// commonDuration is COMMON_DURATION(from:to:unit).
func commonDuration(t *token, _ *Options) (*op, error) {
	p := strings.Split(t.param, ":")
	if len(p) < 2 || len(p) > 3 {
		return nil, fmt.Errorf("Invalid common duration configuration: %s.", t.param) //nolint:revive,staticcheck // Envoy's text
	}
	unit := time.Millisecond
	if len(p) == 3 {
		switch p[2] {
		case "ms":
		case "us":
			unit = time.Microsecond
		case "ns":
			unit = time.Nanosecond
		default:
			return nil, fmt.Errorf("Invalid common duration precision: %s.", p[2]) //nolint:revive,staticcheck // Envoy's text
		}
	}
	from, to := instant(p[0]), instant(p[1])
	if from == nil || to == nil {
		return nil, errors.New("COMMON_DURATION: no filter sets instants of its own; use one of DS_RX_BEG, DS_RX_END, US_CX_BEG, " +
			"US_CX_END, US_HS_END, US_TX_BEG, US_TX_END, US_RX_BEG, US_RX_BODY_BEG, US_RX_END, DS_TX_BEG, DS_TX_END, DS_CX_BEG, DS_CX_END")
	}
	return &op{number: func(c *Context) (int64, bool) {
		if c.Info == nil {
			return 0, false
		}
		a, b := from(c.Info), to(c.Info)
		if a == unset || b == unset || b < a { // as on a connection older than the request
			return 0, false
		}
		return int64((b - a) / unit), true
	}}, nil
}

// instant finds an instant by Envoy's name.
func instant(name string) func(*filter.StreamInfo) time.Duration {
	switch name {
	case "DS_RX_BEG":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.Start }
	case "DS_RX_END":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.LastRx }
	case "US_TX_BEG":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.FirstUpstream }
	case "US_TX_END":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.LastUpstreamTx }
	case "US_RX_BEG":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.FirstUpstrRx }
	case "US_RX_END":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.LastUpstreamRx }
	case "DS_TX_BEG":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.FirstTx }
	case "DS_TX_END":
		return func(i *filter.StreamInfo) time.Duration { return i.Timing.LastTx }
	case "US_RX_BODY_BEG":
		return ofConnect(func(u *filter.UpstreamInfo) time.Duration { return u.BodyStart })
	case "US_CX_BEG":
		return ofConnect(func(u *filter.UpstreamInfo) time.Duration { return u.ConnectStart })
	case "US_CX_END":
		return ofConnect(func(u *filter.UpstreamInfo) time.Duration { return u.ConnectEnd })
	case "US_HS_END":
		return ofConnect(func(u *filter.UpstreamInfo) time.Duration { return u.HandshakeEnd })
	case "DS_CX_BEG":
		return func(i *filter.StreamInfo) time.Duration {
			if i.Connection == nil || i.Protocol != filter.NoProtocol {
				return unset // as Envoy, for connections only
			}
			return i.Connection.Start
		}
	case "DS_CX_END":
		return func(i *filter.StreamInfo) time.Duration {
			if i.Connection == nil || i.Protocol != filter.NoProtocol {
				return unset
			}
			return i.Timing.End
		}
	}
	return nil
}

func ofConnect(get func(*filter.UpstreamInfo) time.Duration) func(*filter.StreamInfo) time.Duration {
	return func(i *filter.StreamInfo) time.Duration {
		if !i.HasUpstream {
			return unset
		}
		if v := get(&i.Upstream); v != 0 {
			return v
		}
		return unset
	}
}
