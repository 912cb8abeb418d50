//go:build !linux

package giveway

import "runtime"

// yield lets other goroutines go first.
func yield() { runtime.Gosched() }
