// Package clock reads the one clock that every process of the benchmark
// shares, so that a server's time of publication and a client's time of
// arrival can be subtracted.
package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the machine's monotonic time (CLOCK_MONOTONIC) in nanoseconds. It is
// comparable between processes on one machine.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Sprintf("clock: CLOCK_MONOTONIC is missing: %v", err)) // impossible on Linux
	}
	return ts.Nano()
}

// CPU is the user and system time this process has used.
func CPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("clock: getrusage: %v", err)) // impossible on Linux
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
