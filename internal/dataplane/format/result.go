package format

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"

	"github.com/xebec-proxy/xebec/filter"
)

// connection is the downstream connection, or nil.
func (c *Context) connection() *filter.ConnectionInfo {
	if c.Info == nil {
		return nil
	}
	return c.Info.Connection
}

// upstream is the last attempt, or nil.
func (c *Context) upstream() *filter.UpstreamInfo {
	if c.Info == nil || !c.Info.HasUpstream {
		return nil
	}
	return &c.Info.Upstream
}

// asked reports whether an upstream connection was asked for, of a host or not.
func (c *Context) asked() bool {
	return c.Info != nil && (c.Info.HasUpstream || c.Info.UpstreamAsked)
}

// ofStream is a string of the stream that has no value when it is empty.
func ofStream(get func(*filter.StreamInfo) string) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		if c.Info == nil {
			return dst, false
		}
		s := get(c.Info)
		return append(dst, s...), s != ""
	}}
}

// fixed is a text that does not depend on the stream.
func fixed(s string) *op {
	return &op{text: func(dst []byte, _ *Context) ([]byte, bool) { return append(dst, s...), true }}
}

// never is an operator whose data nothing in Xebec can make: what Envoy shows
// without them.
func never() *op {
	return &op{text: func(dst []byte, _ *Context) ([]byte, bool) { return dst, false }}
}

// resultOp makes the operators about what became of the request.
func resultOp(name string) *op {
	switch name {
	case "PROTOCOL":
		return ofStream(func(i *filter.StreamInfo) string { return i.Protocol.String() })
	case "RESPONSE_CODE":
		return counted(func(c *Context) int64 {
			if c.Info == nil {
				return 0
			}
			return int64(c.Info.ResponseCode)
		})
	case "RESPONSE_FLAGS":
		return flags(filter.Flags.AppendShort)
	case "RESPONSE_FLAGS_LONG":
		return flags(filter.Flags.AppendLong)
	case "GRPC_STATUS_NUMBER":
		return grpcNumber()
	case "ROUTE_NAME":
		return ofStream(func(i *filter.StreamInfo) string { return i.RouteName })
	case "VIRTUAL_CLUSTER_NAME":
		return ofStream(func(i *filter.StreamInfo) string { return i.VirtualCluster })
	case "STREAM_ID":
		return ofStream(func(i *filter.StreamInfo) string { return i.RequestID })
	case "LOCAL_REPLY_BODY": // a log, as in Envoy, has none
		return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
			if c.Info != nil && c.reply {
				dst = append(dst, c.Info.LocalReplyBody...)
			}
			return dst, true
		}}
	case "ACCESS_LOG_TYPE":
		return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
			if c.LogType == "" {
				return append(dst, "NotSet"...), true
			}
			return append(dst, c.LogType...), true
		}}
	case "UNIQUE_ID":
		return &op{text: func(dst []byte, _ *Context) ([]byte, bool) { return AppendUUID(dst), true }}
	case "TRACE_ID", "SPAN_ID": // no tracer can be configured
		return never()
	case "CUSTOM_FLAGS": // no filter sets any
		return fixed("")
	}
	return nil
}

// flags writes URX before the reason of the last attempt, as Envoy's router
// does; its TCP proxy has it behind.
func flags(write func(filter.Flags, []byte) []byte) *op {
	const urx = filter.FlagUpstreamRetryLimitExceeded
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		if c.Info == nil {
			return append(dst, '-'), true
		}
		f := c.Info.Flags
		if rest := f &^ urx; f.Has(urx) && rest != 0 && c.Info.Protocol != filter.NoProtocol {
			return write(rest, append(write(urx, dst), ',')), true
		}
		return write(f, dst), true
	}}
}

func codeDetails(t *token, _ *Options) (*op, error) {
	keep := t.param == "ALLOW_WHITESPACES"
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		if c.Info == nil || c.Info.Details == "" {
			return dst, false
		}
		if keep {
			return append(dst, c.Info.Details...), true
		}
		return appendUnspaced(dst, c.Info.Details), true
	}}, nil
}

// appendUnspaced appends a text with "_" for white space.
func appendUnspaced(dst []byte, s string) []byte {
	n := len(dst)
	dst = append(dst, s...)
	for i, b := range dst[n:] {
		if b == ' ' || b >= '\t' && b <= '\r' {
			dst[n+i] = '_'
		}
	}
	return dst
}

// AppendUUID appends a new random UUID (version 4), which is no secret.
func AppendUUID(dst []byte) []byte {
	var b [16]byte
	for i := range 2 {
		v := rand.Uint64() //nolint:gosec // tells lines apart, guards nothing
		for j := range 8 {
			b[8*i+j] = byte(v >> (8 * j))
		}
	}
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		start := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, b[start:end])
	}
	return dst
}

func hostname(_ *token, o *Options) (*op, error) {
	name := o.Hostname
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			name = "-" // as Envoy does
		}
	}
	return fixed(name), nil
}

func environment(t *token, o *Options) (*op, error) {
	if o.Environment == nil {
		return nil, errors.New("ENVIRONMENT: the environment is not known here")
	}
	v, ok := o.Environment(t.param)
	if !ok {
		v = "-"
	}
	return fixed(v), nil
}
