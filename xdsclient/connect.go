package xdsclient

import (
	"context"
	"fmt"

	"github.com/xebec-proxy/xebec/internal/wire/client"
)

// prompt is a stream that can take requests from whoever has them, which saves
// waking the goroutine that writes. It is not called while Send is.
type prompt interface {
	// trySend is Send if it need not wait at all; otherwise false.
	trySend(r *client.Request) bool
}

// connection is one attempt at a stream. It has two goroutines: one opens it
// and then reads, one writes.
type connection struct {
	s       *Source
	l       *link
	attempt uint64
	cancel  context.CancelFunc
	opening Opening
}

// event is something that matters as long as the attempt is the link's.
func (c *connection) event(do func()) func() {
	return func() {
		if c.l.attempt == c.attempt {
			do()
		}
	}
}

func (c *connection) run(ctx context.Context, t Transport) {
	defer c.s.streams.Done()
	defer c.cancel()
	err := c.serve(ctx, t)
	c.s.post(c.event(func() { c.l.ended(err) }))
}

// serve reads until the stream ends. The next message is read when the
// watchers of the one before have returned (GC-56).
func (c *connection) serve(ctx context.Context, t Transport) error {
	st, err := t.Open(ctx, c.opening)
	if err != nil {
		return fmt.Errorf("opening a stream: %w", err)
	}
	out := make(chan []*client.Request, 1)
	written := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go c.write(ctx, st, out, written)
	defer func() {
		cancel()
		c.cancel() // a Send that waits has to end too
		<-written
	}()
	now, _ := st.(prompt)
	c.s.post(c.event(func() { c.l.established(out, now) }))
	for {
		r, err := st.Recv()
		if err != nil {
			return fmt.Errorf("reading from the stream: %w", err)
		}
		var room chan struct{}
		c.s.deliver(c.event(func() { room = c.l.received(r) }))
		if room != nil {
			select {
			case <-room:
			case <-ctx.Done():
			}
		}
	}
}

// write sends what it is given. A failure shows where the stream is read.
func (c *connection) write(ctx context.Context, st Stream, out <-chan []*client.Request, done chan<- struct{}) {
	defer close(done)
	for {
		select {
		case <-ctx.Done():
			return
		case batch := <-out:
			for _, r := range batch {
				if err := st.Send(r); err != nil {
					return
				}
			}
			c.s.post(c.event(c.l.written))
		}
	}
}
