// Package meter reads what processes and cores have used, from Linux's clocks
// and /proc.
package meter

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of /proc/stat (USER_HZ).
const tick = time.Second / 100

// CPU is the user and system time that processes have used, to the nanosecond.
func CPU(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		var ts unix.Timespec
		// The CPU clock of another process, as clock_getcpuclockid(3) makes it.
		if err := unix.ClockGettime(^int32(pid)<<3|2, &ts); err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum, nil
}

// Own is the user and system time that this process has used.
func Own() (time.Duration, error) { return CPU([]int{os.Getpid()}) }

// Resident is the resident memory of processes, bytes.
func Resident(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, fmt.Errorf("memory: %w", err)
		}
		f := strings.Fields(string(b))
		if len(f) < 2 {
			return 0, fmt.Errorf("memory of process %d: /proc says %q", pid, b)
		}
		pages, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("memory of process %d: %w", pid, err)
		}
		sum += pages * int64(os.Getpagesize())
	}
	return sum, nil
}

// Tree is a process and its children.
func Tree(pid int) ([]int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, fmt.Errorf("children: %w", err)
	}
	pids := []int{pid}
	for f := range strings.FieldsSeq(string(b)) {
		child, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("children of process %d: %w", pid, err)
		}
		pids = append(pids, child)
	}
	return pids, nil
}

// Busy is how long cores have been busy, all together, with anything.
func Busy(cores []int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("cores: %w", err)
	}
	var sum time.Duration
	for _, core := range cores {
		d, err := busy(string(b), core)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// busy adds up a core's line of /proc/stat except idle and waiting for I/O.
func busy(stat string, core int) (time.Duration, error) {
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != "cpu"+strconv.Itoa(core) {
			continue
		}
		var sum time.Duration
		for i, s := range f[1:9] {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/stat: core %d: %w", core, err)
			}
			if i != 3 && i != 4 {
				sum += time.Duration(n) * tick
			}
		}
		return sum, nil
	}
	return 0, fmt.Errorf("/proc/stat has no core %d", core)
}

// Span measures from Begin to End.
type Span struct {
	proxy, load, cores []int
	at                 time.Time
	proxyCPU, loadCPU  time.Duration
	busy               time.Duration
}

// Used is what was used in a span.
type Used struct {
	Time time.Duration
	// Proxy is the CPU time of the proxy's processes.
	Proxy time.Duration
	// Other is how many cores' worth of the cores was used by neither the proxy
	// nor the load: somebody else disturbed the run, unless it is near zero.
	Other float64
}

// Begin begins a span over processes of the proxy and of the load, which are
// all on these cores.
func Begin(proxy, load, cores []int) (*Span, error) {
	s := &Span{proxy: proxy, load: load, cores: cores, at: time.Now()}
	var err [3]error
	s.proxyCPU, err[0] = CPU(proxy)
	s.loadCPU, err[1] = CPU(load)
	s.busy, err[2] = Busy(cores)
	return s, errors.Join(err[:]...)
}

// End ends the span; ended is the CPU time of processes of the load that are
// gone.
func (s *Span) End(ended time.Duration) (Used, error) {
	now, err := Begin(s.proxy, s.load, s.cores)
	if err != nil {
		return Used{}, err
	}
	u := Used{Time: now.at.Sub(s.at), Proxy: now.proxyCPU - s.proxyCPU}
	rest := now.busy - s.busy - u.Proxy - (now.loadCPU - s.loadCPU) - ended
	u.Other = max(0, rest.Seconds()/u.Time.Seconds())
	return u, nil
}
