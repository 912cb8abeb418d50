package proxyrun_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runner is a proxy that does nothing until it is ended.
type runner struct {
	running, reopened chan struct{}
	err               error
}

func newRunner() *runner {
	return &runner{running: make(chan struct{}), reopened: make(chan struct{}, 1)}
}

func (r *runner) Run(ctx context.Context) error {
	close(r.running)
	<-ctx.Done()
	return r.err
}

func (r *runner) Reopen() { r.reopened <- struct{}{} }

// builds is a Build that gives r.
func builds(r proxyrun.Runner) proxyrun.Build {
	return func(*proxyrun.Loaded, proxyrun.Options) (proxyrun.Runner, error) { return r, nil }
}

func options(t testing.TB, f proxyrun.Flags) proxyrun.Options {
	t.Helper()
	levels, err := proxyrun.NewLevels("info", "")
	if err != nil {
		t.Fatal(err)
	}
	return proxyrun.Options{Flags: f, Levels: levels}
}

// Proves BS-03: validate says OK, builds and runs nothing, and an error of
// building is one of validating.
func TestValidateMode(t *testing.T) {
	path := write(t, "b.yaml", []byte(small))
	var out, errOut bytes.Buffer
	o := options(t, proxyrun.Flags{ConfigPath: path, Validate: true})
	streams := proxyrun.Streams{Stdout: &out, Stderr: &errOut}
	r := newRunner()
	if err := proxyrun.Start(t.Context(), o, environment(), streams, builds(r)); err != nil {
		t.Fatal(err)
	}
	if want := "configuration '" + path + "' OK\n"; out.String() != want || errOut.Len() != 0 {
		t.Errorf("got %q and %q, want %q", out.String(), errOut.String(), want)
	}
	select {
	case <-r.running:
		t.Error("it ran")
	default:
	}
	failing := errors.New("no such cipher")
	err := proxyrun.Start(t.Context(), o, environment(), streams, func(*proxyrun.Loaded, proxyrun.Options) (proxyrun.Runner, error) { return nil, failing })
	if !errors.Is(err, failing) || !strings.Contains(err.Error(), "error initializing configuration '"+path+"': no such cipher") {
		t.Errorf("got %v", err)
	}
	o.Flags.ConfigPath, o.Flags.ConfigYAML = "", "{}"
	out.Reset()
	if err := proxyrun.Start(t.Context(), o, environment(), streams, nil); err != nil || out.String() != "configuration '' OK\n" {
		t.Errorf("got %v and %q", err, out.String())
	}
}

// Proves BS-52 as far as loading goes: after a failed load nothing was built, and
// the port is free.
func TestFailedLoadStartsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it is one
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	yaml := "admin: {address: {socket_address: {address: 127.0.0.1, port_value: " + strconv.Itoa(port) + "}}}\nheader_prefix: x"
	err = proxyrun.Start(t.Context(), options(t, proxyrun.Flags{ConfigYAML: yaml}), environment(), proxyrun.Streams{Stderr: &bytes.Buffer{}},
		func(*proxyrun.Loaded, proxyrun.Options) (proxyrun.Runner, error) {
			t.Error("a proxy was built")
			return nil, nil
		})
	if _, ok := errors.AsType[*proxyrun.LoadError](err); !ok {
		t.Fatalf("got %v", err)
	}
	if l, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNothingToServeWith(t *testing.T) {
	err := proxyrun.Start(t.Context(), options(t, proxyrun.Flags{ConfigYAML: "{}"}), environment(), proxyrun.Streams{Stderr: &bytes.Buffer{}}, nil)
	if !errors.Is(err, proxyrun.ErrNotServing) {
		t.Errorf("got %v", err)
	}
}
