package http1

// Role says which side of a connection a codec is.
type Role uint8

// The roles.
const (
	Server Role = iota // decodes requests, encodes responses
	Client             // decodes responses, encodes requests
)

// Version is the HTTP version of a message.
type Version uint8

// The versions that messages are accepted in.
const (
	HTTP11 Version = iota
	HTTP10
)

// String is the version as it is written in messages.
func (v Version) String() string {
	if v == HTTP10 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// Underscores says what happens to a request with an underscore in a header
// name (config.core.v3.HttpProtocolOptions.headers_with_underscores_action).
type Underscores uint8

// The actions.
const (
	AllowUnderscores  Underscores = iota
	RejectUnderscores             // 400 http1.unexpected_underscore
	DropUnderscores               // the header is left out
)

// HeaderCase says how header names are written
// (config.core.v3.Http1ProtocolOptions.header_key_format).
type HeaderCase uint8

// The forms.
const (
	LowerCase       HeaderCase = iota
	ProperCaseWords            // Content-Type
	PreserveCase               // as the message had them that came in: see Cases
)

// Options are the settings of a codec, immutable while in use. The zero value
// has Envoy's defaults for a connection manager or an upstream.
type Options struct {
	// MaxHeadersKB limits names and values of a head, or of trailers, in KiB;
	// the request line counts too. 0 is 60.
	MaxHeadersKB uint32
	// MaxHeadersCount limits the number of headers, or of trailers. 0 is 100.
	MaxHeadersCount uint32
	// AcceptHTTP10 takes HTTP/1.0 requests; others are refused with 426.
	AcceptHTTP10 bool
	// DefaultHost10 is the :authority of an HTTP/1.0 request without Host.
	DefaultHost10 string
	// EnableTrailers passes trailers on; otherwise they are checked and dropped.
	EnableTrailers bool
	// AllowChunkedLength lets "Transfer-Encoding: chunked" override a
	// Content-Length, which is removed; otherwise both are refused.
	AllowChunkedLength bool
	// RefuseAbsoluteURL passes a request target in absolute form on as the path
	// (allow_absolute_url: false).
	RefuseAbsoluteURL bool
	// Underscores is for requests; the zero value allows.
	Underscores Underscores
	// CustomMethods takes every token as a method.
	CustomMethods bool
	// HeaderCase is for encoding; PreserveCase makes the decoder note the case
	// of names as well.
	HeaderCase HeaderCase
	// ForwardReason makes the decoder note the reason phrase of a response for
	// the encoder (PreserveCase only).
	ForwardReason bool
	// SendFullyQualifiedURL writes request targets in absolute form.
	SendFullyQualifiedURL bool
	// IgnoreUpgrade reports whether an Upgrade value, as sent, is to be dropped
	// as if it were not there (ignore_http_11_upgrade). nil ignores none.
	IgnoreUpgrade func(value string) bool
}

const (
	defaultHeadersKB    = 60
	responseHeadersKB   = 80 // what the parser allows before an upstream's limit is looked at
	defaultHeadersCount = 100
	// maxChunkLine limits the line of a chunk size with its extensions, in bytes.
	maxChunkLine = 4 << 10
)

func (o *Options) maxHeaders(r Role) (size, count int) {
	kb, count := int(o.MaxHeadersKB), int(o.MaxHeadersCount)
	if kb == 0 {
		kb = defaultHeadersKB
		if r == Client {
			kb = responseHeadersKB
		}
	}
	if count == 0 {
		count = defaultHeadersCount
	}
	return kb << 10, count
}
