package client

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// stuckness is how a client fails to take what it is sent.
type stuckness int

const (
	notStuck stuckness = iota
	// stuckReading never reads from its socket.
	stuckReading
	// stuckWindow reads, but never opens its window again and never answers.
	stuckWindow
)

// conn is one connection with its one stream. It belongs to the loop.
type conn struct {
	id, fd   int
	stuck    stuckness
	frames   frameReader
	messages messageReader
	in       receiveWindow
	out      output
	session  session
	headers  []byte // first header block, for reading the trailers
	dirty    bool
	// dialling says that the connection counts as one in the making,
	// connecting that the socket is not connected yet, writable that the loop
	// waits for it to become so, or to take more.
	dialling, connecting, writable bool
	loop                           *Fleet
}

// start queues what every connection begins with.
func (c *conn) start(resuming bool) {
	f := c.loop
	r := &f.requests
	c.out.window = newSendWindow()
	opening, size := r.start, r.window
	if c.stuck == stuckWindow {
		opening, size = r.startStuck, initialWindow
	}
	c.in = receiveWindow{size: size, open: size, frozen: c.stuck == stuckWindow}
	c.out.control = append(c.out.control, opening...)
	c.session = session{fleet: f, conn: c, resuming: resuming}
	c.send(r.subscribe(resources.CDS, r.node(c.id), c.session.versions(resources.CDS))...)
}

// send queues a message.
func (c *conn) send(parts ...[]byte) {
	c.out.message(parts...)
	c.loop.touch(c)
}

// control queues a control frame.
func (c *conn) control(kind http2.FrameType, flags http2.Flags, payload []byte) {
	c.out.control = append(appendFrame(c.out.control, kind, flags, 0, len(payload)), payload...)
	c.loop.touch(c)
}

// dataFrame implements frameSink.
func (c *conn) dataFrame(size int, stream uint32) error {
	if stream != streamID {
		return fmt.Errorf("DATA on stream %d", stream)
	}
	if err := c.in.take(size); err != nil {
		return err
	}
	had := len(c.out.control)
	c.out.control = c.in.appendGrant(c.out.control)
	if len(c.out.control) > had {
		c.loop.touch(c)
	}
	return nil
}

// data implements frameSink.
func (c *conn) data(b []byte) error { return c.messages.feed(b, &c.session) }

// endOfStream implements frameSink.
func (c *conn) endOfStream() error { return errors.New("the server ended the stream without a status") }

// frame implements frameSink.
func (c *conn) frame(f frame) error {
	switch f.kind {
	case http2.FrameSettings:
		if f.flags.Has(http2.FlagSettingsAck) {
			return nil
		}
		c.control(http2.FrameSettings, http2.FlagSettingsAck, nil)
		return c.out.window.settings(f)
	case http2.FramePing:
		if !f.flags.Has(http2.FlagPingAck) {
			c.control(http2.FramePing, http2.FlagPingAck, f.payload)
		}
	case http2.FrameWindowUpdate:
		c.loop.touch(c)
		return c.out.window.update(f)
	case http2.FrameHeaders:
		return c.header(f)
	case http2.FrameRSTStream:
		return fmt.Errorf("the server reset the stream: %x", f.payload)
	case http2.FrameGoAway:
		return fmt.Errorf("the server sent GOAWAY: %q", f.payload)
	case http2.FrameContinuation, http2.FramePushPromise:
		return fmt.Errorf("unexpected %v frame", f.kind)
	}
	return nil
}

// header reads the response headers, which must say 200, or the trailers,
// which end the stream and are an error: an xDS stream has no end.
func (c *conn) header(f frame) error {
	if !f.flags.Has(http2.FlagHeadersEndHeaders) || f.flags.Has(http2.FlagHeadersPadded) || f.flags.Has(http2.FlagHeadersPriority) {
		return errors.New("HEADERS in a form this client does not read")
	}
	last := f.flags.Has(http2.FlagHeadersEndStream)
	if c.headers != nil || last {
		return c.ended(f.payload)
	}
	c.headers = slices.Clone(f.payload)
	fields, err := decodeHeaders(f.payload)
	if err != nil {
		return err
	}
	if fields[":status"] != "200" {
		return fmt.Errorf("the server answered %v", fields)
	}
	return nil
}

func (c *conn) ended(trailers []byte) error {
	fields, err := decodeHeaders(c.headers, trailers)
	if err != nil {
		return err
	}
	return fmt.Errorf("the server ended the stream: grpc-status %s %q", fields["grpc-status"], fields["grpc-message"])
}

// decodeHeaders decodes the header blocks of a connection, all from the first
// one on, as each depends on those before.
func decodeHeaders(blocks ...[]byte) (map[string]string, error) {
	fields := map[string]string{}
	d := hpack.NewDecoder(4096, func(f hpack.HeaderField) { fields[f.Name] = f.Value })
	for _, b := range blocks {
		if _, err := d.Write(b); err != nil {
			return nil, fmt.Errorf("headers: %w", err)
		}
		if err := d.Close(); err != nil {
			return nil, fmt.Errorf("headers: %w", err)
		}
	}
	return fields, nil
}
