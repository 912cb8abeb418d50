package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const oneCluster = `
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: web
`

// resourceDir makes a directory with one file of resources.
func resourceDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "resources.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// settings are those of a server on free ports of loopback.
func settings(t *testing.T) Settings {
	t.Helper()
	return Settings{
		Dir: resourceDir(t, oneCluster), XDSAddress: "127.0.0.1:0", AdminAddress: "127.0.0.1:0",
		DrainTime: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
}

// run runs a server until the test ends, and checks that it ends well.
func run(t *testing.T, s Settings) *Management {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m, err := New(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return m
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
