//go:build interop

package differential

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// h2Origin is one HTTP/2 connection of an upstream server.
type h2Origin struct {
	origins  *origins
	rw, conn net.Conn
	name     string
	framer   *http2.Framer
	decoder  *hpack.Decoder
	streams  map[uint32]*h2Served
	wait     sync.WaitGroup

	write   sync.Mutex
	block   bytes.Buffer
	encoder *hpack.Encoder
}

// h2Served is a stream of an h2Origin. Only the reader uses it.
type h2Served struct {
	sighting *sighting
	answer   reply
	answered bool
	block    []byte
	ended    bool
	reset    chan struct{} // closed when the proxy reset the stream
}

func newH2Origin(o *origins, rw, conn net.Conn, name string) *h2Origin {
	c := &h2Origin{origins: o, rw: rw, conn: conn, name: name, streams: map[uint32]*h2Served{}, framer: http2.NewFramer(rw, rw)}
	c.framer.AllowIllegalReads, c.framer.AllowIllegalWrites = true, true
	c.decoder = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	return c
}

func (c *h2Origin) run() {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.rw, preface); err != nil {
		return
	}
	settings := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 20}}
	c.origins.mu.Lock()
	for name, value := range c.origins.script.Origin.Settings {
		settings = append(settings, http2.Setting{ID: settingID(name), Val: value})
	}
	c.origins.mu.Unlock()
	c.locked(func() error { return c.framer.WriteSettings(settings...) })
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			break
		}
		if !c.frame(f) {
			break
		}
	}
	for _, s := range c.streams {
		s.abandon()
	}
	c.wait.Wait()
}

func (s *h2Served) abandon() {
	select {
	case <-s.reset:
	default:
		close(s.reset)
	}
}

func (c *h2Origin) locked(f func() error) {
	c.write.Lock()
	defer c.write.Unlock()
	_ = f() // the reader notices a broken connection
}

// frame deals with one frame; false ends the connection.
func (c *h2Origin) frame(f http2.Frame) bool {
	id := f.Header().StreamID
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.locked(c.framer.WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			c.locked(func() error { return c.framer.WritePing(true, f.Data) })
		}
	case *http2.HeadersFrame:
		if c.streams[id] == nil {
			c.streams[id] = &h2Served{reset: make(chan struct{})}
		}
		c.headers(id, f.HeaderBlockFragment(), f.HeadersEnded(), f.StreamEnded())
	case *http2.ContinuationFrame:
		c.headers(id, f.HeaderBlockFragment(), f.HeadersEnded(), c.streams[id].ended)
	case *http2.DataFrame:
		c.data(id, f)
	case *http2.RSTStreamFrame:
		if s := c.streams[id]; s != nil && s.sighting != nil {
			c.origins.note(func() { s.sighting.end = "reset: " + f.ErrCode.String() })
			s.abandon()
		}
	}
	return true
}

func (c *h2Origin) headers(id uint32, fragment []byte, complete, ended bool) {
	s := c.streams[id]
	s.block = append(s.block, fragment...)
	s.ended = ended
	if !complete {
		return
	}
	list, err := c.decoder.DecodeFull(s.block)
	s.block = nil
	if err != nil {
		return
	}
	decoded := make([]field, 0, len(list))
	for _, f := range list {
		decoded = append(decoded, field{f.Name, f.Value})
	}
	if s.sighting == nil {
		s.sighting = &sighting{server: c.name, proto: "h2", message: message{headers: decoded}, end: "request not complete"}
		s.answer = c.origins.see(s.sighting)
	} else {
		c.origins.note(func() { s.sighting.message.trailers = decoded })
	}
	c.proceed(id, s)
}

func (c *h2Origin) data(id uint32, f *http2.DataFrame) {
	s := c.streams[id]
	if s == nil || s.sighting == nil {
		return
	}
	data := bytes.Clone(f.Data())
	c.origins.note(func() { s.sighting.message.body = append(s.sighting.message.body, data...) })
	if n := f.Header().Length; n > 0 {
		c.locked(func() error { return c.framer.WriteWindowUpdate(0, n) })
		if !f.StreamEnded() {
			c.locked(func() error { return c.framer.WriteWindowUpdate(id, n) })
		}
	}
	s.ended = f.StreamEnded()
	if s.answered && s.answer.Then == "echo" {
		c.locked(func() error { return c.framer.WriteData(id, s.ended, data) })
	}
	c.proceed(id, s)
}

// proceed answers when it is time to.
func (c *h2Origin) proceed(id uint32, s *h2Served) {
	if s.ended {
		c.origins.note(func() { s.sighting.end = "" })
	}
	if s.answered || s.answer.When != "headers" && !s.ended {
		return
	}
	s.answered = true
	c.wait.Go(func() { c.respond(id, s.answer, s.reset) })
}

func (c *h2Origin) respond(id uint32, a reply, gone <-chan struct{}) {
	if !pause(a.Delay, gone) || a.Then == "hang" && a.Status == 0 && a.Fields == nil {
		return
	}
	if a.Drop != "" {
		finish(a.Drop, c.conn)
		_ = c.conn.Close()
		return
	}
	switch a.Goaway {
	case "refuse":
		c.locked(func() error { return c.framer.WriteGoAway(0, http2.ErrCodeNo, nil) })
		_ = c.conn.Close()
		return
	case "drain":
		c.locked(func() error { return c.framer.WriteGoAway(id, http2.ErrCodeNo, nil) })
	}
	if a.Reset != "" && (a.ResetAt == "" || a.ResetAt == "start") {
		c.reset(id, a.Reset)
		return
	}
	for _, i := range a.Interim {
		c.headerBlock(id, append([]field{{":status", strconv.Itoa(i.Status)}}, fields(i.Headers)...), false)
	}
	status, body := a.content()
	head := append([]field{{":status", strconv.Itoa(status)}}, a.headers()...)
	if a.Fields != nil {
		head = fields(a.Fields)
	}
	bare := a.Then == "" && a.Reset == "" && len(a.Trailers) == 0
	c.headerBlock(id, head, bare && body == "")
	if !pause(a.Pause, gone) || bare && body == "" || a.resetAfter(c, id, "headers") {
		return
	}
	if body != "" {
		c.locked(func() error { return c.framer.WriteData(id, bare, []byte(body)) })
	}
	if bare || a.resetAfter(c, id, "body") {
		return
	}
	if len(a.Trailers) > 0 {
		c.headerBlock(id, fields(a.Trailers), true)
	}
	finish(a.Then, c.conn)
	if a.Then == "close" {
		_ = c.conn.Close()
	}
}

// pause waits; false means that the stream ended first.
func pause(d time.Duration, gone <-chan struct{}) bool {
	if d == 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		return false
	}
}

func (a *reply) resetAfter(c *h2Origin, id uint32, stage string) bool {
	if a.Reset == "" || a.ResetAt != stage {
		return false
	}
	c.reset(id, a.Reset)
	return true
}

func (c *h2Origin) reset(id uint32, code string) {
	c.locked(func() error { return c.framer.WriteRSTStream(id, errorCode(code)) })
}

func (c *h2Origin) headerBlock(id uint32, list []field, end bool) {
	c.locked(func() error {
		c.block.Reset()
		for _, f := range list {
			_ = c.encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
		}
		return harness.WriteBlock(c.framer, id, c.block.Bytes(), end)
	})
}

func settingID(name string) http2.SettingID {
	for id := http2.SettingHeaderTableSize; id <= http2.SettingEnableConnectProtocol; id++ {
		if id.String() == name {
			return id
		}
	}
	return 0
}

func errorCode(name string) http2.ErrCode {
	for code := http2.ErrCodeNo; code <= http2.ErrCodeHTTP11Required; code++ {
		if code.String() == name {
			return code
		}
	}
	return http2.ErrCodeNo
}
