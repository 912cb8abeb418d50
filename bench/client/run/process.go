package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const stopTimeout = 10 * time.Second

// build builds the programs into a directory. The client of grpc-go is a module
// of its own.
func build(ctx context.Context, bin string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	for dir, packages := range map[string][]string{".": {"./server", "./peers/..."}, "peers/grpcgo": {"."}} {
		to := bin + string(filepath.Separator)
		if dir != "." {
			to = filepath.Join(bin, filepath.Base(dir))
		}
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", to}, packages...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build in %s (run this in bench/client): %w\n%s", dir, err, out)
		}
	}
	return nil
}

// process is a program that answers on its standard output what it is asked on
// its standard input.
type process struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	ask     *json.Encoder
	answers *json.Decoder
	log     bytes.Buffer
}

func start(ctx context.Context, path string, args ...string) (*process, error) {
	p := &process{name: filepath.Base(path), cmd: exec.CommandContext(ctx, path, args...)}
	p.cmd.Stderr = &p.log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = stopTimeout
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.ask, p.answers = in, json.NewEncoder(in), json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return p, nil
}

// hear reads an answer.
func (p *process) hear(answer any) error {
	if err := p.answers.Decode(answer); err != nil {
		return fmt.Errorf("%s does not answer: %w", p.name, err)
	}
	return nil
}

// exchange asks and reads the answer.
func (p *process) exchange(question, answer any) error {
	if err := p.ask.Encode(question); err != nil {
		return fmt.Errorf("asking %s: %w", p.name, err)
	}
	return p.hear(answer)
}

// keepOutput is how much of a failed program's output an error quotes.
const keepOutput = 2 << 10

// stop ends the process by ending its input, and adds to an error what it said.
func (p *process) stop(err error) error {
	_ = p.in.Close() // it may have ended
	timer := time.AfterFunc(stopTimeout, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	ended := p.cmd.Wait()
	if err == nil && ended == nil {
		return nil
	}
	if ended != nil {
		ended = fmt.Errorf("%s: %w", p.name, ended)
	}
	b := p.log.Bytes()
	if len(b) > 0 {
		ended = errors.Join(ended, fmt.Errorf("%s said: %s", p.name, b[:min(len(b), keepOutput)]))
	}
	return errors.Join(err, ended)
}

// cpu is the user and system time that the process has used, to the nanosecond.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.cmd.Process.Pid) }

func cpuOf(pid int) (time.Duration, error) {
	var ts unix.Timespec
	// The CPU clock of another process, as clock_getcpuclockid(3) makes it.
	if err := unix.ClockGettime(^int32(pid)<<3|2, &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// tick is the unit of /proc/stat (USER_HZ).
const tick = time.Second / 100

// busy is how long all cores together have been busy.
func busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("cores: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	const user, idle, iowait, steal = 1, 4, 5, 8
	if len(f) <= steal || f[0] != "cpu" {
		return 0, fmt.Errorf("cores: /proc/stat begins %q", line)
	}
	var ticks int64
	for i := user; i <= steal; i++ {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("cores: /proc/stat: %w", err)
		}
		if i != idle && i != iowait {
			ticks += n
		}
	}
	return time.Duration(ticks) * tick, nil
}
