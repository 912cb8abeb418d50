package oneport

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

// The first acknowledgement is taken out, wherever it is and however the bytes
// come and are asked for, and nothing else.
func TestAckFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in, want bytes.Buffer
		in.WriteString(http2.ClientPreface)
		want.WriteString(http2.ClientPreface)
		taken := false
		for _, kind := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 12).Draw(t, "frames") {
			frame := &bytes.Buffer{}
			fr := http2.NewFramer(frame, nil)
			var err error
			switch kind {
			case 0:
				err = fr.WriteSettingsAck()
			case 1:
				err = fr.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 20_000})
			case 2:
				err = fr.WriteData(1, false, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "data"))
			default:
				err = fr.WritePing(true, [8]byte{})
			}
			if err != nil {
				t.Fatal(err)
			}
			in.Write(frame.Bytes())
			if kind == 0 && !taken {
				taken = true
				continue
			}
			want.Write(frame.Bytes())
		}
		tail := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "a part of a frame")
		in.Write(tail)
		if taken { // otherwise a header that is not whole is not let through
			want.Write(tail)
		}
		f := &ackFilter{in: chunks(t, &in).Read, pass: len(http2.ClientPreface)}
		got, err := io.ReadAll(chunks(t, f))
		if err != nil || !bytes.Equal(got, want.Bytes()) || f.done() != taken {
			t.Fatalf("got %q, %v, want %q", got, err, want.Bytes())
		}
	})
}

// chunks reads in pieces of random sizes.
func chunks(t *rapid.T, r io.Reader) io.Reader {
	sizes := rapid.SliceOfN(rapid.IntRange(1, 30), 1, 10).Draw(t, "sizes")
	i := 0
	return readerFunc(func(b []byte) (int, error) {
		i++
		return r.Read(b[:min(len(b), sizes[i%len(sizes)])])
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// text is a connection on which a client has sent a text and closed its side.
type text struct {
	net.Conn
	io.Reader
	sent bytes.Buffer
}

func (c *text) Read(b []byte) (int, error)      { return c.Reader.Read(b) }
func (c *text) Write(b []byte) (int, error)     { return c.sent.Write(b) }
func (*text) SetReadDeadline(_ time.Time) error { return nil }

// FuzzClassify: whatever a client begins with, the server that gets the
// connection reads all of it.
func FuzzClassify(f *testing.F) {
	var h2 bytes.Buffer
	h2.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&h2, nil)
	if fr.WriteSettings() != nil || fr.WriteWindowUpdate(0, 5) != nil {
		f.Fatal("writing frames")
	}
	for _, contentType := range []string{"application/grpc", "application/json"} {
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for _, h := range [][2]string{{":method", "POST"}, {":path", "/"}, {":scheme", "http"}, {"content-type", contentType}} {
			if err := e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
				f.Fatal(err)
			}
		}
		whole := bytes.NewBufferString(h2.String())
		if err := http2.NewFramer(whole, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
			f.Fatal(err)
		}
		f.Add(whole.String(), false)
		f.Add(whole.String(), true)
	}
	f.Add(h2.String(), false)
	f.Add("POST /v3/discovery:clusters HTTP/1.1\r\n\r\n", true)
	f.Add("", false)
	f.Add("PRI * HTTP/2.0\r\n\r\nSX", true)
	f.Fuzz(func(t *testing.T, sent string, slowly bool) {
		p := New(nil, Config{})
		raw := &text{Reader: strings.NewReader(sent)}
		if slowly {
			raw.Reader = iotest.OneByteReader(raw.Reader)
		}
		c := &conn{Conn: raw}
		to, err := p.classify(c)
		if err != nil {
			return
		}
		if to == nil {
			t.Fatal("it is for nobody")
		}
		if h2 := strings.HasPrefix(sent, http2.ClientPreface); h2 != (raw.sent.Len() > 0) || !h2 && to != p.http {
			t.Errorf("%q: sent %q, for REST: %v", sent, raw.sent.String(), to == p.http)
		}
		c.acks = nil
		if got, err := io.ReadAll(c); err != nil || string(got) != sent {
			t.Errorf("the server reads %q, %v, of %q", got, err, sent)
		}
	})
}
