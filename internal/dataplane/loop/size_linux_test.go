package loop

import (
	"testing"
	"unsafe"
)

// What every idle connection holds. These are sizes that the allocator has:
// one byte more costs the next of them.
func TestConnectionsAreSmall(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > 208 {
		t.Errorf("a connection takes %d bytes", n)
	}
	if n := unsafe.Sizeof(fdSocket{}); n > 32 {
		t.Errorf("a socket takes %d bytes", n)
	}
}
