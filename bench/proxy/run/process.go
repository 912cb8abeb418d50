package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	pollInterval = 20 * time.Millisecond
	// keepOutput is how much of a failed program's output an error quotes.
	keepOutput = 4 << 10
	// openFiles is what the largest suite needs, with room.
	openFiles = 20_000
)

// process is a program that runs, bound to cores.
type process struct {
	name   string
	cmd    *exec.Cmd
	out    *bytes.Buffer
	exited chan struct{}
	err    error // why it ended, once exited is closed
}

// start starts a program on cores. It inherits them, as do its children.
func start(name string, cores []int, path string, args ...string) (*process, error) {
	p := newProcess(name, path, args...)
	return p, p.start(cores)
}

func newProcess(name, path string, args ...string) *process {
	p := &process{name: name, cmd: exec.Command(path, args...), out: &bytes.Buffer{}, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = time.Second
	// Nothing that this program starts outlives it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return p
}

func (p *process) start(cores []int) error {
	if err := bound(cores, p.cmd.Start); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return nil
}

// bound calls a function that starts a process on a thread bound to cores.
func bound(cores []int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	for _, c := range cores {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("cores %v: %w", cores, err)
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

// stop ends the process and those it started, and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	patience := time.NewTimer(stopTimeout)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its group, if any of it is left
	<-p.exited
}

// pids are the process and its children.
func (p *process) pids() ([]int, error) {
	select {
	case <-p.exited:
		return nil, p.gone()
	default:
		return meter.Tree(p.cmd.Process.Pid)
	}
}

// gone says that and why a process ended; it must have.
func (p *process) gone() error {
	out := strings.TrimSpace(p.out.String())
	err := p.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended: %w: %s", p.name, err, out[:min(len(out), keepOutput)])
}

// ready waits until something accepts connections at each address.
func (p *process) ready(ctx context.Context, at ...netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var d net.Dialer
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for _, a := range at {
		for {
			c, err := d.DialContext(ctx, "tcp", a.String())
			if err == nil {
				_ = c.Close()
				break
			}
			select {
			case <-p.exited:
				return p.gone()
			case <-ctx.Done():
				return fmt.Errorf("%s does not listen on %s: %w", p.name, a, ctx.Err())
			case <-poll.C:
			}
		}
	}
	return nil
}

// output runs a program to its end on cores, with variables added to the
// environment, and returns what it printed and the CPU time it used.
func output(ctx context.Context, cores []int, env []string, path string, args ...string) (string, time.Duration, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(cmd.Environ(), env...)
	if err := bound(cores, cmd.Start); err != nil {
		return "", 0, fmt.Errorf("starting %s: %w", path, err)
	}
	if err := cmd.Wait(); err != nil {
		return "", 0, fmt.Errorf("%s: %w: %s", filepath.Base(path), err, bytes.TrimSpace(errs.Bytes()))
	}
	return out.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// raiseOpenFiles raises the limit of open files for everything started, as
// far as that is allowed.
func raiseOpenFiles() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if l.Max < openFiles {
		return fmt.Errorf("the hard limit of open files is %d: %d are needed (ulimit -Hn)", l.Max, openFiles)
	}
	l.Cur = openFiles
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return nil
}

// Ports that are looked for lie below those that the system gives to the
// clients' sockets (ip_local_port_range, 32768 and above unless set otherwise):
// of these, one of thousands of connections could take a port before its
// listener is there.
const (
	firstPort = 10_000
	lastPort  = 32_767
	portTries = 1000
)

// freeAddresses finds loopback addresses that nobody listens on.
func freeAddresses(n int) ([]netip.AddrPort, error) {
	var out []netip.AddrPort
	for range portTries {
		if len(out) == n {
			return out, nil
		}
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(firstPort+rand.IntN(lastPort-firstPort+1)))
		l, err := net.Listen("tcp4", a.String())
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // all are held until all are found
		out = append(out, a)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
}
