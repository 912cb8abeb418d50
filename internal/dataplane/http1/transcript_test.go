package http1

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
)

// wire is one end of a connection in a test: what it is told, and a transcript
// of what its decoder makes of that.
type wire struct {
	d       Decoder
	h       header.Map
	pending []byte
	data    []byte
	out     strings.Builder
	stopped bool
}

func newWire(role Role, o *Options, method string, upgrade bool) *wire {
	w := &wire{}
	w.d.Init(role, o)
	if role == Client {
		w.d.ExpectResponseTo(method, upgrade)
	}
	return w
}

// feed gives a piece of input. Each buffer is spoiled after use, so that what
// the decoder kept of it would show.
func (w *wire) feed(piece []byte) {
	w.pending = append(bytes.Clone(w.pending), piece...)
	for !w.stopped {
		buf := bytes.Clone(w.pending)
		ev, n, data, end, err := w.d.Next(buf, &w.h)
		w.pending = w.pending[n:]
		if ev == Data {
			w.data = append(w.data, data...)
		}
		for i := range buf {
			buf[i] = '?'
		}
		if err != nil {
			w.fail(err)
			return
		}
		w.event(ev, end)
		if ev == NeedMore {
			return
		}
	}
}

func (w *wire) event(ev Event, end bool) {
	if ev != Data && ev != NeedMore {
		w.flush()
	}
	switch ev {
	case Headers:
		fmt.Fprintf(&w.out, "headers %s\n%s", w.d.Version(), w.h.String())
		w.h.Reset()
	case Informational:
		fmt.Fprintf(&w.out, "informational\n%s", w.h.String())
		w.h.Reset()
	case Trailers:
		fmt.Fprintf(&w.out, "trailers\n%s", w.h.String())
		w.h.Reset()
	}
	if end {
		w.flush()
		fmt.Fprintf(&w.out, "end keep=%t\n", w.d.KeepAlive())
	}
}

func (w *wire) flush() {
	if len(w.data) > 0 {
		fmt.Fprintf(&w.out, "data %q\n", w.data)
		w.data = w.data[:0]
	}
}

func (w *wire) fail(err error) {
	w.flush()
	var e *Error
	if !errors.As(err, &e) {
		panic(err)
	}
	fmt.Fprintf(&w.out, "error %d %s: %s\n", e.Status, e.Details, e.Reason)
	w.stopped = true
}

// eof ends the input and returns the transcript.
func (w *wire) eof() string {
	if !w.stopped {
		if err := w.d.EOF(); err != nil {
			w.fail(err)
		} else if ev, _, _, end, _ := w.d.Next(nil, &w.h); ev == End {
			w.event(ev, end)
		}
	}
	w.flush()
	return w.out.String()
}

// cuts are ways to cut an input into pieces: whole, byte by byte, and in two at
// every place.
func cuts(in []byte, yield func(pieces ...[]byte) bool) {
	single := make([][]byte, len(in))
	for i := range in {
		single[i] = in[i : i+1]
	}
	if !yield(single...) {
		return
	}
	for i := 1; i < len(in); i++ {
		if !yield(in[:i], in[i:]) {
			return
		}
	}
}

type setup struct {
	role    Role
	o       Options
	method  string
	upgrade bool
}

func (s *setup) run(pieces ...[]byte) string {
	w := newWire(s.role, &s.o, s.method, s.upgrade)
	for _, p := range pieces {
		w.feed(p)
	}
	return w.eof()
}

// runAll runs an input whole, and reports the first way to cut it that gives
// another transcript.
func (s *setup) runAll(in []byte) (string, error) {
	want := s.run(in)
	var err error
	cuts(in, func(pieces ...[]byte) bool {
		if got := s.run(pieces...); got != want {
			err = fmt.Errorf("cut as %q the events are\n%s\ninstead of\n%s", pieces, got, want)
		}
		return err == nil
	})
	return want, err
}
