package inspect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/cryptobyte"
)

const (
	extServerName        = 0
	extALPN              = 16
	extSupportedVersions = 43
	maxServerName        = 255
)

var errMalformed = errors.New("the ClientHello is malformed")

// parseHello reads the body of a ClientHello. It refuses what no server could
// answer; the content of extensions it does not need is left to the handshake.
func parseHello(body []byte) (ClientHello, error) {
	var h ClientHello
	var session, ciphers, compression cryptobyte.String
	s := cryptobyte.String(body)
	if !s.ReadUint16(&h.Version) || !s.Skip(32) || !s.ReadUint8LengthPrefixed(&session) || len(session) > 32 ||
		!s.ReadUint16LengthPrefixed(&ciphers) || len(ciphers) < 2 || len(ciphers)%2 != 0 ||
		!s.ReadUint8LengthPrefixed(&compression) || len(compression) == 0 {
		return h, errMalformed
	}
	if s.Empty() {
		return h, nil
	}
	var extensions cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&extensions) || !s.Empty() {
		return h, errMalformed
	}
	return h, h.readExtensions(extensions)
}

func (h *ClientHello) readExtensions(s cryptobyte.String) error {
	var seen []uint16
	for !s.Empty() {
		var kind uint16
		var data cryptobyte.String
		if !s.ReadUint16(&kind) || !s.ReadUint16LengthPrefixed(&data) {
			return errMalformed
		}
		seen = append(seen, kind)
		switch kind {
		case extServerName:
			name, ok := serverName(data)
			if !ok {
				return fmt.Errorf("%w: server_name", errMalformed)
			}
			h.SNI = name
		case extALPN:
			h.ALPN = protocolNames(data)
		case extSupportedVersions:
			h.Versions = supportedVersions(data)
		}
	}
	if count := len(seen); len(compact(seen)) != count {
		return fmt.Errorf("%w: an extension occurs twice", errMalformed)
	}
	return nil
}

func compact(kinds []uint16) []uint16 {
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// serverName wants exactly one name, of type host_name.
func serverName(s cryptobyte.String) (string, bool) {
	var list, name cryptobyte.String
	var kind uint8
	if !s.ReadUint16LengthPrefixed(&list) || !s.Empty() ||
		!list.ReadUint8(&kind) || kind != 0 || !list.ReadUint16LengthPrefixed(&name) || !list.Empty() ||
		len(name) == 0 || len(name) > maxServerName || slices.Contains(name, 0) {
		return "", false
	}
	return lowerASCII(name), true
}

func lowerASCII(b []byte) string {
	out := slices.Clone(b)
	for i, c := range out {
		if 'A' <= c && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return string(out)
}

func protocolNames(s cryptobyte.String) []string {
	var list cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&list) || !s.Empty() {
		return nil
	}
	var out []string
	for !list.Empty() {
		var name cryptobyte.String
		if !list.ReadUint8LengthPrefixed(&name) || len(name) == 0 {
			return nil
		}
		out = append(out, protocolName(name))
	}
	return out
}

// protocolName saves the memory of the usual names.
func protocolName(b []byte) string {
	switch string(b) {
	case "h2":
		return "h2"
	case "http/1.1":
		return "http/1.1"
	}
	return string(b)
}

func supportedVersions(s cryptobyte.String) []uint16 {
	var list cryptobyte.String
	if !s.ReadUint8LengthPrefixed(&list) || !s.Empty() || len(list)%2 != 0 {
		return nil
	}
	var out []uint16
	for len(list) > 0 {
		var v uint16
		list.ReadUint16(&v)
		out = append(out, v)
	}
	return out
}

// inspectV2 reads a ClientHello in the framing of SSL 2, which old clients of
// TLS 1.0 send. It has neither server name nor application protocols.
func (s *HelloScan) inspectV2(peeked []byte) (ClientHello, Verdict) {
	const smallest, largest = recordHeader - 2, 4096
	if len(peeked) > 2 && peeked[2] != 1 || len(peeked) > 3 && peeked[3] != 3 {
		return s.fail(errNotHandshake)
	}
	if len(peeked) < recordHeader {
		return ClientHello{}, NeedMore
	}
	size := int(binary.BigEndian.Uint16(peeked) & 0x7fff)
	if size < smallest || size > largest {
		return s.fail(errNotHandshake)
	}
	if 2+size > s.config.max {
		return s.fail(errTooLarge)
	}
	if len(peeked) < 2+size {
		return ClientHello{}, NeedMore
	}
	s.at = 2 + size
	var h ClientHello
	if !h.readV2(peeked[3 : 2+size]) {
		return s.fail(errMalformed)
	}
	return s.result(h)
}

func (h *ClientHello) readV2(s cryptobyte.String) bool {
	var ciphers, session, challenge uint16
	var specs []byte
	if !s.ReadUint16(&h.Version) || !s.ReadUint16(&ciphers) || !s.ReadUint16(&session) || !s.ReadUint16(&challenge) ||
		!s.ReadBytes(&specs, int(ciphers)) || !s.Skip(int(session)) || !s.Skip(int(challenge)) || !s.Empty() || ciphers%3 != 0 {
		return false
	}
	for ; len(specs) > 0; specs = specs[3:] {
		if specs[0] == 0 {
			return true // a cipher suite that TLS has too
		}
	}
	return false
}
