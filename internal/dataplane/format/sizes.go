package format

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// counted is a number that always has a value.
func counted(get func(*Context) int64) *op {
	return &op{number: func(c *Context) (int64, bool) { return get(c), true }}
}

func streamCount(get func(*filter.StreamInfo) uint64) *op {
	return counted(func(c *Context) int64 {
		if c.Info == nil {
			return 0
		}
		return int64(get(c.Info))
	})
}

// upstreamCount is 0 without an upstream.
func upstreamCount(get func(*filter.UpstreamInfo) uint64) *op {
	return counted(func(c *Context) int64 {
		if up := c.upstream(); up != nil {
			return int64(get(up))
		}
		return 0
	})
}

func sizeOf(m *header.Map) int64 {
	if m == nil {
		return 0
	}
	return int64(m.Size())
}

// sizeOp makes the operators that count (AL-08).
func sizeOp(name string) *op {
	switch name {
	case "BYTES_RECEIVED":
		return streamCount(func(i *filter.StreamInfo) uint64 { return i.BytesReceived })
	case "BYTES_SENT":
		return streamCount(func(i *filter.StreamInfo) uint64 { return i.BytesSent })
	case "BYTES_RETRANSMITTED", "PACKETS_RETRANSMITTED": // of QUIC only
		return counted(func(*Context) int64 { return 0 })
	case "REQUEST_HEADERS_BYTES":
		return counted(func(c *Context) int64 { return sizeOf(c.Req) })
	case "RESPONSE_HEADERS_BYTES":
		return counted(func(c *Context) int64 { return sizeOf(c.Resp) })
	case "RESPONSE_TRAILERS_BYTES":
		return counted(func(c *Context) int64 { return sizeOf(c.RespTrailers) })
	case "UPSTREAM_REQUEST_ATTEMPT_COUNT":
		return streamCount(func(i *filter.StreamInfo) uint64 { return uint64(max(i.Attempts, 0)) })
	case "UPSTREAM_WIRE_BYTES_RECEIVED":
		return upstreamCount(func(u *filter.UpstreamInfo) uint64 { return u.WireReceived })
	case "UPSTREAM_WIRE_BYTES_SENT":
		return upstreamCount(func(u *filter.UpstreamInfo) uint64 { return u.WireSent })
	case "UPSTREAM_CONNECTION_ID":
		return upstreamCount(func(u *filter.UpstreamInfo) uint64 { return u.ConnectionID })
	}
	return nil
}
