package oneport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/credentials"
)

// conn is a connection some of whose bytes have been read already.
type conn struct {
	net.Conn
	raw  net.Conn // below TLS
	info credentials.AuthInfo
	seen []byte     // to be read first
	acks *ackFilter // nil: nothing is taken out
}

// SyscallConn implements syscall.Conn, for gRPC's diagnosis of sockets.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := c.raw.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, fmt.Errorf("a connection of type %T: %w", c.raw, errors.ErrUnsupported)
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if c.acks == nil {
		return c.replay(b)
	}
	n, err := c.acks.Read(b)
	if c.acks.done() {
		c.acks = nil
	}
	return n, err
}

func (c *conn) replay(b []byte) (int, error) {
	if len(c.seen) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.seen)
	if c.seen = c.seen[n:]; len(c.seen) == 0 {
		c.seen = nil
	}
	return n, nil
}

// peek reads ahead and keeps everything it has read.
type peek struct {
	in   io.Reader
	buf  []byte
	next int
	err  error // what ended the reading, apart from the bytes
}

const peekSize = 1 << 10

// Read implements io.Reader.
func (p *peek) Read(b []byte) (int, error) {
	if p.next == len(p.buf) {
		if p.err == nil {
			p.fill()
		}
		if p.next == len(p.buf) {
			return 0, p.err
		}
	}
	n := copy(b, p.buf[p.next:])
	p.next += n
	return n, nil
}

func (p *peek) fill() {
	have := len(p.buf)
	p.buf = append(p.buf, make([]byte, peekSize)...)
	var n int
	for n == 0 && p.err == nil {
		n, p.err = p.in.Read(p.buf[have:])
	}
	p.buf = p.buf[:have+n]
}

// maxHeaders bounds the headers of a first request.
const maxHeaders = 64 << 10

// settings is an empty SETTINGS frame, with which a server may begin. The
// settings that count come from the server that gets the connection.
const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// classify reads as much as it takes to know whom a connection is for.
func (p *Port) classify(c *conn) (*queue, error) {
	in := &peek{in: c.Conn}
	defer func() { c.seen = in.buf }()
	if preface := readPreface(in); in.err != nil || !preface {
		if len(in.buf) == 0 {
			return nil, fmt.Errorf("the client has said nothing: %w", in.err)
		}
		return p.http, nil
	}
	// Clients may wait for the server's settings before they send a request.
	if _, err := io.WriteString(c.Conn, settings); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(p.cfg.Silence)); err != nil {
		return nil, err
	}
	grpc := firstIsGRPC(in)
	if in.err != nil && !errors.Is(in.err, os.ErrDeadlineExceeded) {
		return nil, in.err
	}
	if grpc {
		return p.grpc, nil
	}
	// net/http takes an acknowledgement that it has not asked for as an error.
	c.acks = &ackFilter{in: c.replay, pass: len(http2.ClientPreface)}
	return p.http, nil
}

// readPreface reads as long as what comes agrees with the preface of HTTP/2.
func readPreface(in *peek) bool {
	var b [1]byte
	for i := range len(http2.ClientPreface) {
		if n, _ := in.Read(b[:]); n == 0 || b[0] != http2.ClientPreface[i] {
			return false
		}
	}
	return true
}

// firstIsGRPC reads frames up to the first request. What is no request and
// cannot come before one is for gRPC, which answers it.
func firstIsGRPC(in *peek) bool {
	const atMost = 64
	fr := http2.NewFramer(io.Discard, in)
	fr.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	fr.MaxHeaderListSize = maxHeaders
	fr.SetMaxReadFrameSize(maxHeaders)
	for range atMost {
		f, err := fr.ReadFrame()
		if err != nil {
			return true
		}
		switch f := f.(type) {
		case *http2.SettingsFrame, *http2.WindowUpdateFrame, *http2.PriorityFrame:
		case *http2.MetaHeadersFrame:
			return isGRPC(f)
		default:
			return true
		}
	}
	return true
}

func isGRPC(f *http2.MetaHeadersFrame) bool {
	for _, h := range f.RegularFields() {
		if h.Name == "content-type" {
			return strings.HasPrefix(h.Value, "application/grpc")
		}
	}
	return false
}

// ackFilter takes the first acknowledgement of settings out of what a client
// sends: it is for the settings that classify has sent.
type ackFilter struct {
	in       func([]byte) (int, error)
	pass     int // bytes to let through
	head     [frameHeader]byte
	have     int    // bytes of head that have been read
	out      []byte // of head, to be let through
	finished bool
}

const (
	frameHeader  = 9
	settingsType = 4
	ackFlag      = 1
)

func (f *ackFilter) done() bool { return f.finished && len(f.out) == 0 && f.pass == 0 }

// Read implements io.Reader.
func (f *ackFilter) Read(b []byte) (int, error) {
	for len(b) > 0 {
		switch {
		case len(f.out) > 0:
			n := copy(b, f.out)
			f.out = f.out[n:]
			return n, nil
		case f.pass > 0:
			n, err := f.in(b[:min(len(b), f.pass)])
			f.pass -= n
			return n, err
		case f.finished:
			return f.in(b)
		}
		n, err := f.in(f.head[f.have:])
		if f.have += n; f.have == frameHeader {
			f.frame()
		} else if err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// frame decides what becomes of a frame, by its header.
func (f *ackFilter) frame() {
	f.have = 0
	size := int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	if f.head[3] == settingsType && f.head[4]&ackFlag != 0 && size == 0 {
		f.finished = true
		return
	}
	f.out, f.pass = f.head[:], size
}
