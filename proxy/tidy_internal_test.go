package proxy

import (
	"context"
	"runtime"
	"testing"
)

// Each collection is told of, more than once.
func TestCollections(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := collections(ctx)
	for range 3 {
		runtime.GC()
		<-c
	}
}
