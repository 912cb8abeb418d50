//go:build unix

package proxyrun

import (
	"os"
	"syscall"
)

func reopenSignals() []os.Signal { return []os.Signal{syscall.SIGUSR1} }

func ignoredSignals() []os.Signal { return []os.Signal{syscall.SIGHUP} }
