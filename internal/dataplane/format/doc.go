// Package format is Envoy's substitution formatter: texts with operators such
// as %REQ(:PATH)% and %RESPONSE_CODE%, for access logs, header values and local
// replies. A text is compiled once; writing a line allocates nothing.
package format

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Context is what operators read: a stream, or a connection without streams.
// Any pointer may be nil; operators that need it then have no value. It is
// confined to the stream's worker and may be used again.
type Context struct {
	// Req, Resp, RespTrailers and ReqTrailers are the messages as they are when
	// the line is written.
	Req, Resp, RespTrailers, ReqTrailers *header.Map
	Info                                 *filter.StreamInfo
	// LogType is %ACCESS_LOG_TYPE%, such as "DownstreamEnd".
	LogType string
	// Now is the wall time, for %EMIT_TIME%.
	Now time.Time

	reply bool // a message is being made, not a log
}

// op is an operator with its parameters. One of text, number and value is set.
type op struct {
	// text appends a string; false if there is no value.
	text func(dst []byte, c *Context) ([]byte, bool)
	// number is a whole number, which JSON shows as such.
	number func(c *Context) (int64, bool)
	// value appends a value as a text, or as JSON.
	value func(dst []byte, c *Context, json bool) ([]byte, bool)
	// max cuts a text to so many bytes, if cut.
	max int
	cut bool
	// whole says that max is not for JSON.
	whole bool
}

// part is a literal and the operator behind it, if any.
type part struct {
	literal string
	op      *op
}
