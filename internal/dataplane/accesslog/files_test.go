package accesslog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
)

func flush(t *testing.T, f *accesslog.Files) {
	t.Helper()
	if err := f.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func log(w *accesslog.Worker, l accesslog.Logs, who string, n int) {
	for i := range n {
		l.Log(w, stream("x-n", fmt.Sprintf("%s %d", who, i)))
	}
}

// Proves AL-04: lines of several workers come whole, and those of one in order.
func TestWholeLinesInOrder(t *testing.T) {
	const workers, lines = 4, 3000
	path := filepath.Join(t.TempDir(), "a.log")
	files := closing(t, accesslog.Options{FlushSize: 1 << 10})
	logs := build(t, files, toFile(path, "%REQ(x-n)% "+strings.Repeat("x", 50)+"\n"))
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w := files.NewWorker(nil)
			log(w, logs, fmt.Sprint(i), lines)
			w.Flush()
		})
	}
	wg.Wait()
	flush(t, files)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := [workers]int{}
	got := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	for _, line := range got {
		var who, n int
		var rest string
		if _, err := fmt.Sscanf(line, "%d %d %s", &who, &n, &rest); err != nil || len(rest) != 50 || n != next[who] {
			t.Fatalf("unexpected line %q: %v", line, err)
		}
		next[who]++
	}
	if len(got) != workers*lines {
		t.Errorf("%d lines, want %d", len(got), workers*lines)
	}
}

// Proves AL-04: a buffer is written when it is full, and when the interval that
// the worker asked for is over.
func TestFlush(t *testing.T) {
	var d disk
	var c counts
	files := closing(t, accesslog.Options{OpenFile: d.open, FlushSize: 100, FlushInterval: time.Minute, Counts: &c})
	logs := build(t, files, toFile("/a", strings.Repeat("x", 39)+"\n"), toFile("/b", "b\n"))
	var armed []time.Duration
	w := files.NewWorker(func(d time.Duration) { armed = append(armed, d) })
	log(w, logs, "", 2)
	flush(t, files)
	if got := d.text("/a", 0); got != "" || !w.Due() {
		t.Fatalf("wrote %q before the buffer was full", got)
	}
	log(w, logs, "", 1)
	flush(t, files)
	if a, b := d.text("/a", 0), d.text("/b", 0); len(a) != 120 || b != "" {
		t.Fatalf("wrote %q and %q, want a's three lines alone", a, b)
	}
	if len(armed) != 1 || armed[0] != time.Minute || w.Interval() != time.Minute {
		t.Errorf("armed %v, want once for a minute", armed)
	}
	w.Flush()
	flush(t, files)
	if b := d.text("/b", 0); b != "b\nb\nb\n" || w.Due() {
		t.Errorf("wrote %q at the end of the interval", b)
	}
	log(w, logs, "", 1)
	if len(armed) != 2 {
		t.Errorf("armed %d times, want again after a flush", len(armed))
	}
	w.Flush()
	flush(t, files)
	for s, want := range map[accesslog.Stat]int64{accesslog.WriteBuffered: 8, accesslog.WriteCompleted: 4, accesslog.FlushedByTimer: 3, accesslog.TotalBuffered: 0} {
		if got := c.get(s); got != want {
			t.Errorf("%s is %d, want %d", s.Name(), got, want)
		}
	}
}

// Proves AL-04: after Reopen lines go to a new file, and none is lost.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "a.log"), filepath.Join(dir, "a.log.1")
	files := closing(t, accesslog.Options{})
	logs := build(t, files, toFile(path, "%REQ(x-n)%\n"))
	w := files.NewWorker(nil)
	log(w, logs, "old", 2)
	w.Flush()
	flush(t, files)
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	log(w, logs, "moved", 1)
	w.Flush()
	flush(t, files)
	files.Reopen()
	for try := 0; ; try++ { // Reopen does not wait
		if _, err := os.Stat(path); err == nil {
			break
		} else if try > 5000 {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	log(w, logs, "new", 1)
	w.Flush()
	flush(t, files)
	for name, want := range map[string]string{old: "old 0\nold 1\nmoved 0\n", path: "new 0\n"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v, want %q", filepath.Base(name), b, err, want)
		}
	}
}

func TestReopenFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d disk
		var c counts
		files := accesslog.NewFiles(accesslog.Options{OpenFile: d.open, Counts: &c})
		logs := build(t, files, toFile("/a", "%REQ(x-n)%\n"))
		w := files.NewWorker(nil)
		d.set(func() { d.fail = errors.New("no space") })
		files.Reopen()
		synctest.Wait()
		log(w, logs, "a", 1)
		w.Flush()
		d.set(func() { d.fail = nil })
		synctest.Wait()
		if got := d.text("/a", 0); got != "a 0\n" || c.get(accesslog.ReopenFailed) != 1 {
			t.Errorf("the old file has %q, failures %d", got, c.get(accesslog.ReopenFailed))
		}
		files.Reopen()
		synctest.Wait()
		if !d.opened["/a"][0].closed || len(d.opened["/a"]) != 2 {
			t.Error("the old file is still open")
		}
		if err := files.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if !d.opened["/a"][1].closed {
			t.Error("the file is still open after Close")
		}
	})
}

// Proves AL-04: with a disk that does not answer, logging goes on at once, a
// bounded amount is kept, and what is dropped is counted.
func TestStalledDisk(t *testing.T) {
	const lines, size, limit = 20_000, 100, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := disk{gate: gate}
		var c counts
		files := accesslog.NewFiles(accesslog.Options{OpenFile: d.open, Counts: &c, FlushSize: 4 << 10, MaxQueued: limit})
		logs := build(t, files, toFile("/a", "%REQ(x-n)%"+strings.Repeat("x", size)+"\n"))
		w := files.NewWorker(nil)
		log(w, logs, "a", lines) // would never return if it waited
		w.Flush()
		if n := c.get(accesslog.TotalBuffered); n > limit || n < limit/2 {
			t.Errorf("%d bytes wait, want at most %d", n, limit)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := files.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "/a") {
			t.Errorf("Flush says %v", err)
		}
		close(gate)
		if err := files.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := int64(strings.Count(d.text("/a", 0), "\n"))
		if dropped := c.get(accesslog.Dropped); got+dropped != lines || dropped == 0 || got == 0 {
			t.Errorf("%d lines written and %d dropped, want %d together", got, dropped, lines)
		}
		if c.get(accesslog.WriteBuffered) != lines || c.get(accesslog.TotalBuffered) != 0 {
			t.Errorf("%d lines buffered, %d bytes left", c.get(accesslog.WriteBuffered), c.get(accesslog.TotalBuffered))
		}
		log(w, logs, "later", 1)
		w.Flush()
		if err := files.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(d.text("/a", 0), "later 0") {
			t.Error("nothing is written after the disk came back")
		}
	})
}

func TestFailingDisk(t *testing.T) {
	var d disk
	var c counts
	files := closing(t, accesslog.Options{OpenFile: d.open, Counts: &c})
	logs := build(t, files, toFile("/a", "%REQ(x-n)%\n"))
	w := files.NewWorker(nil)
	d.set(func() { d.broken = errors.New("no space left on device") })
	log(w, logs, "lost", 2)
	w.Flush()
	flush(t, files)
	d.set(func() { d.broken = nil })
	log(w, logs, "kept", 1)
	w.Flush()
	flush(t, files)
	if got := d.text("/a", 0); got != "kept 0\n" || c.get(accesslog.WriteFailed) != 1 || c.get(accesslog.WriteCompleted) != 1 {
		t.Errorf("wrote %q, failed %d, completed %d", got, c.get(accesslog.WriteFailed), c.get(accesslog.WriteCompleted))
	}
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := disk{gate: gate}
		var c counts
		files := accesslog.NewFiles(accesslog.Options{OpenFile: d.open, Counts: &c})
		logs := build(t, files, toFile("/a", "%REQ(x-n)%\n"))
		w := files.NewWorker(nil)
		log(w, logs, "a", 1)
		w.Flush()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := files.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close of a stalled disk: %v", err)
		}
		close(gate)
		synctest.Wait()
		if got := d.text("/a", 0); got != "a 0\n" || !d.opened["/a"][0].closed {
			t.Errorf("wrote %q", got)
		}
		log(w, logs, "late", 1)
		w.Flush()
		if c.get(accesslog.Dropped) != 1 {
			t.Error("a line after Close is not counted as dropped")
		}
		if _, err := files.Open("/b"); err == nil {
			t.Error("a file opens after Close")
		}
	})
}

// Proves AL-05: the standard streams are written and never closed, by whatever
// name they go.
func TestStandardStreams(t *testing.T) {
	var out, errs bytes.Buffer
	files := closing(t, accesslog.Options{Stdout: &out, Stderr: &errs})
	logs := build(t, files,
		`{"name":"o","typed_config":{"@type":"`+streamURL+`StdoutAccessLog","log_format":{"text_format_source":{"inline_string":"out\n"}}}}`,
		`{"name":"e","typed_config":{"@type":"`+streamURL+`StderrAccessLog","log_format":{"json_format":{"code":"%RESPONSE_CODE%"}}}}`,
		toFile("/dev/stdout", "file\n"))
	w := files.NewWorker(nil)
	log(w, logs, "", 1)
	w.Flush()
	files.Reopen()
	flush(t, files)
	if out.String() != "out\nfile\n" || errs.String() != "{\"code\":200}\n" {
		t.Errorf("stdout %q, stderr %q", &out, &errs)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	files := closing(t, accesslog.Options{})
	for path, want := range map[string]string{
		filepath.Join(dir, "no", "x"): "No such file or directory", dir: "Is a directory",
	} {
		_, err := files.Open(path)
		if err == nil || err.Error() != "unable to open file '"+path+"': "+want {
			t.Errorf("%s: %v", path, err)
		}
	}
	a, err := files.Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := files.Open(filepath.Join(dir, "a")); b != a || err != nil || a.Path() != filepath.Join(dir, "a") {
		t.Errorf("the same path gives another file, %v", err)
	}
}
