package inspect

import (
	"bytes"
	"encoding/binary"
)

// Builders of ClientHellos that no TLS library would send.

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }

func vec8(b []byte) []byte  { return append([]byte{byte(len(b))}, b...) }
func vec16(b []byte) []byte { return append(u16(len(b)), b...) }

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func extension(kind int, data []byte) []byte { return cat(u16(kind), vec16(data)) }

func sniOf(kind byte, name string) []byte {
	return extension(extServerName, vec16(cat([]byte{kind}, vec16([]byte(name)))))
}

func alpnOf(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(list, vec8([]byte(n))...)
	}
	return extension(extALPN, vec16(list))
}

func padding(n int) []byte { return extension(21, make([]byte, n)) }

type hello struct {
	version     int
	session     []byte
	ciphers     []byte
	compression []byte
	extensions  []byte // the raw rest of the message
}

func helloWith(extensions ...[]byte) hello {
	return hello{version: 0x0303, ciphers: []byte{0x13, 1, 0, 0x2f}, compression: []byte{0}, extensions: vec16(cat(extensions...))}
}

func (h hello) message() []byte {
	body := cat(u16(h.version), bytes.Repeat([]byte{'R'}, 32), vec8(h.session), vec16(h.ciphers), vec8(h.compression), h.extensions)
	return handshake(1, body)
}

func (h hello) record() []byte { return record(recordHandshake, 0x0301, h.message()) }

func handshake(kind byte, body []byte) []byte {
	return cat([]byte{kind, byte(len(body) >> 16)}, u16(len(body)), body)
}

func record(kind byte, version int, content []byte) []byte {
	return cat([]byte{kind}, u16(version), vec16(content))
}

func records(msg []byte, size int) []byte {
	var out []byte
	for len(msg) > 0 {
		n := min(size, len(msg))
		out = append(out, record(recordHandshake, 0x0301, msg[:n])...)
		msg = msg[n:]
	}
	return out
}

// messageOf is a ClientHello for a.com of exactly n bytes.
func messageOf(n int) []byte {
	base := len(helloWith(sniOf(0, "a.com"), padding(0)).message())
	return helloWith(sniOf(0, "a.com"), padding(n-base)).message()
}

func v2Hello(version int, ciphers, session, challenge []byte) []byte {
	body := cat([]byte{1}, u16(version), u16(len(ciphers)), u16(len(session)), u16(len(challenge)), ciphers, session, challenge)
	return cat(u16(0x8000|len(body)), body)
}
