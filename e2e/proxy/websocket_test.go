//go:build interop

package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// websocketPeer takes upgrades and echoes what comes until the client ends,
// then says goodbye.
func websocketPeer(c *net.TCPConn) {
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	if !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+req.Header.Get("Sec-WebSocket-Key")+"\r\n\r\nwelcome")
	_, _ = io.Copy(c, r)
}

// dialWebsocket opens a websocket; early is sent with the request.
func dialWebsocket(t *testing.T, port int, early string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: a2V5\r\nSec-WebSocket-Version: 13\r\n\r\n%s", early)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // an upgrade has none
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(resp.Header.Get("Upgrade"), "websocket") || resp.Header.Get("Sec-WebSocket-Accept") != "a2V5" {
		t.Fatalf("answer %v, %v", resp, err)
	}
	expect(t, r, []byte("welcome"+early))
	return c, r
}

func expect(t *testing.T, r io.Reader, want []byte) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes, %v", n, len(want), err)
	}
}

// Partly proves HC-43 and HC-46: websockets carry frames of any size both ways
// at once, outlive the timeout of their route while they are idle, and end when
// either side does; their gauges do, too.
func TestWebsocket(t *testing.T) {
	b := &bootstrap{h1: harness.FreePort(t), manager: "upgrade_configs: [{upgrade_type: websocket}]"}
	b.clusters = []cluster{{name: "ws", ports: []int{peer(t, websocketPeer)}, route: "timeout: 0.5s"}}
	s := xebec().start(t, b.yaml())
	const sockets = 8
	var all sync.WaitGroup
	var open []net.Conn
	for i := range sockets {
		c, r := dialWebsocket(t, b.h1, strings.Repeat("early", i))
		open = append(open, c)
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7)) //nolint:gosec // the same each time
			for _, size := range []int{1, 125, 126, 65_535, 65_536, 10 << 20} {
				frame := make([]byte, size)
				for j := range frame {
					frame[j] = byte(random.Uint32())
				}
				go func() { _, _ = c.Write(frame) }()
				got := make([]byte, size)
				if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, frame) {
					t.Errorf("socket %d: a frame of %d bytes does not come back: %v", i, size, err)
					return
				}
			}
			time.Sleep(time.Second) // idle for longer than the route's timeout
			_, _ = io.WriteString(c, "still there?")
			got := make([]byte, len("still there?"))
			if _, err := io.ReadFull(r, got); err != nil || string(got) != "still there?" {
				t.Errorf("socket %d, after a pause: %q, %v", i, got, err)
			}
		})
	}
	all.Wait()
	if n := s.Stats(t, "^http.h1.downstream_cx_upgrades_active$")["http.h1.downstream_cx_upgrades_active"]; n != sockets {
		t.Errorf("%d upgrades are active, want %d", n, sockets)
	}
	c, r := dialWebsocket(t, b.h1, "")
	_, _ = io.WriteString(c, "last words")
	_ = c.(*net.TCPConn).CloseWrite() //nolint:forcetypeassert // it is one
	rest, err := io.ReadAll(r)
	if string(rest) != "last words" || err != nil {
		t.Errorf("after the client has ended its side: %q, %v", rest, err)
	}
	c, _ = dialWebsocket(t, b.h1, "")
	harness.Reset(c)
	if o := ask(t, b.h1, "/ws", ""); o != (outcome{status: 400, complete: true}) {
		t.Errorf("without an upgrade: %v", o)
	}
	if n := s.Stats(t, "^http.h1.downstream_cx_upgrades_total$")["http.h1.downstream_cx_upgrades_total"]; n != sockets+2 {
		t.Errorf("%d upgrades, want %d", n, sockets+2)
	}
	for _, c := range open {
		_ = c.Close()
	}
	s.idle(t)
}
