package accesslog

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// chunk is some whole lines.
type chunk struct {
	b       []byte
	lines   int
	byTimer bool
}

// keepChunks is how many empty buffers a file keeps for its workers.
const keepChunks = 32

// File is an open access log. Any goroutine may hand it chunks.
type File struct {
	path  string
	index int // among the files of the process
	files *Files
	wake  chan struct{} // holds one
	done  chan struct{}

	mu       sync.Mutex
	queue    []chunk
	queued   int // bytes in queue and in the writer's hands
	free     [][]byte
	again    bool // open anew
	ended    bool
	handed   uint64 // chunks ever queued
	finished uint64 // chunks done with
	waiters  []waiter

	// Of the goroutine alone.
	w      io.WriteCloser
	failed bool
}

// waiter waits until so many chunks are done with.
type waiter struct {
	upTo uint64
	ch   chan struct{}
}

func newFile(f *Files, path string, index int, w io.WriteCloser) *File {
	return &File{path: path, index: index, files: f, w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Path is the file's path.
func (f *File) Path() string { return f.path }

// hand gives the file a chunk and returns an empty buffer for the next one. If
// too much waits for the disk, the chunk is dropped.
func (f *File) hand(c chunk) []byte {
	n, counts := int64(len(c.b)), f.files.o.Counts
	counts.Add(WriteBuffered, int64(c.lines))
	f.mu.Lock()
	if f.ended || f.queued > 0 && f.queued+len(c.b) > f.files.o.MaxQueued {
		f.mu.Unlock()
		counts.Add(Dropped, int64(c.lines))
		return c.b[:0]
	}
	f.queue = append(f.queue, c)
	f.queued += len(c.b)
	f.handed++
	var next []byte
	if k := len(f.free); k > 0 {
		next, f.free = f.free[k-1], f.free[:k-1]
	}
	f.mu.Unlock()
	counts.Add(TotalBuffered, n)
	f.signal()
	return next
}

// Write hands the file whole lines, which are not kept. It does not block. It is for
// what is not a worker; the error is always nil.
func (f *File) Write(lines []byte) (int, error) {
	c := chunk{b: bytes.Clone(lines), lines: bytes.Count(lines, []byte{'\n'})}
	f.hand(c)
	return len(lines), nil
}

func (f *File) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *File) reopen() {
	f.mu.Lock()
	f.again = true
	f.mu.Unlock()
	f.signal()
}

func (f *File) end() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.signal()
}

// wait waits until what was handed over before is written, dropped or failed.
func (f *File) wait(ctx context.Context) error {
	f.mu.Lock()
	if f.finished == f.handed {
		f.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	f.waiters = append(f.waiters, waiter{f.handed, ch})
	f.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run writes until the file has ended and nothing waits.
func (f *File) run() {
	defer close(f.done)
	var batch []chunk
	for range f.wake {
		for {
			var again, ended bool
			batch, again, ended = f.take(batch)
			for _, c := range batch {
				f.write(c)
			}
			if again {
				f.openAgain()
			}
			if len(batch) > 0 {
				f.written(batch)
				continue
			}
			if ended {
				f.close()
				return
			}
			break
		}
	}
}

// take gets what is waiting, in exchange for an empty list.
func (f *File) take(old []chunk) (batch []chunk, again, ended bool) {
	clear(old)
	f.mu.Lock()
	defer f.mu.Unlock()
	batch, f.queue = f.queue, old[:0]
	again, f.again = f.again, false
	return batch, again, f.ended
}

func (f *File) write(c chunk) {
	counts := f.files.o.Counts
	if _, err := f.w.Write(c.b); err != nil {
		counts.Add(WriteFailed, 1)
		if !f.failed {
			f.failed = true
			f.files.o.Logger.Error("an access log cannot be written; lines are lost", "path", f.path, "error", err)
		}
		return
	}
	if f.failed {
		f.failed = false
		f.files.o.Logger.Info("the access log is written again", "path", f.path)
	}
	counts.Add(WriteCompleted, 1)
	if c.byTimer {
		counts.Add(FlushedByTimer, 1)
	}
}

// written gives buffers back and tells those who wait.
func (f *File) written(batch []chunk) {
	n := 0
	f.mu.Lock()
	for _, c := range batch {
		n += len(c.b)
		if len(f.free) < keepChunks && cap(c.b) <= 2*f.files.o.FlushSize {
			f.free = append(f.free, c.b[:0])
		}
	}
	f.queued -= n
	f.finished += uint64(len(batch))
	kept := f.waiters[:0]
	for _, w := range f.waiters {
		if w.upTo <= f.finished {
			close(w.ch)
		} else {
			kept = append(kept, w)
		}
	}
	f.waiters = kept
	f.mu.Unlock()
	f.files.o.Counts.Add(TotalBuffered, -int64(n))
}

func (f *File) openAgain() {
	w, err := f.files.open(f.path)
	if err != nil {
		f.files.o.Counts.Add(ReopenFailed, 1)
		f.files.o.Logger.Error("an access log cannot be opened again; writing goes on where it was", "path", f.path, "error", err)
		return
	}
	f.close()
	f.w = w
}

func (f *File) close() {
	if err := f.w.Close(); err != nil {
		f.files.o.Logger.Error("an access log does not close", "path", f.path, "error", err)
	}
}
