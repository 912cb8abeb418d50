package accesslog

import "time"

// Worker is what one worker has not handed over yet. It is worker-confined.
type Worker struct {
	files   *Files
	buffers []*buffer // by File.index
	dirty   []*buffer // those with lines
	arm     func(after time.Duration)
	armed   bool
}

// buffer gathers lines for a file.
type buffer struct {
	file  *File
	b     []byte
	lines int
	dirty bool
}

// NewWorker makes the buffers of a worker. arm, if not nil, is called when
// lines begin to gather: after that time the loop calls Flush, once. A loop may
// call Flush earlier and as often as it likes, such as before it goes to sleep
// for long or ends.
func (f *Files) NewWorker(arm func(after time.Duration)) *Worker {
	return &Worker{files: f, arm: arm}
}

// Interval is how long a line may wait until Flush.
func (w *Worker) Interval() time.Duration { return w.files.o.FlushInterval }

// Due reports whether anything waits for Flush.
func (w *Worker) Due() bool { return len(w.dirty) > 0 }

// Flush hands everything to the writers. It does not block.
func (w *Worker) Flush() {
	w.armed = false
	for i, b := range w.dirty {
		w.dirty[i] = nil
		b.dirty = false
		if b.lines > 0 {
			b.hand(true)
		}
	}
	w.dirty = w.dirty[:0]
}

func (b *buffer) hand(byTimer bool) {
	b.b = b.file.hand(chunk{b.b, b.lines, byTimer})
	b.lines = 0
}

// buffer is the buffer of a file.
func (w *Worker) buffer(f *File) *buffer {
	if f.index < len(w.buffers) {
		if b := w.buffers[f.index]; b != nil {
			return b
		}
	} else {
		w.buffers = append(w.buffers, make([]*buffer, f.index+1-len(w.buffers))...)
	}
	b := &buffer{file: f}
	w.buffers[f.index] = b
	return b
}

// added takes note of a line that was appended to a buffer.
func (w *Worker) added(b *buffer) {
	b.lines++
	if !b.dirty {
		b.dirty = true
		w.dirty = append(w.dirty, b)
	}
	if len(b.b) >= w.files.o.FlushSize {
		b.hand(false)
		return
	}
	if !w.armed && w.arm != nil {
		w.armed = true
		w.arm(w.files.o.FlushInterval)
	}
}
