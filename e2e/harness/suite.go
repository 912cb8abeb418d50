//go:build interop

package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// BinaryVariable is the environment variable that names a binary to test
// instead of one built from the source.
const BinaryVariable = "XEBEC_E2E_BINARY"

// Tool is something that e2e/setup.sh fetches: its path below .tmp/e2e.
type Tool string

// The tools of e2e/setup.sh.
const (
	Envoy       Tool = "python/bin/envoy"
	H2spec      Tool = "h2spec"
	NodeModules Tool = "node/node_modules"
)

// Suite is a package of end-to-end tests.
type Suite struct {
	// Name stands before the errors of Run.
	Name string
	// Needs are the tools without which the suite cannot run.
	Needs []Tool
	// WithoutXebec leaves the binary under test out.
	WithoutXebec bool
	// Prepare is called before the tests with what they have at hand. May be nil.
	Prepare func(*Found) error
}

// Found is what a suite has at hand.
type Found struct {
	// Xebec is the path of the binary under test; empty with WithoutXebec.
	Xebec string
	// Dir is a directory that is removed after the tests.
	Dir string

	root string
}

// Tool is the absolute path of a tool.
func (f *Found) Tool(t Tool) string { return filepath.Join(f.root, ".tmp", "e2e", string(t)) }

// Run runs the tests as a TestMain does, and returns the exit code. Goroutines
// that the tests left behind fail the suite.
func (s *Suite) Run(m *testing.M) int {
	code, err := s.run(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.Name, err)
		return 1
	}
	return code
}

func (s *Suite) run(m *testing.M) (int, error) {
	root, err := repository()
	if err != nil {
		return 0, err
	}
	f := &Found{root: root}
	for _, tool := range s.Needs {
		if _, err := os.Stat(f.Tool(tool)); err != nil {
			return 0, fmt.Errorf("%w: run `bash e2e/setup.sh`", err)
		}
	}
	if f.Dir, err = os.MkdirTemp("", "xebec-e2e-"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(f.Dir) }()
	if !s.WithoutXebec {
		if f.Xebec, err = f.xebec(); err != nil {
			return 0, err
		}
	}
	if s.Prepare != nil {
		if err := s.Prepare(f); err != nil {
			return 0, err
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		return 0, err
	}
	return code, nil
}

// xebec builds the binary under test, unless another one is named.
func (f *Found) xebec() (string, error) {
	if path := os.Getenv(BinaryVariable); path != "" {
		return path, nil
	}
	path := filepath.Join(f.Dir, "xebec")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/xebec")
	build.Dir = f.root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/xebec: %w\n%s", err, out)
	}
	return path, nil
}

// repository is the nearest directory with a go.mod: tests run in that of their
// package.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above it", start)
		}
	}
}
