//go:build interop

package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"golang.org/x/net/http2"
)

// FreePort finds a port of 127.0.0.1 that nobody listens on. It lies below those
// that the system gives to outgoing connections, so that nothing takes it before
// its user does, nor while a server restarts on it. Until the test ends it is not
// found again: its UDP port is held meanwhile, which other processes see, too.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		claim, err := net.ListenPacket("udp", at)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", at); err == nil {
			_ = l.Close()
			t.Cleanup(func() { _ = claim.Close() })
			return port
		}
		_ = claim.Close()
	}
	t.Fatal("no free port between 20000 and 30000")
	return 0
}

// Reset closes a connection so that the peer sees a reset.
func Reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// WriteBlock writes a header block of HTTP/2 in as many frames as it takes; end
// ends the stream with it.
func WriteBlock(f *http2.Framer, stream uint32, block []byte, end bool) error {
	const most = 16 << 10 // what every peer takes in a frame, in bytes
	n := min(len(block), most)
	err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block[:n], EndHeaders: n == len(block), EndStream: end})
	for block = block[n:]; err == nil && len(block) > 0; block = block[n:] {
		n = min(len(block), most)
		err = f.WriteContinuation(stream, n == len(block), block[:n])
	}
	return err
}
