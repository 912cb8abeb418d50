package hcm

import (
	"testing"
	"unsafe"
)

// What every idle connection holds: a size that the allocator has.
func TestConnectionsAreSmall(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > 192 {
		t.Errorf("a connection takes %d bytes", n)
	}
}
