package inspect

import (
	"errors"
	"fmt"

	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
)

// MaxClientHello is the largest ClientHello that can be configured, in bytes,
// record headers included.
const MaxClientHello = 16384

// TLSInspector is the configuration of a tls_inspector. It is immutable and
// safe for concurrent use.
type TLSInspector struct {
	max           int
	closeOnErrors bool
}

// NewTLSInspector reads the configuration; nil means all defaults. Defaults:
// max_client_hello_size 16384 bytes, parse errors mean plain text. The value of
// initial_read_buffer_size is only checked: peeking starts with what there is.
// JA3 and JA4 fingerprints are refused by name. Source:
// envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.proto; spec
// LF-04, LF-06.
func NewTLSInspector(c *tlsinspectorv3.TlsInspector) (*TLSInspector, error) {
	t := &TLSInspector{max: MaxClientHello, closeOnErrors: c.GetCloseConnectionOnClientHelloParsingErrors()}
	var errs []error
	if c.GetEnableJa3Fingerprinting().GetValue() {
		errs = append(errs, errors.New("enable_ja3_fingerprinting: not implemented: remove it or set it to false"))
	}
	if c.GetEnableJa4Fingerprinting().GetValue() {
		errs = append(errs, errors.New("enable_ja4_fingerprinting: not implemented: remove it or set it to false"))
	}
	if size := c.GetInitialReadBufferSize(); size != nil && (size.GetValue() <= 255 || size.GetValue() >= 65537) {
		errs = append(errs, fmt.Errorf("initial_read_buffer_size: %d: value must be inside range (255, 65537)", size.GetValue()))
	}
	if size := c.GetMaxClientHelloSize(); size != nil {
		if size.GetValue() <= 255 || size.GetValue() > MaxClientHello {
			errs = append(errs, fmt.Errorf("max_client_hello_size: %d: value must be inside range (255, %d]", size.GetValue(), MaxClientHello))
		}
		t.max = int(min(size.GetValue(), MaxClientHello))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return t, nil
}

// Start begins the inspection of one connection.
func (t *TLSInspector) Start() HelloScan { return HelloScan{config: t} }

// HelloOutcome is what an inspection for TLS came to.
type HelloOutcome uint8

const (
	// HelloNotFound means that the first bytes are not a well-formed
	// ClientHello.
	HelloNotFound HelloOutcome = iota
	// HelloFound means TLS.
	HelloFound
	// HelloTooLarge means that the ClientHello exceeds the configured size.
	HelloTooLarge
	// HelloBadVersion means that the ClientHello asks for a protocol version
	// other than TLS 1.0 to 1.3.
	HelloBadVersion
)

// ClientHello is the result of an inspection for TLS.
type ClientHello struct {
	Outcome HelloOutcome
	// SNI is the requested server name in lower case (ASCII); empty without
	// one. It is 1 to 255 bytes long and has no zero byte; any other byte is
	// possible.
	SNI string
	// ALPN holds the application protocols offered, in the client's order; nil
	// without a well-formed list.
	ALPN []string
	// Version is the legacy version of the message, 0x0303 for TLS 1.2 and 1.3.
	Version uint16
	// Versions holds the supported_versions extension, in the client's order;
	// nil without a well-formed one.
	Versions []uint16
	// Size counts the bytes looked at, record headers included.
	Size int
	// Err says why no ClientHello was found; nil for HelloFound.
	Err error
}

// Transport returns the transport protocol to match filter chains with.
func (h *ClientHello) Transport() string {
	if h.Outcome == HelloFound {
		return "tls"
	}
	return "raw_buffer"
}

// Count calls inc with the name, without "tls_inspector.", of each counter that
// the result adds one to. Source: spec LF-06.
func (h *ClientHello) Count(inc func(counter string)) {
	if h.Outcome == HelloTooLarge {
		inc("client_hello_too_large")
		return
	}
	if h.Outcome != HelloNotFound {
		inc(found("sni", h.SNI != ""))
	}
	inc(found("tls", h.Outcome == HelloFound))
	if h.Outcome == HelloFound {
		inc(found("alpn", len(h.ALPN) > 0))
	}
}

func found(what string, yes bool) string {
	if yes {
		return what + "_found"
	}
	return what + "_not_found"
}

// FailureReason is the value Envoy stores as failure_reason in the dynamic
// metadata envoy.filters.listener.tls_inspector; empty for none.
func (h *ClientHello) FailureReason() string {
	switch h.Outcome {
	case HelloTooLarge:
		return "ClientHelloTooLarge"
	case HelloNotFound:
		return "ClientHelloNotDetected"
	default:
		return ""
	}
}
