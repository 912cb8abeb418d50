//go:build !unix

package proxyrun

import "os"

func reopenSignals() []os.Signal { return nil }

func ignoredSignals() []os.Signal { return nil }
