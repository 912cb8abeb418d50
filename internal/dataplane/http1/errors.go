package http1

import "fmt"

// Error is why a message was refused. The connection cannot be read any further.
type Error struct {
	// Status is that of the local reply to a request, and 502 for a response.
	Status int
	// Details is Envoy's response code detail.
	Details string
	// Flag is Envoy's response flag: DPE for a request, UPE for a response.
	Flag string
	// Reason says for logs what was wrong.
	Reason string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("http/1: %s (%s)", e.Reason, e.Details) }

// The response code details of refused messages.
const (
	DetailCodec             = "http1.codec_error"
	DetailHeadersTooLarge   = "http1.headers_too_large"
	DetailTooManyHeaders    = "http1.too_many_headers"
	DetailTooManyTrailers   = "http1.too_many_trailers"
	DetailInvalidCharacters = "http1.invalid_characters"
	DetailUnderscore        = "http1.unexpected_underscore"
	DetailInvalidURL        = "http1.invalid_url"
	DetailInvalidScheme     = "http1.invalid_scheme"
	DetailInvalidAuthority  = "http.invalid_authority"
	DetailTransferEncoding  = "http1.invalid_transfer_encoding"
	DetailLengthAndChunked  = "http1.content_length_and_chunked_not_allowed"
	DetailBodyDisallowed    = "http1.body_disallowed"
	DetailNoTransferCoding  = "http1.transfer_encoding_not_allowed"
	DetailNoContentLength   = "http1.content_length_not_allowed"
	DetailConnection        = "http1.connection_header_rejected"
	DetailLowVersion        = "low_version"
)

func (d *Decoder) fail(status int, details, reason string) *Error {
	flag := "DPE"
	if d.role == Client {
		status, flag = 502, "UPE"
	}
	return &Error{Status: status, Details: details, Flag: flag, Reason: reason}
}

func (d *Decoder) bad(reason string) *Error { return d.fail(400, DetailCodec, reason) }
