package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/internal/testpeer"
	"github.com/xebec-proxy/xebec/proxy"
)

// scene is a proxy under load whose configuration changes at random.
type scene struct {
	t         *testing.T
	r         *running
	res       *proxy.Resources
	random    *rand.Rand
	backends  []string
	release   chan struct{} // ends the long download
	main      string        // address of the listener that changes
	secure    string        // of the one with TLS
	keep      string        // of the one that stays
	authority *testcert.Authority
	roots     *x509.CertPool
	names     int
	version   int
	extra     []string // clusters and listeners that nobody uses

	failed, done atomic.Int64
	stop         chan struct{}
	work         sync.WaitGroup
}

func newScene(t *testing.T, seed uint64) *scene {
	t.Helper()
	s := &scene{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), stop: make(chan struct{}), release: make(chan struct{}),
		main: freeAddress(t), secure: freeAddress(t), keep: freeAddress(t), roots: x509.NewCertPool(),
	}
	for range 4 {
		s.backends = append(s.backends, s.backend())
	}
	a, err := testcert.NewAuthority("test")
	must(t, err)
	s.authority = a
	s.roots.AppendCertsFromPEM(a.PEM())
	s.r = start(t, byHeader, newSource().by, func(f *proxyrun.Flags, _ *proxy.Options) { f.Concurrency = 2 })
	s.res = s.r.Resources()
	s.changeCluster("a")
	s.changeCluster("b")
	s.changeSockets()
	s.changeEndpoints()
	s.changeMain()
	s.changeSecure()
	s.changeSecret()
	s.changeRoutes()
	must(t, s.res.SetListener(listenerAt("keep", s.keep, chainOf(manager(byRDS("kept"), upgrading))), "1"))
	must(t, s.res.SetRoutes(nil, s.kept("a"), "1"))
	for _, at := range []string{s.main, s.secure, s.keep} {
		waitOpen(t, at)
	}
	return s
}

// upgrading allows websockets.
func upgrading(m *hcmv3.HttpConnectionManager) {
	m.UpgradeConfigs = []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}}
}

// unhurried are routes whose responses may take as long as the scene does: those of the
// default timeout, 15 s, end a download on a slow machine.
func unhurried(name, cluster string) *routev3.RouteConfiguration {
	rc := forwarding(name, cluster)
	rc.GetVirtualHosts()[0].GetRoutes()[0].GetRoute().Timeout = durationpb.New(0)
	return rc
}

// kept are the routes of the listener that stays: websockets have a cluster of
// their own, which speaks HTTP/1.
func (s *scene) kept(cluster string) *routev3.RouteConfiguration {
	rc, ws := unhurried("kept", cluster), forwarding("", "ws").GetVirtualHosts()[0].GetRoutes()[0]
	ws.Match.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: "/ws"}
	rc.VirtualHosts[0].Routes = append([]*routev3.Route{ws}, rc.VirtualHosts[0].Routes...)
	return rc
}

// changeSockets changes the cluster of the websockets.
func (s *scene) changeSockets() {
	c := staticCluster("ws", s.some()...)
	c.ConnectTimeout = durationpb.New(time.Duration(5000+s.random.IntN(100)) * time.Millisecond)
	must(s.t, s.res.SetCluster(c, s.next()))
}

// socket echoes what comes over a websocket.
func socket(w http.ResponseWriter) {
	c, b, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(c, b)
}

// websocket talks over one websocket until the end.
func (s *scene) websocket(address string) {
	l := dialLine(s.t, address, "")
	if _, err := io.WriteString(l, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(l.r, nil) //nolint:bodyclose // it is the connection
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("%v, %v", resp, err)
	}
	s.work.Go(func() {
		for i := byte(0); ; i++ {
			select {
			case <-s.stop:
				_ = l.Close()
				return
			default:
			}
			_ = l.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := l.Write([]byte{i}); err != nil {
				s.failure("the websocket", err)
				return
			}
			if b, err := l.r.ReadByte(); err != nil || b != i {
				s.failure("the websocket", fmt.Errorf("%d for %d, %w", b, i, err))
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func waitOpen(t *testing.T, address string) {
	t.Helper()
	for range 500 {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("nobody listens on %s", address)
}

// backend takes what it is sent and answers with as many bytes; /long takes as
// long as the scene.
func (s *scene) backend() string {
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	b := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			s.long(w)
			return
		case "/ws":
			socket(w)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), int(n)))
	}))
	b.Config.Protocols = &p
	b.Start()
	s.t.Cleanup(b.Close)
	return b.Listener.Addr().String()
}

func (s *scene) long(w http.ResponseWriter) {
	for {
		if _, err := w.Write(bytes.Repeat([]byte("l"), 4096)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-s.release:
			_, _ = io.WriteString(w, "end")
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *scene) next() string {
	s.version++
	return fmt.Sprint(s.version)
}

func (s *scene) some() []string {
	list := append([]string(nil), s.backends...)
	s.random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:1+s.random.IntN(len(list))]
}

// changeCluster makes a cluster STATIC or EDS, of HTTP/1 or HTTP/2.
func (s *scene) changeCluster(name string) {
	c := staticCluster(name, s.some()...)
	if s.random.IntN(2) == 0 {
		c = edsCluster(name, "svc-"+name)
	}
	c.ConnectTimeout = durationpb.New(time.Duration(5000+s.random.IntN(100)) * time.Millisecond)
	if s.random.IntN(2) == 0 {
		c.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{} //nolint:staticcheck // short
	}
	must(s.t, s.res.SetCluster(c, s.next()))
	must(s.t, s.res.SetEndpoints(nil, assignment("svc-"+name, s.some()...), s.next()))
}

func (s *scene) changeEndpoints() {
	for _, name := range []string{"svc-a", "svc-b"} {
		la := assignment(name, s.some()...)
		if s.random.IntN(2) == 0 { // by themselves
			must(s.t, s.res.SetEndpoints(nil, collected(name, 0, name), s.next()))
			s.changeCollection(name)
			s.changeCollection(name)
			continue
		}
		for _, e := range la.GetEndpoints()[0].GetLbEndpoints() {
			e.LoadBalancingWeight = wrapperspb.UInt32(uint32(1 + s.random.IntN(5)))
		}
		must(s.t, s.res.SetEndpoints(nil, la, s.next()))
	}
}

// changeCollection changes what there is of a collection.
func (s *scene) changeCollection(name string) {
	there, gone := map[string]string{}, []string{}
	for i, a := range s.backends {
		if i == 0 || s.random.IntN(2) == 0 {
			there[strconv.Itoa(i)] = a
		} else {
			gone = append(gone, strconv.Itoa(i))
		}
	}
	come(s.t, s.res, name, there, gone...)
}

func (s *scene) changeRoutes() {
	rc := unhurried("main", []string{"a", "b"}[s.random.IntN(2)])
	rc.VirtualHosts[0].Name = "v" + s.next()
	must(s.t, s.res.SetRoutes(nil, rc, s.next()))
}

func (s *scene) changeMain() {
	l := listenerAt("main", s.main, chainOf(manager(byRDS("main"))))
	l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1<<20 + uint32(s.random.IntN(1000)))
	must(s.t, s.res.SetListener(l, s.next()))
}

// changeSecret rotates the certificate.
func (s *scene) changeSecret() {
	must(s.t, s.res.SetSecret(nil, certificate(s.t, s.authority, "cert"), s.next()))
}

// changeSecure changes a filter chain.
func (s *scene) changeSecure() {
	c := chainOf(manager(byRDS("main")))
	c.Name = "chain " + s.next()
	c.TransportSocket = &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(&tlsv3.DownstreamTlsContext{
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: []string{"h2", "http/1.1"}, TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secretFrom("cert", 0)},
		},
	})}}
	must(s.t, s.res.SetListener(listenerAt("secure", s.secure, c), s.next()))
}

// changeOthers adds or removes what no request uses.
func (s *scene) changeOthers() {
	if len(s.extra) > 0 && s.random.IntN(2) == 0 {
		name := s.extra[0]
		s.extra = s.extra[1:]
		s.res.RemoveCluster(name)
		s.res.RemoveListener(name)
		return
	}
	s.names++
	name := fmt.Sprint("other", s.names)
	s.extra = append(s.extra, name)
	must(s.t, s.res.SetCluster(staticCluster(name, s.some()...), s.next()))
	must(s.t, s.res.SetListener(listenerAt(name, freeAddress(s.t), chainOf(manager(with(forwarding("r", name))))), s.next()))
}

// changeWrong is refused.
func (s *scene) changeWrong() {
	for _, err := range []error{
		s.res.SetCluster(&clusterv3.Cluster{Name: "a", LrsServer: ads()}, s.next()),
		s.res.SetListener(&listenerv3.Listener{Name: "main"}, s.next()),
		s.res.SetRoutes(nil, routesTo("main", forwarding("", "").GetVirtualHosts()[0].GetRoutes()[0]), s.next()),
	} {
		if err == nil {
			s.t.Error("what is wrong was taken")
		}
	}
}

// replaceCluster moves traffic to another cluster, removes the one it had, and
// brings it back.
func (s *scene) replaceCluster() {
	must(s.t, s.res.SetRoutes(nil, unhurried("main", "b"), s.next()))
	must(s.t, s.res.SetRoutes(nil, s.kept("b"), s.next()))
	s.res.RemoveCluster("a")
	s.changeCluster("a")
	must(s.t, s.res.SetRoutes(nil, s.kept("a"), s.next()))
}

func (s *scene) change() {
	all := []func(){
		func() { s.changeCluster("a") }, func() { s.changeCluster("b") }, s.changeEndpoints, s.changeEndpoints,
		s.changeRoutes, s.changeMain, s.changeSecure, s.changeSecret, s.changeSockets, s.changeOthers, s.changeWrong, s.replaceCluster,
	}
	all[s.random.IntN(len(all))]()
}

func (s *scene) failure(what string, err error) {
	if s.failed.Add(1) <= 5 {
		s.t.Errorf("%s: %v", what, err)
	}
}

// load sends requests one after another until the end.
func (s *scene) load(what, url string, transport *http.Transport) {
	s.work.Go(func() {
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
		for i := 0; ; i++ {
			select {
			case <-s.stop:
				return
			default:
			}
			if err := testpeer.Post(context.Background(), client, url, 10+i%5000); err != nil {
				s.failure(what, err)
			}
			s.done.Add(1)
		}
	})
}

// download reads one response for as long as the scene takes, through a
// listener.
func (s *scene) download(address string) {
	s.work.Go(func() {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("http://" + address + "/long")
		if err != nil {
			s.failure("the long download", err)
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.HasSuffix(body, []byte("lend")) {
			s.failure("the long download", fmt.Errorf("%d bytes, %w", len(body), err))
		}
	})
}

// oneConnection asks again and again on one connection, which must not end.
func (s *scene) oneConnection(address string) {
	l := dialLine(s.t, address, "")
	s.work.Go(func() {
		for {
			select {
			case <-s.stop:
				return
			default:
			}
			if _, stays, err := l.ask(); err != nil || !stays {
				s.failure("the connection of the listener that stays", fmt.Errorf("stays %v: %w", stays, err))
				return
			}
			s.done.Add(1)
			time.Sleep(time.Millisecond)
		}
	})
}

func h2c() *http.Transport {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: &p}
}

func (s *scene) overTLS(h2 bool) *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: h2}
}

// Proves CM-04, CM-05, CM-11, LM-04, LM-05, RT-13 and TS-14 under load, and partly XN-29: while clusters,
// endpoints, those of collections too, routes, listeners and certificates change, come and go, no request fails, by
// HTTP/1, HTTP/2 and TLS, downloads and a websocket go on, and connections of listeners that
// stay are not broken.
func TestChangesLoseNothing(t *testing.T) {
	s := newScene(t, uint64(time.Now().UnixNano()))
	for range 2 {
		s.load("HTTP/1", "http://"+s.main, &http.Transport{})
		s.load("HTTP/2", "http://"+s.main, h2c())
		s.load("TLS, HTTP/1", "https://"+s.secure, s.overTLS(false))
		s.load("TLS, HTTP/2", "https://"+s.secure, s.overTLS(true))
	}
	s.load("new connections", "http://"+s.main, &http.Transport{DisableKeepAlives: true})
	s.oneConnection(s.keep)
	s.websocket(s.keep)
	s.download(s.keep)
	s.download(s.main)
	changes := 1000
	if testing.Short() {
		changes = 200
	}
	for range changes {
		s.change()
		time.Sleep(time.Duration(s.random.IntN(5)) * time.Millisecond)
	}
	close(s.release)
	close(s.stop)
	s.work.Wait()
	t.Logf("%d requests, %d failed, %d changes", s.done.Load(), s.failed.Load(), changes)
	if s.done.Load() < int64(changes) {
		t.Error("too few requests to tell")
	}
}
