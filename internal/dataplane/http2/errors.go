package http2

import (
	"errors"
	"fmt"
)

// ErrCode is an error code of RFC 9113 section 7.
type ErrCode uint32

// The codes of RFC 9113.
const (
	NoError ErrCode = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
)

// String is the name of RFC 9113.
func (c ErrCode) String() string {
	switch c {
	case NoError:
		return "NO_ERROR"
	case ProtocolError:
		return "PROTOCOL_ERROR"
	case InternalError:
		return "INTERNAL_ERROR"
	case FlowControlError:
		return "FLOW_CONTROL_ERROR"
	case SettingsTimeout:
		return "SETTINGS_TIMEOUT"
	case StreamClosed:
		return "STREAM_CLOSED"
	case FrameSizeError:
		return "FRAME_SIZE_ERROR"
	case RefusedStream:
		return "REFUSED_STREAM"
	case Cancel:
		return "CANCEL"
	case CompressionError:
		return "COMPRESSION_ERROR"
	case ConnectError:
		return "CONNECT_ERROR"
	case EnhanceYourCalm:
		return "ENHANCE_YOUR_CALM"
	case InadequateSecurity:
		return "INADEQUATE_SECURITY"
	case HTTP11Required:
		return "HTTP_1_1_REQUIRED"
	}
	return fmt.Sprintf("ErrCode(%d)", uint32(c))
}

// Flood says which guard of HC-06 closed a connection.
type Flood uint8

// The guards; each has a counter "http2.<name>".
const (
	FloodNone             Flood = iota
	FloodOutbound               // outbound_flood
	FloodOutboundControl        // outbound_control_flood
	FloodInboundEmpty           // inbound_empty_frames_flood
	FloodInboundPriority        // inbound_priority_frames_flood
	FloodInboundWindow          // inbound_window_update_frames_flood
	FloodInboundContinued       // a header block in too many pieces; Envoy has no counter for it
)

// Counter is Envoy's counter of the guard below "http2.", or "".
func (f Flood) Counter() string {
	switch f {
	case FloodOutbound:
		return "outbound_flood"
	case FloodOutboundControl:
		return "outbound_control_flood"
	case FloodInboundEmpty:
		return "inbound_empty_frames_flood"
	case FloodInboundPriority:
		return "inbound_priority_frames_flood"
	case FloodInboundWindow:
		return "inbound_window_update_frames_flood"
	}
	return ""
}

// Details of Envoy's response code details for HTTP/2.
const (
	DetailMessaging    = "http2.violation.of.messaging.rule"
	DetailHeaderField  = "http2.invalid.header.field"
	DetailUnknown      = "http2.unknown.nghttp2.error"
	DetailTooMany      = "http2.too_many_headers"
	DetailTooLarge     = "http2.header_list_size_too_large"
	DetailOutbound     = "http2.outbound_frames_flood"
	DetailEmpty        = "http2.inbound_empty_frames_flood"
	DetailUnderscore   = "http2.unexpected_underscore"
	DetailRemoteReset  = "http2.remote_reset"
	DetailRemoteRefuse = "http2.remote_refuse"
	// What every stream of a connection gets that the codec ended; DetailCodec
	// is Envoy's for any violation without a text of its own.
	DetailCodec         = "codec_error:The_user_callback_function_failed"
	DetailControlFlood  = "codec_error:Too_many_control_frames_in_the_outbound_queue."
	DetailPriorityFlood = "codec_error:Too_many_PRIORITY_frames"
	DetailWindowFlood   = "codec_error:Too_many_WINDOW_UPDATE_frames"
)

// ConnError ends a connection. The GOAWAY is in the output already: write
// that, then close, and call Conn.Close to end the streams.
type ConnError struct {
	Code    ErrCode
	Details string // Envoy's response code details
	Stream  uint32 // the stream that Details are of: the others get DetailCodec; 0 for all
	Flood   Flood
	Reason  string // for people
}

func (e *ConnError) Error() string {
	return fmt.Sprintf("http2: %s: %s (%s)", e.Code, e.Reason, e.Details)
}

// Why a stream cannot be opened.
var (
	ErrNoStreams = errors.New("http2: the limit of concurrent streams is reached")
	ErrGoAway    = errors.New("http2: the connection takes no more streams")
)
