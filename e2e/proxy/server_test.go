//go:build interop

package proxy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// server is a running proxy, Xebec or Envoy.
type server struct {
	*harness.Process
	*harness.Admin
}

// startPatience is how long a proxy may take to accept connections.
const startPatience = 30 * time.Second

// brand is a proxy to run.
type brand struct {
	name    string
	command []string
}

func xebec() brand {
	command := []string{xebecBinary, "proxy"}
	if os.Getenv("XEBEC_NO_IO_URING") != "" {
		command = append(command, "--no-io-uring") // all tests without it
	}
	return brand{"Xebec", command}
}

func envoy() brand { return brand{"Envoy", []string{envoyBinary}} }

// start runs a proxy with a bootstrap, to which the admin pages are added,
// until the test ends. It must not end by itself, and must end when it is told to.
func (b brand) start(t testing.TB, bootstrap string, args ...string) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.yaml")
	if err := os.WriteFile(file, []byte(bootstrap), 0o600); err != nil {
		t.Fatal(err)
	}
	admin, field := harness.ChooseAdmin(t)
	args = slices.Concat(b.command[1:], []string{
		"-c", file, "--config-yaml", field,
		"--concurrency", "1", "--log-level", "warning", "--file-flush-interval-msec", "20", "--disable-hot-restart",
	}, args)
	s := &server{harness.Start(t, b.name, exec.Command(b.command[0], args...)), admin}
	harness.Eventually(t, startPatience, s.Name+" accepts connections", func() error {
		s.Check(t)
		const started = "listener_manager.workers_started"
		stats, err := s.Numbers("filter=^" + started + "$")
		if err == nil && stats[started] != 1 {
			err = errors.New("workers have not started")
		}
		return err
	})
	return s
}

// gauges are those that count what is under way.
const gauges = `(_active|pending_send_bytes|bytes_buffered)$`

// notUnderWay matches what the admin pages themselves keep busy, and what says
// how something is configured.
var notUnderWay = regexp.MustCompile(`admin|^listener_manager|^cluster_manager|^server\.`)

// idle waits until every gauge of what is under way is 0.
func (s *server) idle(t testing.TB) {
	t.Helper()
	harness.Eventually(t, 15*time.Second, s.Name+" is idle", func() error {
		s.Check(t)
		all, err := s.Numbers("filter=" + gauges)
		if err != nil {
			return err
		}
		if len(all) < 5 {
			return fmt.Errorf("only %d gauges", len(all))
		}
		for name, n := range all {
			if n != 0 && !notUnderWay.MatchString(name) {
				err = errors.Join(err, fmt.Errorf("%s: %d", name, n))
			}
		}
		return err
	})
}
