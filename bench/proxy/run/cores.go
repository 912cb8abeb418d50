package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
)

// A machine is quiet if this process's cores were busy for less than a share
// of a short time.
const (
	quietShare = 0.15
	quietTime  = 100 * time.Millisecond
)

// usableCores are those that this process may use.
func usableCores() (unix.CPUSet, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return set, fmt.Errorf("sched_getaffinity: %w", err)
	}
	return set, nil
}

// quiet waits until nothing uses the two cores, as long as the pace allows.
func (m *machine) quiet(ctx context.Context) error {
	cores := []int{m.proxyCore, m.loadCore}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	for end := time.Now().Add(m.pace.quiet); time.Now().Before(end); {
		before, err := meter.Busy(cores)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		after, err := meter.Busy(cores)
		if err != nil {
			return err
		}
		if (after - before).Seconds() < quietShare*quietTime.Seconds()*float64(len(cores)) {
			return nil
		}
	}
	return nil
}
