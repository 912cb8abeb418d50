//go:build interop

package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	// stopGrace is how long a process may take to end after SIGTERM.
	stopGrace = 15 * time.Second
	// tailSize is how much of a process's output Tail returns, in bytes.
	tailSize = 8 << 10
)

// Process is a running program. Its methods belong to one goroutine, but
// Running, Err, PID and Signal may be called by any.
type Process struct {
	// Name is what messages call it.
	Name string

	cmd    *exec.Cmd
	output string
	exited chan struct{} // closed when it has ended, with err set
	err    error
	ended  bool // its end is the test's doing, or reported
}

// Launch runs a program. What it writes is appended to a file, but for standard
// output if cmd already has one.
func Launch(name string, cmd *exec.Cmd, output string) (*Process, error) {
	out, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{Name: name, cmd: cmd, output: output, exited: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Start runs a program until the test ends. A program that ends by itself, or
// not after SIGTERM, or not with exit code 0, fails the test. The last lines of a
// failed test's programs are logged.
func Start(t testing.TB, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p, err := Launch(name, cmd, filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("the last that %s wrote:\n%s", name, p.Tail())
		}
	})
	return p
}

// Running reports whether the program has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Err is how the program ended: nil with exit code 0, or as long as it runs.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.err
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. A program that has ended gets none.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Check ends the test if the program has ended.
func (p *Process) Check(t testing.TB) {
	t.Helper()
	if !p.Running() {
		p.ended = true
		t.Fatalf("%s ended: %v", p.Name, p.err)
	}
}

// Stop asks the program to end and fails the test unless it does, with exit
// code 0. It does nothing if the test has ended the program before.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	if !p.Running() {
		t.Errorf("%s ended by itself: %v", p.Name, p.err)
		return
	}
	if !p.Terminate(stopGrace) {
		t.Errorf("%s did not end within %v after SIGTERM", p.Name, stopGrace)
	} else if p.err != nil {
		t.Errorf("%s, after SIGTERM: %v", p.Name, p.err)
	}
}

// Terminate sends SIGTERM and waits until the program has ended. It is killed if
// that takes longer than grace; the result is then false.
func (p *Process) Terminate(grace time.Duration) bool {
	p.ended = true
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		p.Kill()
		return false
	}
}

// Kill ends the program without a chance to say goodbye.
func (p *Process) Kill() {
	p.ended = true
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Await waits until a program that has been told to end has done so, and
// returns how it ended.
func (p *Process) Await() error {
	p.ended = true
	<-p.exited
	return p.err
}

// Tail is the end of what the program wrote.
func (p *Process) Tail() string {
	out, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	if len(out) > tailSize {
		out = out[len(out)-tailSize:]
		if _, rest, ok := bytes.Cut(out, []byte("\n")); ok {
			out = rest
		}
	}
	return string(bytes.ToValidUTF8(out, nil))
}
