package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/peer"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// control speaks to the server's control endpoint.
type control struct{ addr string }

func (c control) bump(ctx context.Context, k resources.Kind, i, gen int) (b peer.Bumped, err error) {
	return b, c.call(ctx, http.MethodPost, fmt.Sprintf("/bump?type=%s&i=%d&gen=%d", k, i, gen), &b)
}

func (c control) stats(ctx context.Context) (s peer.Stats, err error) {
	return s, c.call(ctx, http.MethodGet, "/stats", &s)
}

func (c control) post(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodPost, path, nil)
}

func (c control) call(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.addr+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("control endpoint: %w", err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("control endpoint: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("control endpoint: %s: %s: %s", path, resp.Status, b)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b, into)
}

// awaitRestart waits for another process to answer than the one of before.
func (c control) awaitRestart(ctx context.Context, before peer.Stats) (peer.Stats, error) {
	again := time.NewTicker(restartPoll)
	defer again.Stop()
	for {
		s, err := c.stats(ctx)
		if err == nil && s.Started != before.Started {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("waiting for the restarted server: %w", ctx.Err())
		case <-again.C:
		}
	}
}

const restartPoll = 20 * time.Millisecond

// processCPU is what the threads of a process have run so far. Reading it
// costs the process nothing.
func processCPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("process %d: no scheduling statistics", pid)
	}
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has just ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b) + " 0")[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", t, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// machineCPU is what all processors of the machine have been busy so far.
func machineCPU() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux port
	line, _, _ := strings.Cut(string(b), "\n")
	var busy time.Duration
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle, iowait, guests
			continue
		}
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		busy += time.Duration(n) * tick
	}
	return busy, nil
}
