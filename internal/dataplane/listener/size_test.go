package listener

import (
	"testing"
	"unsafe"
)

// What every idle connection holds: a size that the allocator has.
func TestConnectionsAreSmall(t *testing.T) {
	if n := unsafe.Sizeof(Connection{}); n > 320 {
		t.Errorf("a connection takes %d bytes", n)
	}
}
