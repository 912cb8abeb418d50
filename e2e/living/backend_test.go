//go:build interop

package living

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// startBackend serves until the test ends, in HTTP/1 and HTTP/2: it answers with
// as many bytes as it is sent; echoes what comes on upgraded connections; serves
// gRPC's health; and at /long sends numbers until release is closed. It returns
// its port.
func startBackend(t testing.TB, release <-chan struct{}) int {
	t.Helper()
	rpc := grpc.NewServer()
	healthpb.RegisterHealthServer(rpc, health.NewServer())
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	b := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
			rpc.ServeHTTP(w, r)
		case r.URL.Path == "/long":
			sendNumbers(w, release)
		case r.URL.Path == "/ws":
			echo(w)
		default:
			answer(w, r)
		}
	}))
	b.Config.Protocols = &p
	b.Start()
	t.Cleanup(func() {
		rpc.Stop()
		b.CloseClientConnections()
		b.Close()
	})
	return b.Listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is one
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/slow" {
		time.Sleep(100 * time.Millisecond)
	}
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	_, _ = w.Write(bytes.Repeat([]byte("x"), int(n)))
}

// last is the number that ends a download.
const last = ^uint64(0)

// sendNumbers sends 0, 1, 2 and so on, 8 bytes each, and last at the end.
func sendNumbers(w http.ResponseWriter, release <-chan struct{}) {
	flush := http.NewResponseController(w)
	for n := uint64(0); ; {
		var block []byte
		for range 128 {
			block = binary.BigEndian.AppendUint64(block, n)
			n++
		}
		if _, err := w.Write(block); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-release:
			_, _ = w.Write(binary.BigEndian.AppendUint64(nil, last))
			return
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// echo takes an upgrade and sends back what comes.
func echo(w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	_, _ = io.Copy(conn, rw)
}
