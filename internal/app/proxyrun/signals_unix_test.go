//go:build unix

package proxyrun_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

// Proves BS-50 for the signals that do not end the process, and BS-48 for the log
// file: after a rename and SIGUSR1, lines go to a new file.
func TestSignals(t *testing.T) {
	log := filepath.Join(t.TempDir(), "proxy.log")
	r := newRunner()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- proxyrun.Start(ctx, options(t, proxyrun.Flags{ConfigYAML: "watchdog: {}", LogPath: log}), environment(), proxyrun.Streams{}, builds(r))
	}()
	<-r.running
	old, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(old), "accepted without effect") {
		t.Errorf("the log has %q, error %v", old, err)
	}
	if err := os.Rename(log, log+".1"); err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		if err := self.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	<-r.reopened
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	default:
	}
	r.err = errors.New("as it ended")
	cancel()
	if err := <-ended; !errors.Is(err, r.err) {
		t.Errorf("got %v", err)
	}
}
