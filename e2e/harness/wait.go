//go:build interop

package harness

import (
	"testing"
	"time"
)

// Eventually calls try until it returns nil, and fails the test with its last
// error if that takes longer than limit. It returns how long it took.
func Eventually(t testing.TB, limit time.Duration, what string, try func() error) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		err := try()
		took := time.Since(start)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
