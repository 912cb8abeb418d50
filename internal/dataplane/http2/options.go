package http2

import "github.com/xebec-proxy/xebec/internal/dataplane/hpack"

// Role is the side of a connection.
type Role uint8

// The sides.
const (
	Server Role = iota
	Client
)

// Underscores is what to do with header names that have an underscore (HC-14).
type Underscores uint8

// The actions of headers_with_underscores_action.
const (
	UnderscoresAllow Underscores = iota
	UnderscoresReject
	UnderscoresDrop
)

// Options is the configuration of connections (Http2ProtocolOptions and the
// limits of HttpProtocolOptions). A zero field means Envoy's default. Options
// are not changed after their first use and may be shared by workers.
type Options struct {
	// MaxConcurrentStreams is what a server announces and a client opens at most; 1024.
	MaxConcurrentStreams uint32
	// StreamWindow and ConnWindow are the bytes a peer may send unread; 16 MiB and 24 MiB.
	StreamWindow, ConnWindow uint32
	// HeaderTableSize is the HPACK table in bytes, of each direction; 4096.
	// ZeroTable means a table of 0 bytes.
	HeaderTableSize uint32
	ZeroTable       bool
	// MaxFrameSize is what is announced and sent at most; 16384.
	MaxFrameSize uint32
	// MaxHeadersKB and MaxHeaders limit header lists and trailers (HC-13); 60 and 100.
	MaxHeadersKB, MaxHeaders uint32
	// The limits of HC-06: 10000, 1000, 1, 100 per stream and 10 per DATA frame sent.
	MaxOutboundFrames, MaxOutboundControlFrames uint32
	MaxEmptyFrames                              *uint32
	MaxPriorityFrames                           *uint32
	MaxWindowUpdateFrames                       uint32
	// Underscores is applied to requests; allowed by default.
	Underscores Underscores
	// StreamErrors resets only the stream of an invalid message instead of the
	// connection (override_stream_error_on_invalid_http_message).
	StreamErrors bool
	// AllowConnect announces and takes extended CONNECT (RFC 8441); off.
	AllowConnect bool
	// Batch tells the handler by kind what came in one Feed: heads, then data, then
	// trailers. The order within a stream stays. Without it, everything is told as
	// it is read.
	Batch bool
	// StreamBufferHigh is the unsent bytes of a stream above which its source
	// should pause: OnWritable comes when they fell below half of it; 256 KiB.
	StreamBufferHigh int
	// OutputHigh is how many bytes of output stop DATA, 1 MiB: one frame more is
	// the most that waits there, whatever the peer's windows allow.
	OutputHigh int
}

// OutputHigh is Options.OutputHigh for a socket that says that it is blocked
// above a high watermark: full output must be above it.
func OutputHigh(watermark int) int { return max(watermark, 64<<10) + 1 }

// withDefaults is the options a connection works with.
func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	def := func(v *uint32, d uint32) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MaxConcurrentStreams, 1024)
	def(&c.StreamWindow, 16<<20)
	def(&c.ConnWindow, 24<<20)
	if !c.ZeroTable {
		def(&c.HeaderTableSize, hpack.DefaultTableSize)
	}
	def(&c.MaxFrameSize, minMaxFrame)
	c.MaxFrameSize = min(max(c.MaxFrameSize, minMaxFrame), maxMaxFrame)
	c.StreamWindow, c.ConnWindow = min(c.StreamWindow, maxWindow), min(max(c.ConnWindow, initialWindow), maxWindow)
	def(&c.MaxHeadersKB, 60)
	def(&c.MaxHeaders, 100)
	def(&c.MaxOutboundFrames, 10000)
	def(&c.MaxOutboundControlFrames, 1000)
	def(&c.MaxWindowUpdateFrames, 10)
	if c.StreamBufferHigh == 0 {
		c.StreamBufferHigh = 256 << 10
	}
	if c.OutputHigh == 0 {
		c.OutputHigh = 1 << 20
	}
	return c
}
