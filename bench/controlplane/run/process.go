package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/report"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 10 * time.Second
	pollInterval = 20 * time.Millisecond
)

// bench runs one server and the load program against it.
type bench struct {
	bin string // directory of the programs
}

// build builds all programs of this module into a directory.
func build(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin+string(filepath.Separator), "./...")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./... (run this in bench/controlplane): %w\n%s", err, out)
	}
	return nil
}

// measure runs a scenario against a server once.
func (b bench) measure(ctx context.Context, s scenario, v server) (r report.Load, err error) {
	address, control, err := freeAddresses()
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	where := []string{"-addr", address, "-ctl", control}
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, v.program), append(where, s.serverArgs(v)...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return r, fmt.Errorf("starting %s: %w", v.program, err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was told to end
	}()
	if err := ready(ctx, control); err != nil {
		cancel()
		_ = cmd.Wait()
		return r, fmt.Errorf("%s: %w\nthe server's output: %s", v.name, err, quote(log.Bytes()))
	}
	out, err := b.load(ctx, append(where, s.loadArgs(v)...))
	if err != nil {
		cancel()
		_ = cmd.Wait() // so that its output is complete
		return r, fmt.Errorf("%s: %w\nthe server's output: %s", v.name, err, quote(log.Bytes()))
	}
	return r, json.Unmarshal(out, &r)
}

// keepOutput is how much of a failed server's output an error quotes, from its
// start: there a panic says why.
const keepOutput = 4 << 10

func quote(b []byte) []byte { return b[:min(len(b), keepOutput)] }

func (b bench) load(ctx context.Context, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "load"), args...)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("load %v: %w: %s", args, err, exit.Stderr)
	}
	return out, err
}

// ready waits until the control endpoint answers: the server serves by then.
func ready(ctx context.Context, control string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+control+"/stats", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			return resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer on %s: %w", control, ctx.Err())
		case <-again.C:
		}
	}
}

// freeAddresses finds two loopback addresses that nobody listens on.
func freeAddresses() (a, b string, err error) {
	var out [2]string
	for i := range out {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return "", "", fmt.Errorf("looking for a free port: %w", err)
		}
		defer l.Close()
		out[i] = l.Addr().String()
	}
	return out[0], out[1], nil
}

func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
