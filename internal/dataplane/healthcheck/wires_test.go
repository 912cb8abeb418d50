package healthcheck

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// play makes an address a host that speaks as a function says.
func play(n *network, addr string, f func(net.Conn)) (stop func()) {
	l := n.listen(addr)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
	return func() { _ = l.Close() }
}

// Proves HK-04: a connection alone, bytes there and back, in one piece or in several,
// with a PROXY header ahead; and what is no answer.
func TestTCP(t *testing.T) {
	echo := func(c net.Conn) { _, _ = io.Copy(c, c) }
	slowly := func(c net.Conn) {
		b := make([]byte, 4)
		for {
			if _, err := io.ReadFull(c, b[:2]); err != nil {
				return
			}
			_, _ = io.WriteString(c, "o")
			time.Sleep(100 * time.Millisecond)
			_, _ = io.WriteString(c, "k")
		}
	}
	silent := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	closing := func(c net.Conn) { _, _ = c.Read(make([]byte, 2)) }
	for _, tt := range []struct {
		name, fields string
		host         func(net.Conn)
		flags        string
		conns        int
		counters     map[string]int64
	}{
		{"connect only", ``, closing, "healthy", 4, map[string]int64{"attempt": 4, "success": 4}},
		{"echo", `"send": {"text": "6f6b"}, "receive": [{"text": "6f"}, {"text": "6b"}]`, echo, "healthy", 1, map[string]int64{"attempt": 4, "success": 4}},
		{"in pieces", `"send": {"binary": "b2s="}, "receive": [{"text": "6f6b"}]`, slowly, "healthy", 1, map[string]int64{"attempt": 4, "success": 4}},
		{"something else", `"send": {"text": "6f6b"}, "receive": [{"text": "6b"}, {"text": "6f"}]`, echo, "/failed_active_hc/active_hc_timeout", 3, map[string]int64{"attempt": 3, "failure": 3, "network_failure": 3}},
		{"nothing", `"send": {"text": "6f6b"}, "receive": [{"text": "6f"}]`, silent, "/failed_active_hc/active_hc_timeout", 3, map[string]int64{"attempt": 3, "failure": 3, "network_failure": 3}},
		{"closed", `"send": {"text": "6f6b"}, "receive": [{"text": "6f"}]`, closing, "/failed_active_hc", 4, map[string]int64{"attempt": 4, "failure": 4, "network_failure": 4}},
		{"nobody", ``, nil, "/failed_active_hc", 4, map[string]int64{"attempt": 4, "failure": 4, "network_failure": 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, `{"no_traffic_interval": "2s", "timeout": "0.5s", "interval": "2s", "unhealthy_threshold": 1, "healthy_threshold": 2, "tcp_health_check": {`+tt.fields+`}}`, "")
				if tt.host != nil {
					defer play(&b.net, "1.0.0.1:80", tt.host)()
				}
				stop := b.run()
				time.Sleep(7200 * time.Millisecond)
				if b.flags() != tt.flags {
					t.Errorf("%s, want %s", b.flags(), tt.flags)
				}
				stop()
				if diff := cmp.Diff(tt.counters, b.counters()); diff != "" {
					t.Error(diff)
				}
				if got := b.net.connections("1.0.0.1:80"); got != tt.conns {
					t.Errorf("%d connections, want %d", got, tt.conns)
				}
			})
		})
	}
}

// Partly proves HK-04: the PROXY header stands once at the beginning of a connection.
func TestPROXYHeader(t *testing.T) {
	v1 := &tcpConfig{proxy: true}
	here, there := net.Pipe()
	if got := string(v1.proxyHeader(here)); got != "PROXY UNKNOWN\r\n" {
		t.Errorf("%q", got)
	}
	_ = here.Close()
	_ = there.Close()
	for _, tt := range []struct{ from, to, want string }{
		{"1.2.3.4:5", "6.7.8.9:10", "PROXY TCP4 1.2.3.4 6.7.8.9 5 10\r\n"},
		{"[::1]:5", "[::2]:10", "PROXY TCP6 ::1 ::2 5 10\r\n"},
		{"[::ffff:1.2.3.4]:5", "[::ffff:6.7.8.9]:10", "PROXY TCP4 1.2.3.4 6.7.8.9 5 10\r\n"},
	} {
		if got := string(v1.proxyHeader(addressed{from: tt.from, to: tt.to})); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, `{`+slow+required+`, "tcp_health_check": {"send": {"text": "68690a"}, "receive": [{"text": "6f6b"}], "proxy_protocol_config": {"version": "V2"}}}`, "")
		var lines []string
		defer play(&b.net, "1.0.0.1:80", func(c net.Conn) {
			head := make([]byte, 16)
			_, _ = io.ReadFull(c, head)
			lines = append(lines, fmt.Sprintf("%q", head))
			for r := bufio.NewReader(c); ; {
				l, err := r.ReadString('\n')
				if err != nil {
					return
				}
				lines = append(lines, l)
				_, _ = io.WriteString(c, "ok")
			}
		})()
		stop := b.run()
		time.Sleep(3 * time.Second)
		stop()
		synctest.Wait()
		if diff := cmp.Diff([]string{`"\r\n\r\n\x00\r\nQUIT\n \x00\x00\x00"`, "hi\n", "hi\n"}, lines); diff != "" {
			t.Error(diff)
		}
	})
}

// addressed is a connection that knows its addresses only.
type addressed struct {
	net.Conn
	from, to string
}

func (a addressed) LocalAddr() net.Addr  { return tcpAddr(a.from) }
func (a addressed) RemoteAddr() net.Addr { return tcpAddr(a.to) }

func tcpAddr(s string) net.Addr {
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		panic(err)
	}
	return a
}

// As in Envoy, a connection of a TCP check that the host ends between two checks is a
// failure.
func TestTCPConnectionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, `{`+slow+required+`, "tcp_health_check": {"send": {"text": "68"}, "receive": [{"text": "68"}]}}`, "")
		defer play(&b.net, "1.0.0.1:80", func(c net.Conn) {
			_, _ = io.CopyN(c, c, 1)
			time.Sleep(time.Second)
		})()
		stop := b.run()
		time.Sleep(8 * time.Second) // checks at 0, 3 and 6 s, losses at 1, 4 and 7 s
		stop()
		if diff := cmp.Diff(map[string]int64{"attempt": 3, "success": 3, "failure": 3, "network_failure": 3}, b.counters()); diff != "" {
			t.Error(diff)
		}
	})
}

func grpcBench(t *testing.T, fields string) *bench {
	return newBench(t, `{`+slow+required+`, "grpc_health_check": {`+fields+`}}`, "")
}

// Proves HK-05 against grpc-go's health server: a service that serves, one that does
// not, one that nobody knows; what the check sends; no such method.
func TestGRPC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := grpcBench(t, `"service_name": "the.service", "authority": "auth.test", "initial_metadata": [{"header": {"key": "a", "value": "1"}}]`)
		var seen atomic.Pointer[metadata.MD]
		srv := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			seen.Store(&md)
			return next(ctx, req)
		}))
		hs := health.NewServer()
		healthpb.RegisterHealthServer(srv, hs)
		go func() { _ = srv.Serve(b.net.listen("1.0.0.1:80")) }()
		time.Sleep(time.Millisecond)
		stop := b.run()
		expect := func(flags string) {
			t.Helper()
			if b.flags() != flags {
				t.Errorf("%s, want %s", b.flags(), flags)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(time.Second)     // between two checks, as all that follows
		expect("/failed_active_hc") // NOT_FOUND
		hs.SetServingStatus("the.service", healthpb.HealthCheckResponse_SERVING)
		time.Sleep(4 * time.Second)
		expect("healthy")
		hs.SetServingStatus("the.service", healthpb.HealthCheckResponse_NOT_SERVING)
		time.Sleep(2 * time.Second)
		expect("/failed_active_hc")
		hs.SetServingStatus("the.service", healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
		expect("/failed_active_hc")
		if b.net.connections("1.0.0.1:80") != 1 {
			t.Error("an answer that says no ended the connection")
		}
		for name, want := range map[string]string{":authority": "auth.test", "a": "1", "user-agent": "Envoy/HC"} {
			if got := strings.Join(seen.Load().Get(name), "|"); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		stop()
		srv.Stop()
	})
	synctest.Test(t, func(t *testing.T) {
		b := grpcBench(t, ``)
		srv := grpc.NewServer() // UNIMPLEMENTED
		go func() { _ = srv.Serve(b.net.listen("1.0.0.1:80")) }()
		time.Sleep(time.Millisecond)
		stop := b.run()
		time.Sleep(time.Second)
		stop()
		srv.Stop()
		if diff := cmp.Diff(map[string]int64{"attempt": 1, "failure": 1}, b.counters()); diff != "" {
			t.Error(diff)
		}
	})
}

// Partly proves HK-05: answers that are none.
func TestGRPCAnswers(t *testing.T) {
	c := &grpcConfig{}
	for _, tt := range []struct {
		name, kind, status, body string
		trailers                 bool
		want                     Verdict
	}{
		{"serving", "application/grpc", "0", "\x00\x00\x00\x00\x02\x08\x01", true, Passed},
		{"with a codec", "application/grpc+proto", "0", "\x00\x00\x00\x00\x02\x08\x01", true, Passed},
		{"other fields", "application/grpc", "0", "\x00\x00\x00\x00\x07\x12\x03abc\x08\x01", true, Passed},
		{"an empty message beside it", "application/grpc", "0", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x08\x01", true, Passed},
		{"not serving", "application/grpc", "0", "\x00\x00\x00\x00\x02\x08\x02", true, Failed},
		{"unknown", "application/grpc", "0", "\x00\x00\x00\x00\x00", true, Failed},
		{"nothing", "application/grpc", "0", "", true, Failed},
		{"two messages", "application/grpc", "0", "\x00\x00\x00\x00\x02\x08\x01\x00\x00\x00\x00\x02\x08\x01", true, Failed},
		{"compressed", "application/grpc", "0", "\x01\x00\x00\x00\x02\x08\x01", true, Failed},
		{"cut", "application/grpc", "0", "\x00\x00\x00\x00\x03\x08\x01", true, Failed},
		{"a cut head", "application/grpc", "0", "\x00\x00\x00", true, Failed},
		{"no protobuf", "application/grpc", "0", "\x00\x00\x00\x00\x02\xff\xff", true, Failed},
		{"another status", "application/grpc", "12", "\x00\x00\x00\x00\x02\x08\x01", true, Failed},
		{"no trailers", "application/grpc", "0", "\x00\x00\x00\x00\x02\x08\x01", false, Failed},
		{"another kind", "application/grpc-web", "0", "\x00\x00\x00\x00\x02\x08\x01", true, Failed},
	} {
		var a answer
		a.head.Add(":status", "200")
		a.head.Add("content-type", tt.kind)
		a.trailers.Add("grpc-status", tt.status)
		a.hasTrailers, a.body = tt.trailers, []byte(tt.body)
		if got := c.judge(&a); got.Verdict != tt.want {
			t.Errorf("%s: %d", tt.name, got.Verdict)
		}
	}
}

func TestGRPCTimeout(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1000m", 99999999 * time.Millisecond: "99999999m", 100000000 * time.Millisecond: "100000S",
		1 << 62: "76861433M",
	} {
		if got := grpcTimeout(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// What a host answers is nothing to rely on: no bytes make a check crash or keep more
// than a little.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"), []byte("\x00\x00\x00\x00\x02\x08\x01"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), []byte{})
	f.Add([]byte("HTTP/1.1 503 x\r\n\r\n1\r\na and more"), []byte{})
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), []byte("\x01"))
	conf, err := readHTTP(clusterOf(f, `{"health_checks": [{"http_health_check": {"path": "/", "receive": [{"text": "61"}]}}]}`).GetHealthChecks()[0].GetHttpHealthCheck(), "c")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, wire, body []byte) {
		_, _ = serving(body)
		req := conf.request("", "http")
		h1 := newH1Wire(&script{in: wire}, conf, req, &http1Options, func() bool { return true })
		for again := true; again; {
			_, again = h1.check()
		}
		h2 := newH2Wire(&script{in: wire}, req, &http2Options, func(a *answer) { a.begin(req, conf.receive, conf.look) }, func(a *answer) Result { return conf.judge(a, func() bool { return true }) })
		for again := true; again; {
			_, again = h2.check()
		}
		if len(h1.in) > len(wire) || len(h1.ans.found.tail) > 1 {
			t.Error("too much is kept")
		}
	})
}

// script is a host that says something and ends.
type script struct {
	net.Conn
	in []byte
}

func (s *script) Read(b []byte) (int, error) {
	n := copy(b, s.in)
	s.in = s.in[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (*script) Write(b []byte) (int, error) { return len(b), nil }
