package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how files are written. The zero value has Envoy's defaults.
type Options struct {
	// FlushInterval is how long a line may wait in a worker (--file-flush-
	// interval-msec); 10 s if 0.
	FlushInterval time.Duration
	// FlushSize is how many bytes a worker gathers (--file-flush-min-size-kb);
	// 64 KiB if 0.
	FlushSize int
	// MaxQueued is how many bytes may wait for one file's disk; 16 MiB if 0.
	MaxQueued int
	// Stdout and Stderr are what /dev/stdout and /dev/stderr stand for; the
	// process's if nil.
	Stdout, Stderr io.Writer
	// OpenFile opens a file to append to it, and makes it if need be; from the
	// operating system if nil.
	OpenFile func(path string) (io.WriteCloser, error)
	// Counts takes statistics; nowhere if nil.
	Counts Counts
	// Logger is told of disks that fail; nobody if nil.
	Logger *slog.Logger
}

// StdoutPath and StderrPath are the paths of the standard streams.
const (
	StdoutPath = "/dev/stdout"
	StderrPath = "/dev/stderr"
)

// Files are the access log files of a process. A file is opened once, however
// many logs write to it, and has one goroutine. Safe for concurrent use.
type Files struct {
	o     Options
	mu    sync.Mutex
	paths map[string]*File
	all   []*File
	ended bool
}

// NewFiles makes an empty set. It starts nothing: Open does, and Close ends it.
func NewFiles(o Options) *Files {
	if o.FlushInterval == 0 {
		o.FlushInterval = 10 * time.Second
	}
	if o.FlushSize == 0 {
		o.FlushSize = 64 << 10
	}
	if o.MaxQueued == 0 {
		o.MaxQueued = 16 << 20
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.OpenFile == nil {
		o.OpenFile = openFile
	}
	if o.Counts == nil {
		o.Counts = noCounts{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Files{o: o, paths: map[string]*File{}}
}

func openFile(path string) (io.WriteCloser, error) {
	const mode = 0o644
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, mode) //nolint:gosec // logs are for others to read, as Envoy's
}

// keepOpen is a standard stream, which nobody here may close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func (f *Files) open(path string) (io.WriteCloser, error) {
	switch path {
	case StdoutPath:
		return keepOpen{f.o.Stdout}, nil
	case StderrPath:
		return keepOpen{f.o.Stderr}, nil
	}
	return f.o.OpenFile(path)
}

var errClosed = errors.New("the access logs are closed")

// Open opens a file, or finds it if it is open. The error is Envoy's.
func (f *Files) Open(path string) (*File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.paths[path]; file != nil {
		return file, nil
	}
	if f.ended {
		return nil, errClosed
	}
	w, err := f.open(path)
	if err != nil {
		return nil, &openError{path, err}
	}
	file := newFile(f, path, len(f.all), w)
	f.paths[path] = file
	f.all = append(f.all, file)
	go file.run()
	return file, nil
}

// openError is a file that does not open, in Envoy's words.
type openError struct {
	path string
	err  error
}

func (e *openError) Error() string {
	text := e.err.Error()
	if errno, ok := errors.AsType[syscall.Errno](e.err); ok { // without the path, which is there already
		text = errno.Error()
	}
	return "unable to open file '" + e.path + "': " + strings.ToUpper(text[:1]) + text[1:]
}

func (e *openError) Unwrap() error { return e.err }

// Reopen makes every file be opened anew, after what is waiting was written:
// for SIGUSR1 and /reopen_logs, when files were moved away. It does not wait. A
// file that cannot be opened goes on as it is.
func (f *Files) Reopen() {
	for _, file := range f.list() {
		file.reopen()
	}
}

// Flush waits until everything that workers have handed over is written, or ctx
// is done. Workers flush before.
func (f *Files) Flush(ctx context.Context) error {
	for _, file := range f.list() {
		if err := file.wait(ctx); err != nil {
			return fmt.Errorf("flushing the access log %s: %w", file.path, err)
		}
	}
	return nil
}

// Close writes what is waiting, until ctx is done, and ends the goroutines.
// Lines that come later are dropped.
func (f *Files) Close(ctx context.Context) error {
	err := f.Flush(ctx)
	f.mu.Lock()
	f.ended = true
	files := f.all
	f.mu.Unlock()
	for _, file := range files {
		file.end()
	}
	for _, file := range files {
		select {
		case <-file.done:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("closing the access log %s: %w", file.path, ctx.Err()))
		}
	}
	return err
}

func (f *Files) list() []*File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clip(f.all)
}
