package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// command runs a command of the program until there is something to measure.
func command(t *testing.T, args ...string) raw.Values {
	t.Helper()
	args = append(args, "-pids", strconv.Itoa(os.Getpid()), "-cores", "0")
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		var out bytes.Buffer
		err := run(t.Context(), append(args, "-time", wait.String(), "-warm", "10ms"), &out)
		if err != nil {
			if wait < 5*time.Second && strings.Contains(err.Error(), "no request was answered") {
				continue
			}
			t.Fatal(err)
		}
		v, err := raw.ParseValues(out.String())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestDrive(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for protocol, upstream := range map[string]string{"h1": "-upstream-h1", "h2": "-upstream-h2", "grpc": "-upstream-h2"} {
		v := command(t, "drive", "-target", at, upstream, at, "-protocol", protocol, "-connections", "4")
		if v["n"] == 0 || v["wrong"] > 0 || v["p50"] <= 0 || v["p99"] < v["p50"] || v["percore"] <= 0 || v["mbps"] <= 0 {
			t.Errorf("%s: %s", protocol, v)
		}
	}
}

func answer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1024")
	_, _ = w.Write(make([]byte, 1024))
}

func TestHandshakesAreNew(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	opened := make(chan struct{}, 1<<16)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened <- struct{}{}
		}
	}
	s.StartTLS()
	defer s.Close()
	v := command(t, "handshakes", "-target", s.Listener.Addr().String(), "-connections", "4")
	if v["n"] == 0 || v["wrong"] > 0 || len(opened) < int(v["n"]) {
		t.Errorf("%d connections for %s", len(opened), v)
	}
}

func TestHandshakesWithoutAWholeResponseAreWrong(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("short")) }))
	defer s.Close()
	v := command(t, "handshakes", "-target", s.Listener.Addr().String(), "-connections", "2")
	if v["wrong"] != v["n"] {
		t.Errorf("not all of them are wrong: %s", v)
	}
}

func TestIdleKeepsConnectionsOpen(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(answer))
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		v := command(t, "idle", "-target", s.Listener.Addr().String(), "-connections", "100", "-tls="+strconv.FormatBool(secure))
		s.Close()
		if v["n"] != 100 || v["wrong"] > 0 || v["idle_kb"] < 0 {
			t.Errorf("TLS %t: %s", secure, v)
		}
	}
}

func TestIdleFailsIfNothingAnswers(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	err := run(t.Context(), []string{"idle", "-target", s.Listener.Addr().String(), "-connections", "1"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"play"}, {"drive", "-protocol", "h3"}, {"drive", "-pids", "x"}, {"drive", "-target", "x"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

func TestUpstreamEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, err := parse([]string{"upstream", "-upstream-h1", "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Upstream1[0] != netip.MustParseAddrPort("127.0.0.1:0") {
		t.Fatalf("%+v", o)
	}
	if _, err := upstream(ctx, o); err != nil {
		t.Error(err)
	}
}
