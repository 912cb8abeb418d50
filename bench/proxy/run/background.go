package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// inBackground calls a function on a thread of its own to which everything else
// on its cores is preferred (SCHED_IDLE), and so are the processes that the
// function starts: what is not measured must not make the load wait, which
// would count as the proxy's delay.
func inBackground(cores []int, f func() error) error {
	done := make(chan error)
	go func() {
		// Never unlocked, so that the thread ends here: not everybody may take the
		// policy back.
		runtime.LockOSThread()
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		if err != nil {
			err = fmt.Errorf("sched_setattr: %w", err)
		}
		done <- errors.Join(err, bound(cores, f))
	}()
	return <-done
}

// moveTo binds all threads of this program to cores.
func moveTo(cores []int) error {
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("threads: %w", err)
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return fmt.Errorf("threads: %w", err)
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("cores %v: %w", cores, err)
		}
	}
	return nil
}
