package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	signatureV1 = "PROXY "
	signatureV2 = "\r\n\r\n\x00\r\nQUIT\n"
	maxLineV1   = 108 // bytes, with its line end
	headerV2    = HeaderLengthV2
)

var errNoProxyHeader = errors.New("the first bytes are not a PROXY protocol header")

// ProxyScan is the state of one connection's inspection for a PROXY header. It
// is a value, confined to the connection's worker.
type ProxyScan struct {
	config  *ProxyProtocol
	version int // 0 until a signature is complete
	at      int // bytes of a version 1 line searched for its end
}

// Start begins the inspection of one connection.
func (p *ProxyProtocol) Start() ProxyScan { return ProxyScan{config: p} }

// Inspect looks at everything peeked so far. Reject means a header that is
// malformed, of a disallowed version, or missing where one is required. A
// header is complete with all its extensions, at most 65551 bytes.
func (s *ProxyScan) Inspect(peeked []byte) (ProxyHeader, Verdict) {
	if s.version == 0 {
		switch {
		case s.startsWith(peeked, signatureV1, 1):
			s.version = 1
		case s.startsWith(peeked, signatureV2, 2):
			s.version = 2
		case s.mayBecome(peeked, signatureV1, 1) || s.mayBecome(peeked, signatureV2, 2):
			return ProxyHeader{}, NeedMore
		case s.config.allowWithout:
			return ProxyHeader{}, Done
		default:
			return ProxyHeader{Err: errNoProxyHeader}, Reject
		}
	}
	if s.config.disallowed[s.version] {
		return ProxyHeader{
			Outcome: ProxyDisallowed, Version: s.version,
			Err: fmt.Errorf("PROXY protocol version %d is disallowed", s.version),
		}, Reject
	}
	if s.version == 1 {
		return s.inspectV1(peeked)
	}
	return s.inspectV2(peeked)
}

// ignored tells whether headers of the version are data like any other: those
// disallowed where connections without a header are allowed.
func (s *ProxyScan) ignored(version int) bool {
	return s.config.allowWithout && s.config.disallowed[version]
}

func (s *ProxyScan) startsWith(b []byte, signature string, version int) bool {
	return !s.ignored(version) && len(b) >= len(signature) && string(b[:len(signature)]) == signature
}

func (s *ProxyScan) mayBecome(b []byte, signature string, version int) bool {
	return !s.ignored(version) && len(b) < len(signature) && string(b) == signature[:len(b)]
}

func (s *ProxyScan) fail(format string, args ...any) (ProxyHeader, Verdict) {
	return ProxyHeader{
		Outcome: ProxyError, Version: s.version,
		Err: fmt.Errorf("PROXY protocol version %d: "+format, append([]any{s.version}, args...)...),
	}, Reject
}

func (s *ProxyScan) inspectV1(peeked []byte) (ProxyHeader, Verdict) {
	window := peeked[:min(len(peeked), maxLineV1)]
	i := bytes.Index(window[s.at:], []byte("\r\n"))
	if i < 0 {
		if len(window) == maxLineV1 {
			return s.fail("the line is longer than %d bytes", maxLineV1)
		}
		s.at = max(0, len(window)-1) // the carriage return may be there
		return ProxyHeader{}, NeedMore
	}
	end := s.at + i
	h := ProxyHeader{Outcome: ProxyFound, Version: 1, Length: end + 2}
	fields := strings.Split(strings.TrimRight(string(window[:end]), " \t\r\n\v\f"), " ")
	if len(fields) < 2 {
		return s.fail("the line has no protocol")
	}
	if fields[1] == "UNKNOWN" {
		return h, Done
	}
	if len(fields) != 6 {
		return s.fail("the line has %d fields, not 6", len(fields))
	}
	if fields[1] != "TCP4" && fields[1] != "TCP6" {
		return s.fail("the protocol %q is not one of TCP4, TCP6, UNKNOWN", fields[1])
	}
	var err error
	if h.Source.AddrPort, err = addressV1(fields[1], fields[2], fields[4]); err != nil {
		return s.fail("source: %w", err)
	}
	if h.Destination.AddrPort, err = addressV1(fields[1], fields[3], fields[5]); err != nil {
		return s.fail("destination: %w", err)
	}
	h.Proxied = true
	return h, Done
}

func addressV1(protocol, host, port string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", host)
	}
	if addr.Is4() != (protocol == "TCP4") {
		return netip.AddrPort{}, fmt.Errorf("%s is not an address of %s", addr, protocol)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port", port)
	}
	return netip.AddrPortFrom(addr, uint16(n)), checkUnicast(addr)
}

// checkUnicast refuses what no end of a connection can have.
func checkUnicast(a netip.Addr) error {
	if a.IsUnspecified() || a.Is4() && (a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})) || a.Is6() && a.As16()[0] == 0xff {
		return fmt.Errorf("%s is not a unicast address", a)
	}
	return nil
}

func (s *ProxyScan) inspectV2(peeked []byte) (ProxyHeader, Verdict) {
	if len(peeked) > 12 && peeked[12]>>4 != 2 {
		return s.fail("the header has version %d", peeked[12]>>4)
	}
	if len(peeked) > 12 && peeked[12]&0xf > 1 {
		return s.fail("the command %d is not one of LOCAL, PROXY", peeked[12]&0xf)
	}
	if len(peeked) < headerV2 {
		return ProxyHeader{}, NeedMore
	}
	local := peeked[12]&0xf == 0
	size := int(binary.BigEndian.Uint16(peeked[14:]))
	need := 0
	if !local {
		var err error
		if need, err = addressesLength(peeked[13]); err != nil {
			return s.fail("%w", err)
		}
	}
	if size < need {
		return s.fail("%d bytes are too few for two addresses", size)
	}
	if len(peeked) < headerV2+size {
		return ProxyHeader{}, NeedMore
	}
	h := ProxyHeader{Outcome: ProxyFound, Version: 2, Length: headerV2 + size}
	if local {
		return h, Done
	}
	h.Proxied = true
	body := peeked[headerV2 : headerV2+size]
	if err := h.readAddresses(body[:need]); err != nil {
		return s.fail("%w", err)
	}
	if err := s.config.readTLVs(&h, bytes.Clone(body[need:])); err != nil {
		return s.fail("%w", err)
	}
	return h, Done
}

// addressesLength returns how many bytes the two addresses of a family take.
// Envoy has no Unix sockets here.
func addressesLength(family byte) (int, error) {
	if transport := family & 0xf; transport != 1 && transport != 2 {
		return 0, fmt.Errorf("the transport %d is not one of STREAM, DGRAM", transport)
	}
	switch family >> 4 {
	case 1:
		return 2 * (4 + 2), nil
	case 2:
		return 2 * (16 + 2), nil
	case 3:
		return 2 * 108, nil
	}
	return 0, fmt.Errorf("the address family %d is not one of INET, INET6, UNIX", family>>4)
}

func (h *ProxyHeader) readAddresses(b []byte) error {
	half := len(b) / 2
	if half == 108 {
		h.Source.Unix, h.Destination.Unix = unixPath(b[:half]), unixPath(b[half:])
		return nil
	}
	n := half - 2 // two addresses, then two ports
	source, _ := netip.AddrFromSlice(b[:n])
	destination, _ := netip.AddrFromSlice(b[n : 2*n])
	h.Source.AddrPort = netip.AddrPortFrom(source, binary.BigEndian.Uint16(b[2*n:]))
	h.Destination.AddrPort = netip.AddrPortFrom(destination, binary.BigEndian.Uint16(b[2*n+2:]))
	if err := checkUnicast(source); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if err := checkUnicast(destination); err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	return nil
}

// unixPath ends at the first zero byte, an abstract name (which begins with
// one) at the last byte that is not zero.
func unixPath(b []byte) string {
	if b[0] == 0 {
		return string(bytes.TrimRight(b, "\x00"))
	}
	path, _, _ := bytes.Cut(b, []byte{0})
	return string(path)
}
