//go:build interop

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// server is a running `xebec serve`.
type server struct {
	*harness.Process
	directory
	xds, admin string
	args       []string
	// call holds what commands need to call the server, beside its address.
	call []string
}

// startServer serves an empty directory until the test ends.
func startServer(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{
		directory: directory{t.TempDir()},
		xds:       "127.0.0.1:" + strconv.Itoa(harness.FreePort(t)),
		admin:     "127.0.0.1:" + strconv.Itoa(harness.FreePort(t)),
	}
	s.args = append([]string{"serve", "--dir", s.path, "--xds-address", s.xds, "--admin-address", s.admin}, flags...)
	s.restart(t)
	return s
}

// restart runs the server at its addresses and waits until it is ready.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.Process = harness.Start(t, "xebec serve", exec.Command(xebecBinary, s.args...))
	client := newClient(t, nil)
	harness.Eventually(t, 10*time.Second, "xebec ready", func() error {
		s.Check(t)
		_, err := get(t.Context(), client, "http://"+s.admin+"/readyz")
		return err
	})
}

// ask runs a command that calls the server.
func (s *server) ask(t *testing.T, command string, args ...string) []byte {
	t.Helper()
	return xebec(t, slices.Concat([]string{command, "--server", s.xds}, s.call, args)...)
}

// bootstrap writes the configuration with which a client finds the server.
func (s *server) bootstrap(t *testing.T, client string, args ...string) []byte {
	t.Helper()
	return xebec(t, slices.Concat([]string{"bootstrap", client, "--server", s.xds}, s.call, args)...)
}

// envoyBootstrap is the configuration of an Envoy that uses a variant.
func (s *server) envoyBootstrap(t *testing.T, v variant, node string) []byte {
	t.Helper()
	return s.bootstrap(t, "envoy", "--node-id", node, "--variant", v.wire, "--ads="+strconv.FormatBool(v.aggregated))
}

// xebec runs a command that must succeed, and returns what it prints.
func xebec(t *testing.T, args ...string) []byte {
	t.Helper()
	stdout, stderr, code := run(t, time.Minute, xebecBinary, args...)
	if code != 0 {
		t.Fatalf("xebec %q: exit code %d\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// run runs a program to its end and returns its output and exit code.
func run(t *testing.T, timeout time.Duration, name string, args ...string) (stdout, stderr []byte, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v", filepath.Base(name), args, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %q did not end within %v\n%s", filepath.Base(name), args, timeout, errs.Bytes())
	}
	return out.Bytes(), errs.Bytes(), cmd.ProcessState.ExitCode()
}
