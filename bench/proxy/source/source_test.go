package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newWorld() *world {
	at := netip.MustParseAddrPort("127.0.0.1:1")
	return &world{listeners: []netip.AddrPort{at, at}, upstreams: []netip.AddrPort{at, at}}
}

func TestChangesTakeTurns(t *testing.T) {
	var got []string
	for n := range 7 {
		c, err := newWorld().change(n + 1)
		if err != nil || !bytes.Contains(c.field, []byte(mark(n+1))) {
			t.Errorf("change %d is %q: %v", n+1, c.field, err)
		}
		got = append(got, c.name+c.again)
	}
	if fmt.Sprint(got) != "[r0 e0 c0e0 r1 e1 c1e1 r0]" {
		t.Errorf("got %v", got)
	}
}

// client is a proxy as far as the server can tell.
type client struct {
	t      *testing.T
	framer *http2.Framer
	in     []byte
}

func connect(t *testing.T, nc net.Conn, window uint32) *client {
	t.Helper()
	c := &client{t: t, framer: http2.NewFramer(nc, nc)}
	_, err := io.WriteString(nc, http2.ClientPreface)
	c.must(err)
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true}))
	return c
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) ask(r *discoveryv3.DeltaDiscoveryRequest) {
	c.t.Helper()
	b, err := proto.Marshal(r)
	c.must(err)
	c.must(c.framer.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)))
}

// next is the next response. Its bytes are given back as they come.
func (c *client) next() *discoveryv3.DeltaDiscoveryResponse {
	c.t.Helper()
	for {
		if len(c.in) >= 5 {
			if n := 5 + int(binary.BigEndian.Uint32(c.in[1:])); len(c.in) >= n {
				r := &discoveryv3.DeltaDiscoveryResponse{}
				c.must(proto.Unmarshal(c.in[5:n], r))
				c.in = c.in[n:]
				return r
			}
		}
		f, err := c.framer.ReadFrame()
		c.must(err)
		if d, ok := f.(*http2.DataFrame); ok && d.Length > 0 {
			c.in = append(c.in, d.Data()...)
			c.must(c.framer.WriteWindowUpdate(0, d.Length))
			c.must(c.framer.WriteWindowUpdate(1, d.Length))
		}
	}
}

func names(r *discoveryv3.DeltaDiscoveryResponse) string {
	var out []string
	for _, x := range r.GetResources() {
		out = append(out, x.GetName()+"@"+x.GetVersion())
	}
	return strings.Join(out, " ")
}

// A client is sent what it asks for, through windows as small as they may be, and of
// changes what it has asked for.
func TestServer(t *testing.T) {
	w, s := newWorld(), newServer()
	if err := w.first(s); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.serve(t.Context(), l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, nc, 10)
	c.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusterType})
	first := c.next()
	if got := names(first); got != "c0@0 c1@0" {
		t.Errorf("got %s", got)
	}
	var cluster clusterv3.Cluster
	if err := first.GetResources()[0].GetResource().UnmarshalTo(&cluster); err != nil || cluster.GetEdsClusterConfig().GetServiceName() != "e0" {
		t.Errorf("got %v: %v", &cluster, err)
	}
	c.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: endpointType, ResourceNamesSubscribe: []string{"e0"}})
	if got := names(c.next()); got != "e0@0" {
		t.Errorf("got %s", got)
	}
	c.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusterType, ResponseNonce: first.GetNonce(), ErrorDetail: &status.Status{Message: "no"}})
	c.ask(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusterType, ResourceNamesSubscribe: []string{"c1"}})
	if got := names(c.next()); got != "c1@0" {
		t.Errorf("got %s", got)
	}
	for n := range 6 {
		change, err := w.change(n + 1)
		if err != nil {
			t.Fatal(err)
		}
		c.must(s.apply(change))
	}
	for _, want := range []string{"e0@2", "c0@3", "e0@2", "c1@6"} { // nobody asked for tables, or for e1
		if got := names(c.next()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if err := s.refusal(); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("what was refused is %v", err)
	}
	_ = nc.Close()
	_ = l.Close()
	if err := <-served; err == nil {
		t.Error("the end of the listener is no error")
	}
}

func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{world: newWorld(), server: newServer()}
		for _, step := range []struct {
			command string
			wait    time.Duration
			answer  string
		}{
			{"end", 0, `"end": not now`},
			{"dance", 0, `"dance": it is prepare N, begin N or end`},
			{"prepare 5", 0, "ready"},
			{"begin 1000", 3500 * time.Microsecond, "begun"},
			{"begin 1", 0, `"begin 1": not now`},
			{"prepare 5", 0, `"prepare 5": not now`},
			{"end", 0, "3"},
			{"prepare 2", 0, "ready"},
			{"begin 1000", 10 * time.Millisecond, "begun"},
			{"end", 0, "only 2 changes were prepared"},
			{"prepare 5", 0, "ready"},
			{"begin 1000", 1500 * time.Microsecond, "begun"},
			{"end", 0, "6"},
		} {
			answer, err := d.command(step.command)
			if err != nil {
				answer = err.Error()
			}
			if answer != step.answer {
				t.Errorf("%s: %s, want %s", step.command, answer, step.answer)
			}
			time.Sleep(step.wait)
		}
	})
}
