package loop

import (
	"testing"
	"unsafe"
)

// What every idle connection holds, its socket included: a size that the allocator
// has.
func TestConnectionsAreSmall(t *testing.T) {
	if n := unsafe.Sizeof(Conn{}); n > 176 {
		t.Errorf("a connection takes %d bytes", n)
	}
}
