//go:build interop

package living

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/internal/testpeer"
)

var errOther = errors.New("not what was sent")

// oneLine sends requests of HTTP/1 over a single connection; in TLS if told.
func (l *load) oneLine(kind string, port int, secure bool) {
	conn, err := net.Dial("tcp", "localhost:"+strconv.Itoa(port))
	if err == nil && secure {
		conn = tls.Client(conn, l.tls.Clone())
	}
	if err != nil {
		l.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	l.work.Go(func() {
		defer conn.Close()
		for n := 10; !l.ended(); n = 10 + (n+1)%5000 {
			if err := askLine(conn, r, n); err != nil {
				l.failure(kind, err)
				return
			}
			l.counted(kind)
			time.Sleep(pause)
		}
	})
}

func askLine(conn net.Conn, r *bufio.Reader, n int) error {
	_ = conn.SetDeadline(time.Now().Add(25 * time.Second))
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", n, make([]byte, n)); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := testpeer.Echoed(resp, n); err != nil {
		return err
	}
	if resp.Close {
		return errors.New("the connection is to be closed")
	}
	return nil
}

// oneConnection sends requests over a single connection of HTTP/2, which must
// never be replaced.
func (l *load) oneConnection(kind, scheme string, port int, tr *http.Transport) {
	var dialed atomic.Int64
	d := &net.Dialer{}
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if n := dialed.Add(1); n > 1 {
			l.failure(kind, fmt.Errorf("connection %d: the one before was closed", n))
		}
		return d.DialContext(ctx, network, address)
	}
	l.requests(kind, scheme, port, tr)
}

// websocket exchanges messages over one upgraded connection.
func (l *load) websocket(kind string, port int) {
	conn, err := net.Dial("tcp", "localhost:"+strconv.Itoa(port))
	if err != nil {
		l.t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // an upgrade has none
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		_ = conn.Close()
		l.t.Fatalf("the websocket: %v, %v", resp, err)
	}
	l.work.Go(func() {
		defer conn.Close()
		for n := uint64(0); !l.ended(); n++ {
			if err := exchange(conn, r, n); err != nil {
				l.failure(kind, fmt.Errorf("message %d: %w", n, err))
				return
			}
			l.counted(kind)
			time.Sleep(pause)
		}
	})
}

func exchange(conn net.Conn, r io.Reader, n uint64) error {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return err
	}
	var got [8]byte
	if _, err := io.ReadFull(r, got[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint64(got[:]) != n {
		return errOther
	}
	return nil
}

// download reads one response until the backends end it. It returns when the
// response has begun.
func (l *load) download(kind string, port int, tr *http.Transport) {
	resp, err := (&http.Client{Transport: tr}).Get("http://localhost:" + strconv.Itoa(port) + "/long")
	if err != nil {
		l.t.Fatalf("%s: %v", kind, err)
	}
	l.work.Go(func() {
		defer tr.CloseIdleConnections()
		defer resp.Body.Close()
		if err := readNumbers(resp.Body); err != nil {
			l.failure(kind, err)
		}
		l.counted(kind)
	})
}

func readNumbers(from io.Reader) error {
	r := bufio.NewReader(from)
	for want := uint64(0); ; want++ {
		var b [8]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return fmt.Errorf("after %d numbers: %w", want, err)
		}
		switch binary.BigEndian.Uint64(b[:]) {
		case want:
		case last:
			_, err := r.ReadByte()
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("after the end: %w", err)
			}
			return nil
		default:
			return fmt.Errorf("after %d numbers: %w", want, errOther)
		}
	}
}
