package hpack

import (
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
)

// plan is how the value of a name is sent.
type plan uint8

const (
	// adaptive values enter the table when they come a second time: names the
	// proxy does not know, and those that are the same for a while or never.
	adaptive plan = iota
	indexed       // values that a connection repeats enter the table at once
	literal       // values that are new each time never do
	never         // secrets: nor may any later hop index them
	skip          // connection-specific: not sent (RFC 9113 section 8.2.2)
	teField       // only "trailers" is sent
)

// plans are the names that are not adaptive.
//
//nolint:gochecknoglobals // a constant table
var plans = [256]plan{
	header.Authority: indexed, header.Scheme: indexed, header.Method: indexed, header.Status: indexed,
	header.ContentType: indexed, header.ContentEncoding: indexed, header.Accept: indexed,
	header.AcceptEncoding: indexed, header.AcceptLanguage: indexed, header.UserAgent: indexed,
	header.Server: indexed, header.Via: indexed, header.Vary: indexed, header.CacheControl: indexed,
	header.XForwardedProto: indexed, header.GRPCEncoding: indexed, header.GRPCAcceptEncoding: indexed,
	header.GRPCStatus: indexed, header.Host: indexed,
	header.XRequestID: literal, header.GRPCTimeout: literal, header.XClientTraceID: literal,
	header.XEnvoyUpstreamServiceTime: literal, header.ETag: literal, header.LastModified: literal,
	header.Location: literal, header.SetCookie: never, header.Authorization: never,
	header.Connection: skip, header.KeepAlive: skip, header.ProxyConnection: skip,
	header.TransferEncoding: skip, header.Upgrade: skip, header.TE: teField,
}

// staticIndex is where the static table has a name first.
//
//nolint:gochecknoglobals // a constant table
var staticIndex = [256]uint8{
	header.Authority: 1, header.Method: 2, header.Path: 4, header.Scheme: 6, header.Status: 8,
	header.AcceptEncoding: 16, header.AcceptLanguage: 17, header.Accept: 19, header.Authorization: 23,
	header.CacheControl: 24, header.ContentEncoding: 26, header.ContentLength: 28, header.ContentType: 31,
	header.Cookie: 32, header.Date: 33, header.ETag: 34, header.Expect: 35, header.Host: 38,
	header.LastModified: 44, header.Location: 46, header.Referer: 51, header.Server: 54,
	header.SetCookie: 55, header.TransferEncoding: 57, header.UserAgent: 58, header.Vary: 59, header.Via: 60,
}

const (
	otherChains = 64
	numChains   = 128 + otherChains
	maxChain    = 4  // entries of one name that are compared
	shortCookie = 20 // bytes below which a cookie could be guessed
)

// Encoder encodes the header lists of one direction of a connection.
type Encoder struct {
	t     table
	limit uint32 // what the peer allows and we want
	low   uint32 // the smallest limit since the last block
	dirty bool   // the peer has to be told
	own   uint32 // what we want at most
	chain *[numChains]uint32
	seen  *[64]uint16 // hashes of values that may come again
	known *knownLists // nil until there is one
}

// Init makes the encoder that of a new connection, with a table of at most own
// bytes whatever the peer allows, and keeps its memory.
func (e *Encoder) Init(own uint32) {
	t := &e.t
	*e = Encoder{t: table{ring: t.ring, buf: t.buf[:0], max: DefaultTableSize}, own: own, limit: DefaultTableSize, chain: e.chain, seen: e.seen, known: e.known}
	if e.known != nil {
		*e.known = knownLists{} // a generation may come again
	}
	if e.chain == nil {
		e.chain, e.seen = new([numChains]uint32), new([64]uint16)
	}
	*e.chain, *e.seen = [numChains]uint32{}, [64]uint16{}
	if own < DefaultTableSize {
		e.SetLimit(own)
	}
}

// SetLimit takes the peer's SETTINGS_HEADER_TABLE_SIZE, in bytes. The next
// block tells what came of it.
func (e *Encoder) SetLimit(n uint32) {
	n = min(n, e.own)
	if n == e.limit && !e.dirty {
		return
	}
	if !e.dirty {
		e.dirty, e.low = true, n
	}
	if n > e.low {
		e.low = 0 // two updates: some decoders take a second one only if their table is empty
	}
	e.low = min(e.low, n)
	e.limit = n
	e.t.resize(e.low)
	e.t.max = n
}

// Append appends the block of a list: pseudo-headers first whatever their
// order, and without the fields that HTTP/2 does not have.
func (e *Encoder) Append(dst []byte, m *header.Map) []byte {
	if e.dirty {
		if e.low < e.limit {
			dst = appendInt(dst, 0x20, 0x1f, e.low)
		}
		dst = appendInt(dst, 0x20, 0x1f, e.limit)
		e.dirty = false
	}
	if f, touched := m.Thawed(); f != nil {
		return e.appendThawed(dst, m, e.indices(f), touched)
	}
	for id := header.Method; id <= header.Protocol; id++ {
		if v, ok := m.LookupID(id); ok {
			dst = e.pseudo(dst, id, v)
		}
	}
	fields := m.Fields()
	for i := range fields {
		if f := &fields[i]; isRegular(f) {
			dst = e.field(dst, f.Name, f.Value, f.ID())
		}
	}
	return dst
}

// isRegular reports whether a field is there and no pseudo-header.
func isRegular(f *header.Field) bool {
	id := f.ID()
	return f.Name != "" && (id == header.Other || id > header.Protocol)
}

func (e *Encoder) pseudo(dst []byte, id header.ID, v string) []byte {
	switch {
	case id == header.Method && v == "GET":
		return append(dst, 0x82)
	case id == header.Method && v == "POST":
		return append(dst, 0x83)
	case id == header.Scheme && v == "http":
		return append(dst, 0x86)
	case id == header.Scheme && v == "https":
		return append(dst, 0x87)
	case id == header.Status && v == "200":
		return append(dst, 0x88)
	case id == header.Path && v == "/":
		return append(dst, 0x84)
	case id == header.Status:
		for i := 9; i <= 14; i++ {
			if static[i].value == v {
				return append(dst, 0x80|byte(i))
			}
		}
	}
	return e.field(dst, id.Name(), v, id)
}

func (e *Encoder) field(dst []byte, name, value string, id header.ID) []byte {
	p := plans[id]
	if p < literal && id != header.Other {
		if at := e.last(id, value); at != 0 {
			return appendInt(dst, 0x80, 0x7f, at)
		}
	}
	if p >= literal {
		switch {
		case p == literal:
			return e.appendLiteral(dst, 0, name, value, id)
		case p == skip, p == teField && value != "trailers" && !strings.EqualFold(value, "trailers"):
			return dst
		case p == never:
			return e.appendLiteral(dst, 0x10, name, value, id)
		}
		p = indexed
	}
	switch {
	case id == header.Cookie && len(value) < shortCookie:
		return e.appendLiteral(dst, 0x10, name, value, id)
	case id == header.Other && sensitive(name):
		return e.appendLiteral(dst, 0x10, name, value, id)
	}
	chain := &e.chain[chainOf(name, id)]
	nameAt := uint32(staticIndex[id])
	n := *chain - 1
	for range maxChain {
		if !e.t.live(n) {
			break
		}
		ent := e.t.at(n)
		if ent.id == id && (id != header.Other || e.t.name(ent) == name) {
			at := uint32(numStatic) + e.t.head - n
			if int(ent.vlen) == len(value) && string(e.t.value(ent)) == value {
				return appendInt(dst, 0x80, 0x7f, at)
			}
			if nameAt == 0 {
				nameAt = at
			}
		}
		n = ent.prev
	}
	if uint32(len(name)+len(value)) > e.t.max/2 || p == adaptive && !e.again(value) {
		return appendString(appendName(dst, 0, 0x0f, nameAt, name), value, false)
	}
	dst = appendString(appendName(dst, 0x40, 0x3f, nameAt, name), value, true)
	if e.t.insert(name, value, id, 0, *chain-1) {
		*chain = e.t.head
	}
	return dst
}

// last is the index of the newest entry of a known name, or 0 if that has
// another value: what a connection repeats is found here.
func (e *Encoder) last(id header.ID, value string) uint32 {
	n := e.chain[id] - 1
	if !e.t.live(n) {
		return 0
	}
	if ent := e.t.at(n); ent.id != id || int(ent.vlen) != len(value) || string(e.t.value(ent)) != value {
		return 0
	}
	return uint32(numStatic) + e.t.head - n
}

// again reports whether a value came before, not too long ago, and remembers it.
func (e *Encoder) again(v string) bool {
	const k = 0x9e3779b97f4a7c15
	h := uint64(len(v)) * k
	s := v
	for ; len(s) >= 8; s = s[8:] {
		h = (h ^ load64(s)) * k
		h ^= h >> 29
	}
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * k
	}
	slot, tag := &e.seen[h>>58], uint16(h>>32)|1
	if *slot == tag {
		return true
	}
	*slot = tag
	return false
}

// appendLiteral appends a field that leaves the table as it is.
func (e *Encoder) appendLiteral(dst []byte, first byte, name, value string, id header.ID) []byte {
	return appendString(appendName(dst, first, 0x0f, uint32(staticIndex[id]), name), value, false)
}

func appendName(dst []byte, first, mask byte, at uint32, name string) []byte {
	if at != 0 {
		return appendInt(dst, first, mask, at)
	}
	return appendString(append(dst, first), name, mask == 0x3f)
}

// chainOf is the chain of entries that have a name.
func chainOf(name string, id header.ID) int {
	if id != header.Other || name == "" {
		return int(id)
	}
	n := len(name)
	h := uint32(n)*31 + uint32(name[0])*7 + uint32(name[n-1])*131 + uint32(name[n>>1])*17
	return 128 + int(h%otherChains)
}

// sensitive reports whether a name is known to carry secrets.
func sensitive(name string) bool {
	switch len(name) {
	case 19:
		return name == "proxy-authorization"
	case 9:
		return name == "x-api-key"
	case 12:
		return name == "x-auth-token" || name == "x-csrf-token"
	}
	return false
}

func appendInt(dst []byte, first, mask byte, v uint32) []byte {
	if v < uint32(mask) {
		return append(dst, first|byte(v))
	}
	dst = append(dst, first|mask)
	for v -= uint32(mask); v >= 0x80; v >>= 7 {
		dst = append(dst, byte(v)|0x80)
	}
	return append(dst, byte(v))
}

// appendString appends a string, as a Huffman code if that is asked for and
// shorter: what enters the table is written once, so bytes count more than time.
func appendString(dst []byte, s string, compress bool) []byte {
	if compress {
		if n := huffmanLen(s); n < len(s) {
			return appendHuffman(appendInt(dst, 0x80, 0x7f, uint32(n)), s)
		}
	}
	return append(appendInt(dst, 0, 0x7f, uint32(len(s))), s...)
}
