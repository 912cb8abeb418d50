package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	recordHeader     = 5
	recordHandshake  = 22
	maxRecord        = 16384 + 320 // what a record may hold when encrypted
	maxEmptyRecords  = 32
	handshakeHeader  = 4
	maxHandshakeBody = 16384
)

var (
	errNotHandshake = errors.New("the first bytes are not a TLS handshake record")
	errTooLarge     = errors.New("the ClientHello is larger than max_client_hello_size")
)

// HelloScan is the state of one connection's inspection for TLS. It is a
// value, confined to the connection's worker.
type HelloScan struct {
	config *TLSInspector
	at     int    // where the first record not yet taken in begins
	empty  int    // records without content in a row
	msg    []byte // content of the records taken in, unless the first has it all
}

// Inspect looks at everything peeked so far. Reject means a ClientHello that is
// too large or of an unsupported version, or, if so configured, anything that
// is not a ClientHello. After a verdict other than NeedMore the scan is over.
func (s *HelloScan) Inspect(peeked []byte) (ClientHello, Verdict) {
	if s.at == 0 && len(peeked) > 0 && peeked[0]&0x80 != 0 {
		return s.inspectV2(peeked)
	}
	for {
		content, err := s.nextRecord(peeked)
		if err != nil {
			return s.fail(err)
		}
		if content == nil {
			return ClientHello{}, NeedMore
		}
		if len(s.msg) > 0 || !holdsMessage(content) {
			s.msg = append(s.msg, content...)
			content = s.msg
		}
		body, err := handshakeBody(content)
		if err != nil {
			return s.fail(err)
		}
		if body != nil {
			return s.finish(body)
		}
	}
}

// nextRecord returns the content of the next record that has any, nil while it
// is incomplete.
func (s *HelloScan) nextRecord(peeked []byte) ([]byte, error) {
	for {
		rest := peeked[s.at:]
		if len(rest) > 0 && rest[0] != recordHandshake || len(rest) > 1 && rest[1] != 3 {
			return nil, errNotHandshake
		}
		if s.at+recordHeader > s.config.max {
			return nil, errTooLarge
		}
		if len(rest) < recordHeader {
			return nil, nil
		}
		size := int(binary.BigEndian.Uint16(rest[3:]))
		if size > maxRecord {
			return nil, fmt.Errorf("a TLS record of %d bytes is too long", size)
		}
		if s.at+recordHeader+size > s.config.max {
			return nil, errTooLarge
		}
		if len(rest) < recordHeader+size {
			return nil, nil
		}
		s.at += recordHeader + size
		if size > 0 {
			s.empty = 0
			return rest[recordHeader : recordHeader+size], nil
		}
		if s.empty++; s.empty > maxEmptyRecords {
			return nil, errors.New("too many empty TLS records")
		}
	}
}

func holdsMessage(content []byte) bool {
	return len(content) >= handshakeHeader && len(content) >= handshakeHeader+uint24(content[1:])
}

func uint24(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

// handshakeBody returns the body of the ClientHello, nil while it is
// incomplete.
func handshakeBody(msg []byte) ([]byte, error) {
	if msg[0] != 1 {
		return nil, fmt.Errorf("the first handshake message has type %d, not ClientHello", msg[0])
	}
	if len(msg) < handshakeHeader {
		return nil, nil
	}
	size := uint24(msg[1:])
	if size > maxHandshakeBody {
		return nil, fmt.Errorf("a ClientHello of %d bytes is too long", size)
	}
	switch end := handshakeHeader + size; {
	case len(msg) < end:
		return nil, nil
	case len(msg) > end:
		return nil, errors.New("the record goes on after the ClientHello")
	default:
		return msg[handshakeHeader:], nil
	}
}

func (s *HelloScan) finish(body []byte) (ClientHello, Verdict) {
	h, err := parseHello(body)
	if err != nil {
		return s.fail(err)
	}
	return s.result(h)
}

// result judges the version of a well-formed ClientHello. Whether its
// supported_versions suit is for the handshake to say.
func (s *HelloScan) result(h ClientHello) (ClientHello, Verdict) {
	s.msg = nil
	h.Size = s.at
	if h.Version < 0x0301 || h.Version > 0x0304 {
		h.Outcome, h.Err = HelloBadVersion, fmt.Errorf("the ClientHello asks for protocol version %#04x", h.Version)
		return h, Reject
	}
	h.Outcome = HelloFound
	return h, Done
}

func (s *HelloScan) fail(err error) (ClientHello, Verdict) {
	s.msg = nil
	if errors.Is(err, errTooLarge) {
		return ClientHello{Outcome: HelloTooLarge, Size: s.at, Err: err}, Reject
	}
	h := ClientHello{Outcome: HelloNotFound, Size: s.at, Err: err}
	if s.config.closeOnErrors {
		return h, Reject
	}
	return h, Done
}
