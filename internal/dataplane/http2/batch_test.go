package http2

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/xebec-proxy/xebec/filter/header"
)

// batched feeds frames at once to a connection that tells by kind, and gives what
// was told.
func batched(t *testing.T, role Role, prepare func(p *peer), write func(fr *http2.Framer, head func(kv ...string) []byte)) ([]string, *peer) {
	t.Helper()
	p := newPeer(t, role, &Options{Batch: true})
	prepare(p)
	if err := p.c.Feed(written(role, write)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(p.take(), func(l string) bool { return l == "settings" }), p
}

// written is the bytes of frames.
func written(role Role, write func(fr *http2.Framer, head func(kv ...string) []byte)) []byte {
	var b, hb bytes.Buffer
	if role == Server {
		b.WriteString(preface)
	}
	fr := http2.NewFramer(&b, nil)
	_ = fr.WriteSettings()
	e := hpack.NewEncoder(&hb)
	write(fr, func(kv ...string) []byte {
		hb.Reset()
		for i := 0; i < len(kv); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
		}
		return bytes.Clone(hb.Bytes())
	})
	return b.Bytes()
}

func request(id uint32, end bool, block []byte) http2.HeadersFrameParam {
	return http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: end}
}

// What comes at once is told by kind; within a stream the order stays.
func TestBatchByKind(t *testing.T) {
	got, _ := batched(t, Server, func(*peer) {}, func(fr *http2.Framer, head func(kv ...string) []byte) {
		for _, id := range []uint32{1, 3} {
			_ = fr.WriteHeaders(request(id, false, head(":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a")))
			_ = fr.WriteData(id, false, []byte("one"))
			_ = fr.WriteHeaders(request(id, true, head("t", "u")))
		}
		_ = fr.WriteHeaders(request(5, true, head(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a")))
	})
	want := []string{
		"1 headers :method=POST :scheme=http :path=/ :authority=a end=false",
		"3 headers :method=POST :scheme=http :path=/ :authority=a end=false",
		"5 headers :method=GET :scheme=http :path=/ :authority=a end=true",
		"1 trailers t=u", "3 trailers t=u",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// What is neither head nor body nor trailers comes after what was before it, and so
// do more messages than a batch holds.
func TestBatchInOrder(t *testing.T) {
	get := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}
	said := "headers :method=GET :scheme=http :path=/ :authority=a "
	got, p := batched(t, Server, func(*peer) {}, func(fr *http2.Framer, head func(kv ...string) []byte) {
		_ = fr.WriteHeaders(request(1, false, head(get...)))
		_ = fr.WriteRSTStream(1, http2.ErrCodeCancel)
		_ = fr.WriteHeaders(request(3, false, head(get...)))
		_ = fr.WritePing(true, [8]byte{})
		_ = fr.WriteHeaders(request(5, false, head(get...)))
	})
	if want := []string{"1 " + said + "end=false", "1 reset CANCEL remote=true " + DetailRemoteReset, "1 closed", "3 " + said + "end=false", "ping ack 0000000000000000", "5 " + said + "end=false"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if p.c.Active() != 2 {
		t.Errorf("%d streams are open", p.c.Active())
	}
	n := 0
	_, p = batched(t, Server, func(p *peer) { p.onHeaders = func(s *Stream, _ bool) { s.SendHeaders(fields(":status", "204"), true) } }, func(fr *http2.Framer, head func(kv ...string) []byte) {
		for n = range 3*maxBatch + 1 {
			_ = fr.WriteHeaders(request(uint32(2*n+1), false, head(get...)))
			_ = fr.WriteData(uint32(2*n+1), true, []byte("x"))
		}
	})
	if p.c.Active() != 0 || len(p.bodies) != n+1 {
		t.Errorf("%d streams are open, %d of %d had a body", p.c.Active(), len(p.bodies), n+1)
	}
}

// Heads that are not final come in their turn, too, and bytes count when they are told.
func TestBatchInOrderOfResponses(t *testing.T) {
	var wire []uint64
	got, _ := batched(t, Client, func(p *peer) {
		p.start(fields(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"), true)
		p.start(fields(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"), true)
		p.onData = func(s *Stream, _ []byte, _ bool) {
			_, n := s.Wire()
			wire = append(wire, n)
		}
	}, func(fr *http2.Framer, head func(kv ...string) []byte) {
		_ = fr.WriteHeaders(request(1, false, head(":status", "200")))
		_ = fr.WriteHeaders(request(3, false, head(":status", "103")))
		_ = fr.WriteData(1, false, []byte("one"))
		_ = fr.WriteData(1, false, []byte("three"))
	})
	if want := []string{"1 headers :status=200 end=false", "3 informational :status=103"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if head := uint64(frameHead + 1); !slices.Equal(wire, []uint64{head + 12, head + 12 + 14}) {
		t.Errorf("received %d", wire)
	}
}

// What a batch says of a stream is what it would say at once, where that depends on
// what the handler did with what came before: the cases that random input rarely has.
func TestBatchSaysTheSame(t *testing.T) {
	post := []string{":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a"}
	for name, write := range map[string]func(fr *http2.Framer, head func(kv ...string) []byte){
		"windows that are opened meanwhile": func(fr *http2.Framer, head func(kv ...string) []byte) {
			_ = fr.WriteHeaders(request(9, false, head(post...)))
			for range 6 {
				_ = fr.WriteData(9, false, make([]byte, 16000))
			}
		},
		"streams that end meanwhile": func(fr *http2.Framer, head func(kv ...string) []byte) {
			for id := uint32(5); id < 16*20; id += 16 {
				_ = fr.WriteHeaders(request(id, true, head(post...)))
			}
		},
		"a body that is too long": func(fr *http2.Framer, head func(kv ...string) []byte) {
			_ = fr.WriteHeaders(request(9, false, head(append(post, "content-length", "1")...)))
			_ = fr.WriteData(9, true, []byte("xy"))
		},
		"wrong trailers of a stream that was reset": func(fr *http2.Framer, head func(kv ...string) []byte) {
			_ = fr.WriteHeaders(request(3, false, head(post...)))
			_ = fr.WriteHeaders(request(3, true, head(":path", "/")))
			_ = fr.WriteHeaders(request(9, true, head(post...)))
		},
		"an error of the connection": func(fr *http2.Framer, head func(kv ...string) []byte) {
			_ = fr.WriteHeaders(request(9, false, head(post...)))
			_ = fr.WriteHeaders(request(10, false, head(post...)))
		},
		"data after the end": func(fr *http2.Framer, head func(kv ...string) []byte) {
			_ = fr.WriteHeaders(request(5, true, head(post...)))
			_ = fr.WriteData(5, true, []byte("xy"))
		},
		"a head after the end": func(fr *http2.Framer, head func(kv ...string) []byte) {
			_ = fr.WriteHeaders(request(5, true, head(post...)))
			_ = fr.WriteHeaders(request(5, true, head(post...)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := written(Server, write)
			for _, streamErrors := range []bool{false, true} {
				checkBatch(t, Server, Options{MaxConcurrentStreams: 8, StreamWindow: 1 << 20, ConnWindow: 70000, StreamErrors: streamErrors}, in, []byte{7})
			}
		})
	}
}

// A stream that its handler ends hears no more of what came with its head.
func TestBatchAfterTheEnd(t *testing.T) {
	got, p := batched(t, Server, func(p *peer) { p.onHeaders = func(s *Stream, _ bool) { s.Reset(Cancel) } }, func(fr *http2.Framer, head func(kv ...string) []byte) {
		_ = fr.WriteHeaders(request(1, false, head(":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a")))
		_ = fr.WriteData(1, false, bytes.Repeat([]byte("x"), 9000))
		_ = fr.WriteHeaders(request(1, true, head("t", "u")))
	})
	if want := []string{"1 headers :method=POST :scheme=http :path=/ :authority=a end=false", "1 closed"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if p.c.Active() != 0 || p.c.credit != 9000 {
		t.Errorf("%d streams are open, %d bytes can be told as taken", p.c.Active(), p.c.credit)
	}
}

// proxying opens a stream on another connection for each request.
type proxying struct {
	*peer
	to     *Conn
	opened []*Stream
	each   func(i int, s *Stream)
	order  []string
}

func (p *proxying) OnHeaders(s *Stream, _ bool) {
	p.order = append(p.order, "head")
	if !p.c.Telling() {
		p.t.Error("it is not known that heads are told")
	}
	up, err := p.to.OpenStreamLater(s.Headers, true, &header.Map{}, &header.Map{}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.opened = append(p.opened, up)
	if p.each != nil {
		p.each(len(p.opened)-1, up)
	}
}

func (p *proxying) OnHeads() { p.order = append(p.order, "heads") }

func (p *proxying) OnData(*Stream, []byte, bool) { p.order = append(p.order, "data") }

// The heads that the heads of a batch lead to are sent in the order of their
// streams, with whatever follows them behind.
func TestHeadsOfABatch(t *testing.T) {
	for name, c := range map[string]struct {
		each func(p *proxying) func(i int, s *Stream)
		want []string
	}{
		"all": {nil, []string{"HEADERS 1", "HEADERS 3", "HEADERS 5", "HEADERS 7"}},
		"reset": {func(*proxying) func(int, *Stream) {
			return func(i int, s *Stream) {
				if i == 1 {
					s.Reset(Cancel)
				}
			}
		}, []string{"HEADERS 1", "HEADERS 3", "RST_STREAM 3", "HEADERS 5", "HEADERS 7"}},
		"ping": {func(p *proxying) func(int, *Stream) {
			return func(i int, _ *Stream) {
				if i == 2 {
					p.to.Ping([8]byte{})
				}
			}
		}, []string{"HEADERS 1", "HEADERS 3", "HEADERS 5", "PING 0", "HEADERS 7"}},
		"closed": {func(p *proxying) func(int, *Stream) {
			return func(i int, _ *Stream) {
				if i == 3 {
					p.to.Close(NoError, "")
				}
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var pool Pool
			client := newPeer(t, Client, nil)
			client.c.UsePool(&pool)
			client.out = client.out[:0]
			server := newPeer(t, Server, nil)
			p := &proxying{peer: server, to: &client.c}
			if c.each != nil {
				p.each = c.each(p)
			}
			server.c.Init(Server, &Options{Batch: true}, p, &server.out)
			server.c.UsePool(&pool)
			in := written(Server, func(fr *http2.Framer, head func(kv ...string) []byte) {
				for id := uint32(1); id <= 7; id += 2 {
					_ = fr.WriteHeaders(request(id, false, head(":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a")))
					_ = fr.WriteData(id, true, []byte("x"))
				}
			})
			if err := server.c.Feed(in); err != nil {
				t.Fatal(err)
			}
			if want := []string{"head", "head", "head", "head", "heads", "data", "data", "data", "data"}; !slices.Equal(p.order, want) {
				t.Errorf("told %q", p.order)
			}
			var got []string
			for in := http2.NewFramer(nil, bytes.NewReader(client.out)); ; {
				f, err := in.ReadFrame()
				if err != nil {
					break
				}
				got = append(got, fmt.Sprint(f.Header().Type, " ", f.Header().StreamID))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("sent %q", got)
			}
			if len(pool.heads) != 0 || pool.telling {
				t.Error("heads are left over")
			}
		})
	}
}
