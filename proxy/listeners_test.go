package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

func packed(m proto.Message) *anypb.Any {
	a, err := anypb.New(m)
	if err != nil {
		panic(err)
	}
	return a
}

// manager is a network filter that serves HTTP with these routes.
func manager(change ...func(*hcmv3.HttpConnectionManager)) *listenerv3.Filter {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:  "dyn",
		HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})}}},
	}
	for _, c := range change {
		c(m)
	}
	return &listenerv3.Filter{Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(m)}}
}

func with(rc *routev3.RouteConfiguration) func(*hcmv3.HttpConnectionManager) {
	return func(m *hcmv3.HttpConnectionManager) {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: rc}
	}
}

func byRDS(name string) func(*hcmv3.HttpConnectionManager) {
	return func(m *hcmv3.HttpConnectionManager) {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: name, ConfigSource: ads()}}
	}
}

// listenerAt is a listener at an address.
func listenerAt(name, address string, chains ...*listenerv3.FilterChain) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name: name, Address: assignment("", address).GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress(), FilterChains: chains,
	}
}

func chainOf(f *listenerv3.Filter) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{Filters: []*listenerv3.Filter{f}}
}

// from is a chain for connections that come from one address.
func from(c *listenerv3.FilterChain, ip string) *listenerv3.FilterChain {
	c.Name = ip
	c.FilterChainMatch = &listenerv3.FilterChainMatch{SourcePrefixRanges: []*corev3.CidrRange{{AddressPrefix: ip, PrefixLen: wrapperspb.UInt32(32)}}}
	return c
}

// freeAddress is an address that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		// Clients have other addresses, so that none of them takes the port.
		ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
		if err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Skip("this system has one loopback address")
	return ""
}

// line is a connection that asks again and again.
type line struct {
	net.Conn
	r *bufio.Reader
}

func dialLine(t *testing.T, address, from string) *line {
	t.Helper()
	d := net.Dialer{}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &line{c, bufio.NewReader(c)}
}

// ask sends a request and returns the body and whether the connection stays.
func (l *line) ask() (body string, stays bool, err error) {
	_ = l.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err = fmt.Fprint(l, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return "", false, err
	}
	resp, err := http.ReadResponse(l.r, nil)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	var b [100]byte
	n, _ := resp.Body.Read(b[:])
	return string(b[:n]), !resp.Close, nil
}

func (l *line) expect(t *testing.T, body string, stays bool) {
	t.Helper()
	got, kept, err := l.ask()
	if err != nil || got != body || kept != stays {
		t.Errorf("got %q, stays %v (%v); want %q, %v", got, kept, err, body, stays)
	}
}

// ends asks until the connection ends in order, which workers are told of a
// moment after the change.
func (l *line) ends(t *testing.T, body string) {
	t.Helper()
	for range 1000 {
		got, stays, err := l.ask()
		if err != nil || got != body {
			t.Errorf("got %q (%v), want %q", got, err, body)
		}
		if err != nil || !stays {
			return
		}
	}
	t.Error("the connection stays")
}

// getOnce asks once on a new connection.
func getOnce(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	var b [100]byte
	n, _ := resp.Body.Read(b[:])
	return string(b[:n])
}

// becomes waits until new connections get an answer: workers hear of a change a
// moment later.
func becomes(t *testing.T, address, want string) {
	t.Helper()
	got := ""
	for range 500 {
		if got = getOnce(t, address); got == want {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("new connections get %q, want %q", got, want)
}

// wants waits until this is what a source is asked for.
func (s *source) wants(t *testing.T, want string) {
	t.Helper()
	for range 500 {
		if fmt.Sprint(s.all()) == want {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Errorf("wanted: %v", s.all())
}

const listenerStats = "/stats?filter=^listener_manager.(listener_(added|modified|removed|in_place_updated|create_failure)|total_listeners_(active|warming|draining)|total_filter_chains_draining)$"

// drainingAtOnce is --drain-strategy immediate: a connection ends with the first
// response after the change.
func drainingAtOnce(f *proxyrun.Flags, o *proxy.Options) {
	f.DrainImmediately, o.DrainImmediately = true, true
}

// Proves LM-01, LM-03, LM-04, LM-06 and LM-08: listeners come, are replaced
// with their sockets, and go; those that are replaced or removed end their
// connections in order; a bad one leaves the last good one.
func TestListenersComeAndGo(t *testing.T) {
	r := start(t, byHeader, newSource().by, drainingAtOnce)
	res := r.Resources()
	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(with(saying("r", "one"))))), "1"))
	old := dialLine(t, at, "")
	old.expect(t, "one", true)
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(with(saying("r", "one"))))), "2"))
	old.expect(t, "one", true)
	two := listenerAt("l", at, chainOf(manager(with(saying("r", "two")))))
	two.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1 << 16)
	must(t, res.SetListener(two, "3"))
	becomes(t, at, "two")
	old.ends(t, "one")

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	occupied := listenerAt("m", taken.Addr().String(), chainOf(manager(with(saying("r", "x")))))
	err = res.SetListener(occupied, "1")
	if err == nil || !strings.Contains(err.Error(), "cannot bind '"+taken.Addr().String()+"': Address already in use") {
		t.Errorf("an occupied port: %v", err)
	}
	for what, l := range map[string]*listenerv3.Listener{
		"duplicate address":     listenerAt("n", at, chainOf(manager(with(saying("r", "x"))))),
		"of the bootstrap":      listenerAt("front", at, chainOf(manager(with(saying("r", "x"))))),
		"reuse port":            {Name: "l", Address: two.GetAddress(), FilterChains: two.GetFilterChains(), EnableReusePort: wrapperspb.Bool(false)},
		"route source":          listenerAt("l", at, chainOf(manager())),
		"filter_chains[0]":      listenerAt("l", at, chainOf(&listenerv3.Filter{Name: "x", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(&corev3.Node{})}})),
		"a name":                listenerAt("", at, chainOf(manager(with(saying("r", "x"))))),
		"ListenerValidationErr": {Name: "l", Address: &corev3.Address{}},
	} {
		if err := res.SetListener(l, "4"); err == nil || what != "ListenerValidationErr" && !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := getOnce(t, at); got != "two" {
		t.Errorf("after bad ones: %q", got)
	}
	last := dialLine(t, at, "")
	last.expect(t, "two", true)
	res.RemoveListener("l")
	res.RemoveListener("front")
	last.ends(t, "two")
	becomes(t, at, "error")
	want := "listener_manager.listener_added: 2\nlistener_manager.listener_create_failure: 1\nlistener_manager.listener_in_place_updated: 0\n" +
		"listener_manager.listener_modified: 1\nlistener_manager.listener_removed: 1\nlistener_manager.total_filter_chains_draining: 0\n" +
		"listener_manager.total_listeners_active: 1\nlistener_manager.total_listeners_draining: 0\nlistener_manager.total_listeners_warming: 0\n"
	got := ""
	for range 100 { // until the drained ones have been noticed
		if got = r.get(t, listenerStats); got == want {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got != want {
		t.Errorf("statistics:\n%s", got)
	}
}

// Proves LM-05: when only filter chains differ, connections of those that stay
// are untouched, and the others end in order.
func TestChainsChangeInPlace(t *testing.T) {
	r := start(t, byHeader, newSource().by, drainingAtOnce)
	res := r.Resources()
	at := freeAddress(t)
	a := func(text string) *listenerv3.FilterChain {
		return from(chainOf(manager(with(saying("r", text)))), "127.0.0.2")
	}
	b := func(text string) *listenerv3.FilterChain {
		return from(chainOf(manager(with(saying("r", text)))), "127.0.0.3")
	}
	must(t, res.SetListener(listenerAt("l", at, a("a1"), b("b1")), "1"))
	onA, onB, quietB := dialLine(t, at, "127.0.0.2"), dialLine(t, at, "127.0.0.3"), dialLine(t, at, "127.0.0.3")
	onA.expect(t, "a1", true)
	onB.expect(t, "b1", true)
	quietB.expect(t, "b1", true)
	must(t, res.SetListener(listenerAt("l", at, a("a1"), b("b2")), "2"))
	onA.expect(t, "a1", true)
	onB.ends(t, "b1")
	dialLine(t, at, "127.0.0.3").expect(t, "b2", true) // the worker that ended the old one's connection knows
	must(t, res.SetListener(listenerAt("l", at, a("a1")), "3"))
	onA.expect(t, "a1", true)
	quietB.ends(t, "b1")
	if _, _, err := dialLine(t, at, "127.0.0.3").ask(); err == nil {
		t.Error("a chain that is gone serves")
	}
	if got := r.get(t, "/stats?filter=^listener_manager.listener_in_place_updated$"); got != "listener_manager.listener_in_place_updated: 2\n" {
		t.Error(got)
	}
}

// Proves LM-01: a listener refuses connections until its routes have come, and
// its replacement leaves the former one in force as long. Partly proves XC-16: the
// routes of the former one are given up.
func TestListenerWaitsForItsRoutes(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	at := freeAddress(t)
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("one")))), "1"))
	if got := getOnce(t, at); got != "error" {
		t.Fatalf("a warming listener answers %q", got)
	}
	must(t, res.SetRoutes(ads(), saying("one", "one"), "1"))
	becomes(t, at, "one")
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("two")))), "2"))
	if got := getOnce(t, at); got != "one" {
		t.Fatalf("while the next one warms: %q", got)
	}
	must(t, res.SetRoutes(ads(), saying("two", "two"), "1"))
	becomes(t, at, "two")
	s.wants(t, "map[RouteConfiguration two:true]")
	must(t, res.SetListener(listenerAt("l", at, chainOf(manager(byRDS("three")))), "3"))
	res.RemoveListener("l")
	becomes(t, at, "error")
	s.wants(t, "map[]")
}

// Proves LM-06: connections of a listener that is gone are closed when the drain
// time is over.
func TestDrainTimeEnds(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by, func(_ *proxyrun.Flags, o *proxy.Options) { o.ListenerDrainTime = 100 * time.Millisecond })
	at := freeAddress(t)
	must(t, r.Resources().SetListener(listenerAt("l", at, chainOf(manager(with(saying("r", "x"))))), "1"))
	waitOpen(t, at)
	quiet := dialLine(t, at, "")
	quiet.expect(t, "x", true)
	began := time.Now()
	r.Resources().RemoveListener("l")
	_ = quiet.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := quiet.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection did not end in order: %v", err)
	}
	if d := time.Since(began); d < 90*time.Millisecond || d > 5*time.Second {
		t.Errorf("it ended after %v", d)
	}
}
