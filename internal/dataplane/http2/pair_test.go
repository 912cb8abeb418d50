package http2

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// peer is a handler that records what it is told and does what it is told to.
type peer struct {
	t        testing.TB
	c        Conn
	out      []byte
	log      []string
	bodies   map[uint32]*bytes.Buffer
	streams  map[uint32]*Stream
	consume  bool // acknowledge bodies at once
	consumed map[uint32]int
	open     int
	full     bool

	onHeaders  func(s *Stream, end bool)
	onData     func(s *Stream, b []byte, end bool)
	onTrailers func(s *Stream)
	onReset    func(s *Stream)
	onWritable func(s *Stream)
	onClosed   func(s *Stream)
	onStream   func(s *Stream)
}

func newPeer(t testing.TB, role Role, o *Options) *peer {
	p := &peer{t: t, bodies: map[uint32]*bytes.Buffer{}, streams: map[uint32]*Stream{}, consume: true, consumed: map[uint32]int{}}
	p.c.Init(role, o, p, &p.out)
	p.c.Start()
	return p
}

func (p *peer) logf(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *peer) take() []string {
	l := p.log
	p.log = nil
	return l
}

func flat(m *header.Map) string {
	var b []byte
	for n, v := range m.All() {
		b = append(b, ' ')
		b = append(b, n...)
		b = append(b, '=')
		b = append(b, v...)
	}
	return string(b)
}

func (p *peer) OnStream(s *Stream) {
	s.Headers, s.Trailers = &header.Map{}, &header.Map{}
	p.streams[s.ID] = s
	p.open++
	if p.onStream != nil {
		p.onStream(s)
	}
}

func (p *peer) OnHeaders(s *Stream, end bool) {
	p.logf("%d headers%s end=%t", s.ID, flat(s.Headers), end)
	if p.onHeaders != nil {
		p.onHeaders(s, end)
	}
}

func (p *peer) OnInformational(s *Stream) { p.logf("%d informational%s", s.ID, flat(s.Headers)) }

func (p *peer) OnData(s *Stream, b []byte, end bool) {
	buf := p.bodies[s.ID]
	if buf == nil {
		buf = &bytes.Buffer{}
		p.bodies[s.ID] = buf
	}
	buf.Write(b)
	if end {
		p.logf("%d body %d end", s.ID, buf.Len())
	}
	if p.consume { // at places that do not depend on how the input is split
		for buf.Len()-p.consumed[s.ID] >= 64 {
			p.consumed[s.ID] += 64
			s.Consumed(64)
		}
	}
	if p.onData != nil {
		p.onData(s, b, end)
	}
}

func (p *peer) OnTrailers(s *Stream) {
	p.logf("%d trailers%s", s.ID, flat(s.Trailers))
	if p.onTrailers != nil {
		p.onTrailers(s)
	}
}

func (p *peer) OnReset(s *Stream, code ErrCode, remote bool, details string) {
	p.logf("%d reset %s remote=%t %s", s.ID, code, remote, details)
	if p.onReset != nil {
		p.onReset(s)
	}
}

func (p *peer) OnFull() { p.full = true }

// written says that the output was taken.
func (p *peer) written() {
	p.out = p.out[:0]
	if p.full {
		p.full = false
		p.c.Continue()
	}
}

func (p *peer) OnWritable(s *Stream) {
	p.logf("%d writable", s.ID)
	if p.onWritable != nil {
		p.onWritable(s)
	}
}

func (p *peer) OnClosed(s *Stream) {
	p.logf("%d closed", s.ID)
	delete(p.streams, s.ID)
	p.open--
	if p.onClosed != nil {
		p.onClosed(s)
	}
}

func (p *peer) OnGoAway(last uint32, code ErrCode) { p.logf("goaway %d %s", last, code) }
func (p *peer) OnSettings()                        { p.logf("settings") }
func (p *peer) OnPingAck(d [8]byte)                { p.logf("ping ack %x", d) }

func (p *peer) start(h *header.Map, end bool) *Stream {
	p.t.Helper()
	s, err := p.c.OpenStream(h, end, &header.Map{}, &header.Map{}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.streams[s.ID] = s
	p.open++
	return s
}

// exchange moves bytes both ways until neither has any.
func exchange(t testing.TB, a, b *peer) {
	t.Helper()
	for len(a.out)+len(b.out) > 0 {
		for _, d := range [][2]*peer{{a, b}, {b, a}} {
			in := bytes.Clone(d[0].out)
			d[0].written()
			if err := d[1].c.Feed(in); err != nil {
				t.Fatalf("%v", err)
			}
		}
	}
}

func fields(kv ...string) *header.Map {
	m := &header.Map{}
	for i := 0; i < len(kv); i += 2 {
		m.Add(kv[i], kv[i+1])
	}
	return m
}

func get(path string) *header.Map {
	return fields(":method", "GET", ":scheme", "http", ":authority", "a", ":path", path)
}

// benchPeer answers a gRPC call as both sides of a proxy would see it.
type benchPeer struct {
	c         Conn
	out       []byte
	req, tr   header.Map // of the peer's messages
	resp, end *header.Map
	body      []byte
	done      int
	server    bool
}

func (p *benchPeer) OnStream(s *Stream) {
	p.req.Reset()
	p.tr.Reset()
	s.Headers, s.Trailers = &p.req, &p.tr
}
func (p *benchPeer) OnHeaders(*Stream, bool) {}
func (p *benchPeer) OnInformational(*Stream) {}
func (p *benchPeer) OnData(s *Stream, b []byte, end bool) {
	s.Consumed(len(b))
	if end && p.server {
		s.SendHeaders(p.resp, false)
		s.SendData(p.body, false)
		s.SendTrailers(p.end)
	}
}
func (p *benchPeer) OnTrailers(*Stream)                     {}
func (p *benchPeer) OnReset(*Stream, ErrCode, bool, string) {}
func (p *benchPeer) OnWritable(*Stream)                     {}
func (p *benchPeer) OnFull()                                { panic("no more than small bodies") }
func (p *benchPeer) OnClosed(*Stream)                       { p.done++ }
func (p *benchPeer) OnGoAway(uint32, ErrCode)               {}
func (p *benchPeer) OnSettings()                            {}
func (p *benchPeer) OnPingAck([8]byte)                      {}

type bench struct {
	client, server benchPeer
	req            *header.Map
}

func newBench(t testing.TB) *bench {
	b := &bench{}
	b.req = fields(":method", "POST", ":scheme", "http", ":authority", "10.0.0.1:8080", ":path", "/helloworld.Greeter/SayHello",
		"te", "trailers", "content-type", "application/grpc", "user-agent", "grpc-go/1.85.0", "grpc-accept-encoding", "gzip",
		"x-request-id", "7f0f3a4c-91a6-4ba5-8bd6-1a2b3c4d5e6f")
	b.server.resp = fields(":status", "200", "content-type", "application/grpc", "server", "envoy")
	b.server.end = fields("grpc-status", "0", "grpc-message", "")
	b.server.body = make([]byte, 32)
	b.server.server = true
	b.client.c.Init(Client, nil, &b.client, &b.client.out)
	b.server.c.Init(Server, nil, &b.server, &b.server.out)
	b.client.c.Start()
	b.server.c.Start()
	b.turn(t)
	b.turn(t)
	return b
}

func (b *bench) turn(t testing.TB) {
	err := b.server.c.Feed(b.client.out)
	b.client.out = b.client.out[:0]
	if err == nil {
		err = b.client.c.Feed(b.server.out)
	}
	b.server.out = b.server.out[:0]
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) open(t testing.TB, body []byte, resp, trailers *header.Map) {
	resp.Reset()
	trailers.Reset()
	s, err := b.client.c.OpenStream(b.req, false, resp, trailers, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.SendData(body, true)
}

func BenchmarkUnaryPair(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			x := newBench(b)
			resp, trailers := make([]header.Map, batch), make([]header.Map, batch)
			body := make([]byte, 64)
			b.ReportAllocs()
			for i := 0; i < b.N; i += batch {
				for k := range batch {
					x.open(b, body, &resp[k], &trailers[k])
				}
				x.turn(b)
			}
			if x.client.done < b.N || x.server.done < b.N {
				b.Fatalf("%d and %d of %d done", x.client.done, x.server.done, b.N)
			}
		})
	}
}

func TestUnaryPairDoesNotAllocate(t *testing.T) {
	x := newBench(t)
	var resp, trailers [8]header.Map
	body := make([]byte, 64)
	run := func() {
		for k := range resp {
			x.open(t, body, &resp[k], &trailers[k])
		}
		x.turn(t)
	}
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations for 8 streams", n)
	}
}

func TestExchange(t *testing.T) {
	cl, sv := newPeer(t, Client, nil), newPeer(t, Server, nil)
	big := bytes.Repeat([]byte("0123456789abcdef"), 8<<10)
	sv.onTrailers = func(s *Stream) {
		s.SendInformational(fields(":status", "103", "link", "x"))
		s.SendHeaders(fields(":status", "200", "server", "envoy"), false)
		s.SendData(big, false)
		s.SendTrailers(fields("grpc-status", "0"))
	}
	s := cl.start(fields(":method", "POST", ":scheme", "http", ":path", "/x", ":authority", "a", "cookie", "a=b"), false)
	s.SendData(big, false)
	s.SendTrailers(fields("x-sum", "1"))
	exchange(t, cl, sv)
	want := []string{
		"settings", "1 headers :method=POST :path=/x :authority=a :scheme=http cookie=a=b end=false",
		"1 trailers x-sum=1", "1 closed",
	}
	if got := sv.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("server:\n%q\nwant\n%q", got, want)
	}
	want = []string{
		"settings", "1 informational :status=103 link=x", "1 headers :status=200 server=envoy end=false",
		"1 trailers grpc-status=0", "1 closed",
	}
	if got := cl.take(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("client:\n%q\nwant\n%q", got, want)
	}
	if !bytes.Equal(cl.bodies[1].Bytes(), big) || !bytes.Equal(sv.bodies[1].Bytes(), big) {
		t.Errorf("bodies of %d and %d bytes", cl.bodies[1].Len(), sv.bodies[1].Len())
	}
	if cl.c.Active()+sv.c.Active() != 0 {
		t.Errorf("%d and %d streams left", cl.c.Active(), sv.c.Active())
	}
}
