package http1

import (
	"bytes"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Event is what Decoder.Next found.
type Event uint8

// The events of a message: Informational*, Headers, Data*, then Trailers or End
// unless an earlier event had end set.
const (
	NeedMore      Event = iota // the input does not hold another event
	Headers                    // the header map has the head
	Informational              // the same for a 1xx response other than 101
	Data                       // a part of the body, never empty
	Trailers                   // the header map has the trailers; the message ends
	End                        // the message ends
)

type state uint8

const (
	stStart      state = iota // before or in the first line
	stFields                  // in the header lines
	stLength                  // in a body of known length
	stChunkSize               // before or in a line with a chunk size
	stChunkData               // in a chunk
	stChunkEnd                // before the CRLF behind a chunk
	stTrailers                // in the trailer lines
	stUntilClose              // in a body that ends with the connection
	stRaw                     // behind an upgrade
	stClosed                  // the peer ended what had to end so
	stIdle                    // client: no response is expected
)

// Decoder decodes the messages of one connection, one after the other. Init
// makes it ready; it is reusable. It is confined to the connection's worker.
type Decoder struct {
	o     *Options
	role  Role
	state state
	err   *Error

	scan      int // bytes of an unfinished line that were looked at
	size      int // bytes of the head or the trailers so far
	count     int // fields so far
	remain    uint64
	maxSize   int
	maxCount  int
	authority int // where :authority stands in the header map

	msg      message
	request  expected
	cases    Cases
	dropped  int
	nameRoom [64]byte
}

// message is what the framing of one message depends on.
type message struct {
	version     Version
	status      int
	method      string
	hosts       int
	lengths     int
	codings     int
	length      uint64
	absolute    bool
	close       bool // Connection has close
	keepAlive   bool // Connection has keep-alive
	hostNom     bool // Connection has host
	upgradeNom  bool // Connection has upgrade
	settingsNom bool // Connection has http2-settings
	upgrade     bool // the message asks for, or makes, an upgrade
	untilClose  bool
}

// expected is the request that the next response answers.
type expected struct {
	head, connect, upgrade bool
}

// Init makes a decoder ready for a new connection. Options must not change
// while it is in use. A client's decoder also needs ExpectResponseTo.
func (d *Decoder) Init(role Role, o *Options) {
	cases := d.cases
	cases.reset()
	*d = Decoder{o: o, role: role, cases: cases}
	d.maxSize, d.maxCount = o.maxHeaders(role)
	if role == Client {
		d.state = stIdle
	}
}

// ExpectResponseTo announces a client's next response: the method of its
// request, and whether that asks for an upgrade. Bytes that come before are an
// error.
func (d *Decoder) ExpectResponseTo(method string, upgrade bool) {
	d.request = expected{head: method == "HEAD", connect: method == "CONNECT", upgrade: upgrade}
	if d.state == stIdle {
		d.state = stStart
	}
}

// Upgraded makes everything from here on raw data. Next knows by itself when an
// upgrade or a CONNECT was asked for or granted; this is for a caller that
// knows better.
func (d *Decoder) Upgraded() { d.state, d.scan = stRaw, 0 }

// Version is the version of the current message.
func (d *Decoder) Version() Version { return d.msg.version }

// KeepAlive reports whether the connection may carry another message after the
// current one, as far as that message says.
func (d *Decoder) KeepAlive() bool {
	m := &d.msg
	switch {
	case d.err != nil, m.close, m.untilClose, m.upgrade, d.state == stRaw:
		return false
	case m.version == HTTP10:
		return m.keepAlive
	}
	return true
}

// SaysClose reports whether the message itself says that it is the last of its
// connection: by Connection, or by being HTTP/1.0 without keep-alive.
func (d *Decoder) SaysClose() bool {
	m := &d.msg
	return m.close || m.version == HTTP10 && !m.keepAlive
}

// HasUpgrade reports whether the message asks for an upgrade or a CONNECT
// tunnel (server), or grants one (client). Its body is raw data without an end.
func (d *Decoder) HasUpgrade() bool { return d.msg.upgrade }

// Started reports whether a message is under way: bytes of it have come and its
// end has not.
func (d *Decoder) Started() bool {
	switch d.state {
	case stStart:
		return d.scan > 0
	case stIdle, stClosed:
		return false
	}
	return true
}

// Dropped is how many headers of the current message Options.Underscores
// dropped.
func (d *Decoder) Dropped() int { return d.dropped }

// Cases is how the current message wrote its names, for the encoder of the
// other side; nil unless Options.HeaderCase is PreserveCase. It is valid until
// the next message begins.
func (d *Decoder) Cases() *Cases {
	if d.o.HeaderCase != PreserveCase {
		return nil
	}
	return &d.cases
}

// Next decodes the next event of the message that buf continues. It consumes n
// bytes, also with NeedMore; the rest of buf, with more bytes behind it, must
// be given again.
//
// The head or the trailers go into h, which must be empty when a message
// begins, the same until Headers, and reset by the caller after Informational
// and before trailers if it must not grow. data is a part of buf. end reports
// that this event completes the message. An error is an *Error and stays.
func (d *Decoder) Next(buf []byte, h *header.Map) (ev Event, n int, data []byte, end bool, err error) {
	if d.err != nil {
		return NeedMore, 0, nil, false, d.err
	}
	var e *Error
	ev, n, data, end, e = d.next(buf, h)
	if e != nil {
		d.err = e
		return NeedMore, n, nil, false, e
	}
	return ev, n, data, end, nil
}

func (d *Decoder) next(buf []byte, h *header.Map) (ev Event, n int, data []byte, end bool, err *Error) {
	switch d.state {
	case stStart, stFields:
		return d.nextHead(buf, h)
	case stChunkSize, stChunkData, stChunkEnd, stTrailers:
		return d.nextChunked(buf, h)
	case stClosed:
		d.state = stIdle
		if d.role == Server {
			d.state = stStart
		}
		return End, 0, nil, true, nil
	}
	if len(buf) == 0 {
		return NeedMore, 0, nil, false, nil
	}
	switch d.state {
	case stLength:
		n = len(buf)
		if uint64(n) >= d.remain {
			n, end = int(d.remain), !d.msg.upgrade
			d.finish()
		} else {
			d.remain -= uint64(n)
		}
		return Data, n, buf[:n], end, nil
	case stIdle:
		return NeedMore, 0, nil, false, d.bad("bytes without a request to answer")
	}
	return Data, len(buf), buf, false, nil // until the connection closes, or raw
}

// finish goes to the state behind a message's body.
func (d *Decoder) finish() {
	d.scan, d.size, d.count = 0, 0, 0
	switch {
	case d.msg.upgrade:
		d.state = stRaw
	case d.role == Client:
		d.state = stIdle
	default:
		d.state = stStart
	}
}

// EOF tells that the peer ended the stream. It is nil if no message was under
// way, or if that completes one: then Next(nil, h) gives End once.
func (d *Decoder) EOF() error {
	switch {
	case d.err != nil:
		return d.err
	case d.state == stUntilClose || d.state == stRaw:
		d.state = stClosed
		return nil
	case !d.Started() && (d.role == Server || d.state == stIdle || d.state == stClosed):
		return nil
	}
	d.err = d.bad("the connection ended within a message")
	return d.err
}

func (d *Decoder) nextHead(buf []byte, h *header.Map) (ev Event, n int, data []byte, end bool, err *Error) {
	if d.state == stStart {
		n, err = d.firstLine(buf, h)
		if err != nil || d.state == stStart {
			return NeedMore, n, nil, false, err
		}
	}
	done := false
	for !done {
		k := 0
		k, done, err = d.fieldLine(buf[n:], h)
		if err != nil {
			return NeedMore, n, nil, false, err
		}
		if k == 0 {
			return NeedMore, n, nil, false, nil
		}
		n += k
	}
	d.scan = 0
	if d.role == Server {
		end, err = d.requestHead(h)
		return Headers, n, nil, end, err
	}
	ev, end, err = d.responseHead(h)
	return ev, n, nil, end, err
}

// firstLine reads what stands before the header lines: empty lines before a
// request, and the request or status line.
func (d *Decoder) firstLine(buf []byte, h *header.Map) (n int, err *Error) {
	for {
		rest := buf[n:]
		if len(rest) == 0 {
			return n, nil
		}
		if err := d.firstByte(rest[0]); err != nil {
			return n, err
		}
		i := bytes.IndexByte(rest[d.scan:], '\n')
		if i < 0 {
			d.scan = len(rest)
			if d.size+d.scan > d.maxSize {
				return n, d.tooLarge()
			}
			return n, nil
		}
		i += d.scan
		d.scan = 0
		n += i + 1
		d.size += i + 1
		if d.size > d.maxSize {
			return n, d.tooLarge()
		}
		if i == 0 || rest[i-1] != '\r' {
			return n, d.bad("a line that does not end in CRLF")
		}
		if i == 1 && d.role == Server {
			continue
		}
		d.begin()
		if d.role == Server {
			err = d.requestLine(rest[:i-1], h)
		} else {
			err = d.statusLine(rest[:i-1], h)
		}
		d.state = stFields
		return n, err
	}
}

// firstByte refuses at once what cannot become a message, such as a TLS hello.
func (d *Decoder) firstByte(c byte) *Error {
	switch {
	case d.role == Client && c != 'H':
		return d.bad("a response that does not begin with a version")
	case d.role == Server && lowerToken[c] == 0 && c != '\r' && c != '\n':
		return d.bad("a request that does not begin with a method")
	}
	return nil
}

// begin forgets the message before.
func (d *Decoder) begin() {
	d.msg = message{}
	d.dropped, d.count = 0, 0
	d.cases.reset()
}

func (d *Decoder) tooLarge() *Error {
	return d.fail(431, DetailHeadersTooLarge, "names and values are larger than the limit")
}
