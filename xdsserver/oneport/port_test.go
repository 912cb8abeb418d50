package oneport_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/xdsserver/oneport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a port with both servers.
type site struct {
	t       *testing.T
	port    *oneport.Port
	address string
	failed  chan error
}

func open(t *testing.T, cfg oneport.Config) *site {
	t.Helper()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, address: lis.Addr().String(), failed: make(chan error, 100)}
	cfg.Credentials = oneport.NewCredentials()
	cfg.Failed = func(_ net.Addr, err error) { s.failed <- err }
	s.port = oneport.New(lis, cfg)
	g := grpc.NewServer(grpc.Creds(cfg.Credentials))
	healthv1.RegisterHealthServer(g, health.NewServer())
	h := &http.Server{ConnContext: oneport.ConnContext, Protocols: &http.Protocols{}, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(answer)}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan error, 3)
	go func() { done <- g.Serve(s.port.GRPC()) }()
	go func() { done <- h.Serve(s.port.HTTP()) }()
	go func() { done <- s.port.Serve() }()
	t.Cleanup(func() {
		_ = h.Close()
		g.Stop()
		for range 3 {
			if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
				t.Error(err)
			}
		}
	})
	return s
}

// answer says how it was asked, and by whom.
func answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	who := "nobody"
	if p, ok := peer.FromContext(r.Context()); ok {
		who = p.AuthInfo.AuthType()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			who += " " + info.State.PeerCertificates[0].Subject.CommonName
		}
	}
	fmt.Fprintf(w, "%s %s %s %d", r.Method, r.Proto, who, len(body))
}

func (s *site) post(client *http.Client, scheme string, size int) string {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, scheme+"://"+s.address+"/x", bytes.NewReader(make([]byte, size)))
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *site) call(creds credentials.TransportCredentials) {
	s.t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(creds))
	if err != nil {
		s.t.Fatal(err)
	}
	defer cc.Close()
	var from peer.Peer
	got, err := healthv1.NewHealthClient(cc).Check(s.t.Context(), &healthv1.HealthCheckRequest{}, grpc.Peer(&from))
	if err != nil || got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		s.t.Errorf("gRPC: %v %v", got, err)
	}
}

func client(t *testing.T, cfg *tls.Config, set func(*http.Protocols)) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: cfg, Protocols: &http.Protocols{}}
	set(tr.Protocols)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestPlaintext(t *testing.T) {
	s := open(t, oneport.Config{})
	s.call(insecure.NewCredentials())
	one := client(t, nil, func(p *http.Protocols) { p.SetHTTP1(true) })
	two := client(t, nil, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	for range 3 {
		for _, size := range []int{0, 5, 100_000} {
			if got := s.post(one, "http", size); got != fmt.Sprintf("POST HTTP/1.1 insecure %d", size) {
				t.Errorf("HTTP/1.1: %s", got)
			}
			if got := s.post(two, "http", size); got != fmt.Sprintf("POST HTTP/2.0 insecure %d", size) {
				t.Errorf("HTTP/2: %s", got)
			}
		}
		s.call(insecure.NewCredentials())
	}
}

func TestTLS(t *testing.T) {
	authority, err := testcert.NewAuthority("authority")
	check(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM())
	s := open(t, oneport.Config{TLS: &tls.Config{
		Certificates: []tls.Certificate{issue(t, authority, "server")}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"},
	}})
	cfg := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{issue(t, authority, "alice")}}
	s.call(credentials.NewTLS(cfg.Clone()))
	one := client(t, cfg.Clone(), func(p *http.Protocols) { p.SetHTTP1(true) })
	two := client(t, cfg.Clone(), func(p *http.Protocols) { p.SetHTTP2(true) })
	if got := s.post(one, "https", 7); got != "POST HTTP/1.1 tls alice 7" {
		t.Errorf("HTTP/1.1: %s", got)
	}
	if got := s.post(two, "https", 7); got != "POST HTTP/2.0 tls alice 7" {
		t.Errorf("HTTP/2: %s", got)
	}
	s.call(credentials.NewTLS(cfg.Clone()))

	bare := cfg.Clone()
	bare.Certificates = nil
	conn, err := (&tls.Dialer{Config: bare}).DialContext(t.Context(), "tcp", s.address)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	if err == nil {
		t.Error("a client without a certificate is served")
	}
	if err := <-s.failed; !errors.Is(err, oneport.ErrHandshake) {
		t.Errorf("the failure is %v", err)
	}
}

func issue(t *testing.T, a *testcert.Authority, name string) tls.Certificate {
	t.Helper()
	cert, key, err := a.Issue(name)
	check(t, err)
	pair, err := tls.X509KeyPair(cert, key)
	check(t, err)
	return pair
}

// raw is a client that writes what it likes.
func (s *site) raw() net.Conn {
	s.t.Helper()
	c, err := (&net.Dialer{}).DialContext(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// A client that sends every byte by itself, and acknowledges the settings late,
// is understood as well.
func TestSlowClient(t *testing.T) {
	s := open(t, oneport.Config{})
	c := s.raw()
	var text bytes.Buffer
	text.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&text, nil)
	check(t, fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 70_000}))
	check(t, fr.WriteWindowUpdate(0, 1000))
	check(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers("application/json"), EndHeaders: true}))
	check(t, fr.WriteData(1, false, []byte("ab")))
	check(t, fr.WriteSettingsAck())
	check(t, fr.WriteSettingsAck())
	check(t, fr.WriteData(1, true, []byte("c")))
	for _, b := range text.Bytes() {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if got := reply(t, c); got != "POST HTTP/2.0 insecure 3" {
		t.Errorf("got %q", got)
	}
}

// A connection that is silent, or begins with a PING, is gRPC's: that answers
// pings.
func TestSilentClient(t *testing.T) {
	s := open(t, oneport.Config{Silence: 50 * time.Millisecond})
	for _, wait := range []time.Duration{0, 200 * time.Millisecond} {
		c := s.raw()
		_, err := io.WriteString(c, http2.ClientPreface)
		check(t, err)
		fr := http2.NewFramer(c, c)
		check(t, fr.WriteSettings())
		time.Sleep(wait)
		check(t, fr.WritePing(false, [8]byte{1, 2, 3}))
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				t.Fatalf("after %s: %v", wait, err)
			}
			if p, ok := f.(*http2.PingFrame); ok {
				if !p.IsAck() || p.Data != [8]byte{1, 2, 3} {
					t.Errorf("after %s: %v", wait, p)
				}
				break
			}
		}
	}
}

// What is neither does not bring anything down, and a REST request on a
// connection of gRPC is refused.
func TestOddClients(t *testing.T) {
	s := open(t, oneport.Config{Timeout: 200 * time.Millisecond})
	for _, text := range []string{"", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00", "\x16\x03\x01"} {
		c := s.raw()
		_, err := io.WriteString(c, text)
		check(t, err)
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	c := s.raw() // silent: dropped in the end
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a silent client reads %d bytes, %v", n, err)
	}
	c = s.raw()
	_, err := io.WriteString(c, "PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n!")
	check(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	check(t, err)
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); string(b) != "PUT HTTP/1.1 insecure 1" {
		t.Errorf("got %q", b)
	}
	s.call(insecure.NewCredentials())

	c = s.raw()
	_, err = io.WriteString(c, http2.ClientPreface)
	check(t, err)
	fr := http2.NewFramer(c, c)
	check(t, fr.WriteSettings())
	check(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers("application/grpc+proto"), EndHeaders: true, EndStream: true}))
	check(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: headers("application/json"), EndHeaders: true, EndStream: true}))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := fr.ReadFrame()
		check(t, err)
		if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamID == 3 {
			if got := h.PseudoValue("status"); got != "415" {
				t.Errorf("gRPC answers REST with %s", got)
			}
			return
		}
	}
}

// Closing the port ends what has not begun.
func TestClose(t *testing.T) {
	s := open(t, oneport.Config{})
	c := s.raw()
	_, err := io.WriteString(c, "PRI")
	check(t, err)
	check(t, s.port.Close())
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is still open")
	}
	check(t, s.port.Close())
}

func TestCredentials(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, _, err := oneport.NewCredentials().Clone().ServerHandshake(a); err == nil || !strings.Contains(err.Error(), "does not come from") {
		t.Errorf("the error is %v", err)
	}
	if ctx := oneport.ConnContext(t.Context(), a); ctx != context.Context(t.Context()) {
		t.Error("a stranger's connection has got a peer")
	}
}

func headers(contentType string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/x/y"}, {":authority", "a"}, {"content-type", contentType}, {"te", "trailers"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return b.Bytes()
}

// reply reads the body of the response on stream 1.
func reply(t *testing.T, c net.Conn) string {
	t.Helper()
	var body []byte
	fr := http2.NewFramer(io.Discard, c)
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			t.Fatalf("the server goes away: %v", f)
		case *http2.DataFrame:
			body = append(body, f.Data()...)
			if f.StreamEnded() {
				return string(body)
			}
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
