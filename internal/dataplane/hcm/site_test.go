package hcm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/edge"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/router"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/worker"
)

// site is a connection manager that answers by itself, on a loop of its own. In a
// bubble of synctest its time is virtual.
type site struct {
	t    *testing.T
	loop *loop.Loop
	sv   *Server
	cfg  *Config
}

func newSite(t *testing.T, change func(*hcmv3.HttpConnectionManager)) *site {
	t.Helper()
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:  "s",
		HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(t, &routerv3.Router{})}}},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{
			Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
					Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "hi"}},
				}},
			}},
		}}}},
	}
	if change != nil {
		change(m)
	}
	reg, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := New(m, &Env{
		Registry: &filter.Registry{}, Stats: reg, Listener: reg.Scope("listener.l"), Edge: &edge.Env{}, BufferLimit: 1 << 20,
		Unpack: func(a *anypb.Any) (proto.Message, error) { return a.UnmarshalNew() },
		Logs: func(string, []*accesslogv3.AccessLog) (accesslog.Logs, error) {
			return nil, nil
		},
		Router: func(proto.Message, *Stats) (filter.HTTPFactory, bool, error) {
			return router.New(&router.Config{}), true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := loop.New(loop.Options{Portable: true})
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(0, l, reg.NewShard(l.Post), &worker.IDs{})
	s := &site{t: t, loop: l, cfg: cfg, sv: NewServer(t.Context(), w, &pool.Set{})}
	l.OnStop(w.Stats.Close)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run()
	}()
	t.Cleanup(func() {
		l.Post(l.Stop)
		<-ended
	})
	return s
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// on runs f on the loop and waits for it.
func (s *site) on(f func()) {
	done := make(chan struct{})
	s.loop.Post(func() {
		defer close(done)
		f()
	})
	<-done
}

// front is a Conn as the handler of its loop connection.
type front struct{ *Conn }

func (front) OnOpen() {}

// client is the other end of a connection of a site.
type client struct {
	net.Conn
	r    *bufio.Reader
	conn *Conn
}

func (s *site) dial() *client {
	ours, theirs := net.Pipe()
	s.t.Cleanup(func() { _ = theirs.Close() })
	c := &client{Conn: theirs, r: bufio.NewReader(theirs)}
	address := filter.IPAddress(netip.MustParseAddrPort("127.0.0.1:80"))
	s.on(func() {
		f := &front{}
		d, err := s.loop.Adopt(ours, f)
		if err != nil {
			s.t.Error(err)
			return
		}
		f.Conn = s.sv.NewConn(s.cfg, d, &filter.ConnectionInfo{Remote: address, Local: address})
		c.conn = f.Conn
	})
	return c
}

// ask sends a request of HTTP/1 and reports whether the response lets the
// connection stay.
func (c *client) ask() (stays bool, err error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nhost: a\r\n\r\n"); err != nil {
		return false, fmt.Errorf("sending: %w", err)
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return false, fmt.Errorf("reading: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "hi" {
		return false, fmt.Errorf("the body is %q: %w", body, err)
	}
	return !resp.Close, nil
}

// seen is a frame that an HTTP/2 client received, and when.
type seen struct {
	at   time.Time
	what string
}

// client2 is the other end of a connection of HTTP/2.
type client2 struct {
	*client
	fr   *http2.Framer
	enc  bytesEncoder
	next uint32
	got  chan seen // what came; closed with the connection
	// mute leaves pings without an answer.
	mute bool
}

type bytesEncoder struct {
	buf []byte
	enc *hpack.Encoder
}

// Write implements io.Writer.
func (b *bytesEncoder) Write(p []byte) (int, error) {
	b.buf = append(b.buf, p...)
	return len(p), nil
}

func (s *site) dial2(mute bool) *client2 {
	c := &client2{client: s.dial(), next: 1, got: make(chan seen, 1000), mute: mute}
	c.fr = http2.NewFramer(c, c.r)
	c.enc.enc = hpack.NewEncoder(&c.enc)
	_, err := io.WriteString(c, http2.ClientPreface)
	if err = errors.Join(err, c.fr.WriteSettings(), c.fr.WriteSettingsAck()); err != nil {
		s.t.Fatal(err)
	}
	go c.read() // which writes answers to pings, when nobody else writes any more
	return c
}

func (c *client2) read() {
	defer close(c.got)
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			c.got <- seen{time.Now(), "end"}
			return
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			c.got <- seen{time.Now(), fmt.Sprint("goaway ", f.LastStreamID)}
		case *http2.HeadersFrame:
			c.got <- seen{time.Now(), fmt.Sprint("head ", f.StreamID)}
		case *http2.PingFrame:
			if f.IsAck() {
				continue
			}
			c.got <- seen{time.Now(), "ping"}
			if !c.mute {
				_ = c.fr.WritePing(true, f.Data)
			}
		}
	}
}

// ask sends a request.
func (c *client2) ask() error {
	c.enc.buf = c.enc.buf[:0]
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}} {
		_ = c.enc.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	id := c.next
	c.next += 2
	if err := c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.enc.buf, EndStream: true, EndHeaders: true}); err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	return nil
}

// seen is what came since the last time.
func (c *client2) seen() (list []seen) {
	for {
		select {
		case s, ok := <-c.got:
			if !ok {
				return list
			}
			list = append(list, s)
		default:
			return list
		}
	}
}
