//go:build interop

package differential

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// h2Client is a client of HTTP/2 that sends whatever frames it is told to.
type h2Client struct {
	*session

	framer  *http2.Framer
	decoder *hpack.Decoder

	write   sync.Mutex // frames are written by the steps and by the reader
	out     *bufio.Writer
	block   bytes.Buffer
	encoder *hpack.Encoder

	streams  map[uint32]*h2Stream
	settings bool // those of the proxy have come
	acked    bool // the proxy has taken ours
	limits   map[string]string
	window   uint32 // what the proxy added to the connection's
	pings    int
	goaway   []string
}

// h2Stream is what came back on a stream.
type h2Stream struct {
	messages []*message
	body     []byte
	end      string
	partial  []byte
	closes   bool
}

func runH2(port int, x *exchange, o *observation) error {
	conn, tcp, err := connect(port, x, o)
	if conn == nil {
		return err
	}
	out := bufio.NewWriterSize(conn, 256<<10)
	c := &h2Client{session: newSession(x, conn, tcp), out: out, framer: http2.NewFramer(out, conn), streams: map[uint32]*h2Stream{}, limits: map[string]string{}}
	c.framer.AllowIllegalReads, c.framer.AllowIllegalWrites = true, true
	c.framer.SetMaxReadFrameSize(1 << 20)
	c.decoder = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	o.port(conn.LocalAddr().(*net.TCPAddr).Port, "client")
	c.start()
	open, err := c.play(c.read, c.act)
	c.report(o, open)
	return err
}

// act does what the exchange says.
func (c *h2Client) act() (open bool, err error) {
	x := c.x
	if len(x.Steps) == 0 || x.Steps[0].Frame != "preface" {
		// What is sent with the preface may be read together with it or not.
		c.until(patience, func() bool { return c.settings && c.acked })
	}
	if x.Request != nil {
		c.request(x.Request)
	}
	open, err = steps(x.Steps, c.step)
	if err == nil && open {
		c.await()
	}
	return open, err
}

// start says hello. A write that fails shows in what is read.
func (c *h2Client) start() {
	settings := make([]http2.Setting, 0, len(c.x.Settings))
	for _, name := range slices.Sorted(maps.Keys(c.x.Settings)) {
		settings = append(settings, http2.Setting{ID: settingID(name), Val: c.x.Settings[name]})
	}
	if len(c.x.Steps) > 0 && c.x.Steps[0].Frame == "preface" {
		return // the exchange has its own
	}
	c.locked(func() error {
		_, _ = io.WriteString(c.out, http2.ClientPreface)
		return c.framer.WriteSettings(settings...)
	})
}

// locked writes frames. If they cannot be sent, that shows in what is read.
func (c *h2Client) locked(f func() error) {
	c.write.Lock()
	defer c.write.Unlock()
	_ = f()
	_ = c.out.Flush()
}

// request sends a request in as few writes as possible: how much of it the
// proxy has read when it answers shall not depend on chance.
func (c *h2Client) request(r *request) {
	method, path, host := r.or()
	scheme := "http"
	if c.x.TLS != nil {
		scheme = "https"
	}
	head := []field{{":method", method}, {":scheme", scheme}, {":authority", host}, {":path", path}}
	for _, f := range fields(r.Headers) {
		head = append(head, field{strings.ToLower(f.name), f.value})
	}
	body := text(r.Body)
	if len(body) > 1<<16-1 {
		c.until(patience, func() bool { return c.settings && c.window+1<<16-1 >= uint32(len(body)) })
	}
	c.open(1)
	c.locked(func() error {
		_ = c.headerBlock(1, head, body == "" && len(r.Trailers) == 0)
		for len(body) > 0 {
			part := body[:min(len(body), 16<<10)]
			body = body[len(part):]
			_ = c.framer.WriteData(1, body == "" && len(r.Trailers) == 0, []byte(part))
		}
		if len(r.Trailers) > 0 {
			return c.headerBlock(1, fields(r.Trailers), true)
		}
		return nil
	})
}

func (c *h2Client) open(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[id] == nil {
		c.streams[id] = &h2Stream{}
	}
}

// headerBlock writes a header block. The caller holds the lock.
func (c *h2Client) headerBlock(id uint32, list []field, end bool) error {
	c.block.Reset()
	for _, f := range list {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	return harness.WriteBlock(c.framer, id, c.block.Bytes(), end)
}

func (c *h2Client) headers(id uint32, list []field, end bool) {
	c.open(id)
	c.locked(func() error { return c.headerBlock(id, list, end) })
}

// step does one step; false means that the client closed the connection.
func (c *h2Client) step(s step) (bool, error) {
	id := max(s.Stream, 1)
	for i := range max(s.Repeat, 1) {
		switch {
		case s.Fields != nil:
			c.headers(id+2*uint32(i), fields(s.Fields), s.End)
		case s.Data != nil:
			c.locked(func() error { return c.framer.WriteData(id, s.End, []byte(text(*s.Data))) })
		case s.Frame != "":
			if err := c.frame(s); err != nil {
				return true, err
			}
		case s.Wait != "":
			return true, c.wait(s)
		case s.Do == "close":
			return false, nil
		case s.Do == "rst":
			harness.Reset(c.tcp)
			return false, nil
		case s.Do == "half-close":
			return true, c.tcp.CloseWrite()
		default:
			return true, fmt.Errorf("a client of h2 cannot do %+v", s)
		}
	}
	return true, nil
}

// frame writes a frame that is neither HEADERS nor DATA. Raw is the code of an
// RST_STREAM or GOAWAY, the name of a setting, or the bytes of a raw frame.
func (c *h2Client) frame(s step) error {
	var write func() error
	switch s.Frame {
	case "rst":
		write = func() error { return c.framer.WriteRSTStream(max(s.Stream, 1), errorCode(s.Raw)) }
	case "goaway":
		write = func() error { return c.framer.WriteGoAway(s.Stream, errorCode(s.Raw), nil) }
	case "window":
		write = func() error { return c.framer.WriteWindowUpdate(s.Stream, s.Number) }
	case "ping":
		write = func() error { return c.framer.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}) }
	case "settings":
		write = func() error {
			if s.Raw == "" {
				return c.framer.WriteSettings()
			}
			return c.framer.WriteSettings(http2.Setting{ID: settingID(s.Raw), Val: s.Number})
		}
	case "priority":
		write = func() error {
			return c.framer.WritePriority(max(s.Stream, 1), http2.PriorityParam{StreamDep: s.Number, Weight: 10})
		}
	case "raw":
		raw, err := hex.DecodeString(strings.ReplaceAll(s.Raw, " ", ""))
		if err != nil {
			return fmt.Errorf("raw frame: %w", err)
		}
		write = func() error { _, err := c.out.Write(raw); return err }
	case "preface":
		write = func() error { _, err := io.WriteString(c.out, text(s.Raw)); return err }
	default:
		return fmt.Errorf("no frame %q", s.Frame)
	}
	c.locked(write)
	return nil
}

func (c *h2Client) wait(s step) error {
	if d, err := time.ParseDuration(s.Wait); err == nil {
		c.stay(d)
		return nil
	}
	id := max(s.Stream, 1)
	if rest, ok := strings.CutPrefix(s.Wait, "bytes "); ok {
		n, err := strconv.Atoi(rest)
		c.until(patience, func() bool { return c.streams[id] != nil && (len(c.streams[id].body) >= n || c.streams[id].end != "") })
		return err
	}
	switch s.Wait {
	case "response":
		c.until(patience, func() bool { return c.streams[id] != nil && c.streams[id].end != "" })
	case "headers":
		c.until(patience, func() bool { return c.streams[id] != nil && len(c.streams[id].messages) > 0 })
	case "settings":
		c.until(patience, func() bool { return c.settings })
	case "ping":
		c.until(patience, func() bool { return c.pings > 0 })
	case "close":
		c.stay(patience)
	default:
		return fmt.Errorf("cannot wait for %q", s.Wait)
	}
	return nil
}

// await waits until every stream has ended, and then for a while.
func (c *h2Client) await() {
	if c.x.Expect == nil || *c.x.Expect > 0 {
		c.until(patience, func() bool {
			for _, s := range c.streams {
				if s.end == "" {
					return false
				}
			}
			return true
		})
	}
	c.stayOn(linger)
}

func (c *h2Client) read() error {
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return err
		}
		c.received(f)
	}
}

func (c *h2Client) received(f http2.Frame) {
	id := f.Header().StreamID
	var answer func() error
	c.mu.Lock()
	s := c.streams[id]
	if s == nil && id != 0 {
		s = &h2Stream{}
		c.streams[id] = s
	}
	switch f := f.(type) {
	case *http2.SettingsFrame:
		c.acked = c.acked || f.IsAck()
		if !f.IsAck() {
			c.settings = true
			_ = f.ForeachSetting(func(set http2.Setting) error {
				c.limits[set.ID.String()] = strconv.FormatUint(uint64(set.Val), 10)
				return nil
			})
			answer = c.framer.WriteSettingsAck
		}
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.window += f.Increment
		}
	case *http2.PingFrame:
		if f.IsAck() {
			c.pings++
		} else {
			data := f.Data
			answer = func() error { return c.framer.WritePing(true, data) }
		}
	case *http2.GoAwayFrame:
		c.goaway = append(c.goaway, fmt.Sprintf("last=%d %s", f.LastStreamID, f.ErrCode))
	case *http2.HeadersFrame:
		s.closes = f.StreamEnded()
		c.fragment(s, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		c.fragment(s, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		s.body = append(s.body, f.Data()...)
		s.finish(f.StreamEnded())
		if n := f.Header().Length; n > 0 && (c.x.Window == nil || *c.x.Window) {
			answer = func() error {
				_ = c.framer.WriteWindowUpdate(0, n)
				return c.framer.WriteWindowUpdate(id, n)
			}
		}
	case *http2.RSTStreamFrame:
		if s.end != "" {
			s.end += ", then "
		}
		s.end += "reset: " + f.ErrCode.String()
	}
	c.mu.Unlock()
	if answer != nil {
		c.locked(answer)
	}
	c.signal()
}

func (s *h2Stream) finish(ended bool) {
	if ended {
		s.end = "complete"
	}
}

func (c *h2Client) fragment(s *h2Stream, part []byte, complete bool) {
	s.partial = append(s.partial, part...)
	if !complete {
		return
	}
	list, err := c.decoder.DecodeFull(s.partial)
	s.partial = nil
	m := &message{framing: "headers"}
	if err != nil {
		m.problem = err.Error()
	}
	for _, f := range list {
		m.headers = append(m.headers, field{f.Name, f.Value})
	}
	s.messages = append(s.messages, m)
	s.finish(s.closes)
}

func (c *h2Client) report(o *observation, open bool) {
	for _, id := range slices.Sorted(maps.Keys(c.streams)) {
		s := c.streams[id]
		name := "client.s" + strconv.FormatUint(uint64(id), 10)
		for i, m := range s.messages {
			o.message(name+"."+strconv.Itoa(i+1), m)
		}
		o.body(name+".body", s.body)
		o.set(name+".end", s.end)
	}
	for name, value := range c.limits {
		o.set("client.settings."+name, value)
	}
	if len(c.goaway) > 0 {
		o.set("client.goaway", strings.Join(c.goaway, "; "))
	}
	if c.pings > 0 {
		o.set("client.pings", strconv.Itoa(c.pings))
	}
	c.session.report(o, open)
}
