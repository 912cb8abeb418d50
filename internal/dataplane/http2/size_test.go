package http2

import (
	"testing"
	"unsafe"
)

// TestIdleConnectionIsSmall keeps an eye on what thousands of idle connections
// cost; tables and buffers come with traffic.
func TestIdleConnectionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > 1536 {
		t.Errorf("a connection has %d bytes", n)
	}
	if n := unsafe.Sizeof(Stream{}); n > 256 {
		t.Errorf("a stream has %d bytes", n)
	}
}
