package main

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// firstCore is one that this process may use.
func firstCore(t *testing.T) int {
	t.Helper()
	cores, err := usableCores()
	if err != nil {
		t.Fatal(err)
	}
	core := 0
	for !cores.IsSet(core) {
		core++
	}
	return core
}

// policy is the scheduling policy of a thread.
func policy(t *testing.T, thread int) uint32 {
	t.Helper()
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		t.Fatal(err)
	}
	return a.Policy
}

func TestBackgroundStandsBack(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep")
	}
	core := firstCore(t)
	var (
		p      *process
		thread int
	)
	if err := inBackground([]int{core}, func() (err error) {
		thread = unix.Gettid()
		if got := policy(t, thread); got != unix.SCHED_IDLE {
			t.Errorf("the function runs with policy %d", got)
		}
		p, err = start("sleeper", []int{core}, sleep, "600")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	if got := policy(t, p.cmd.Process.Pid); got != unix.SCHED_IDLE {
		t.Errorf("what it starts runs with policy %d", got)
	}
	if thread == unix.Getpid() {
		return // the first thread does not end, but is not used again
	}
	for range 100 { // the thread ends: nothing else may come to run on it
		if err := unix.Tgkill(unix.Getpid(), thread, 0); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("its thread lives on")
}

func TestEveryThreadMoves(t *testing.T) {
	before, err := usableCores()
	if err != nil {
		t.Fatal(err)
	}
	if before.Count() < 2 {
		t.Skip("there is one core only")
	}
	core := firstCore(t)
	if err := moveTo([]int{core}); err != nil {
		t.Fatal(err)
	}
	var all []int
	for c := range len(before) * 64 {
		if before.IsSet(c) {
			all = append(all, c)
		}
	}
	defer func() {
		if err := moveTo(all); err != nil {
			t.Error(err)
		}
	}()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() != 1 || !set.IsSet(core) {
		t.Errorf("a thread may use %d cores", set.Count())
	}
}
