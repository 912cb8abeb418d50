package client

import (
	"context"
	"fmt"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// Wave is something that every stream is to receive once: the first state, or
// one change.
type Wave struct {
	kind       resources.Kind
	index, gen int

	seen []bool // by stream
	want int
	done chan struct{}
	fail <-chan struct{}
	err  func() error

	// Arrivals is when each stream received it (clock.Now), in order, and
	// Resources how many resources of the kind the responses held that brought
	// it, in all. Read them after Wait.
	Arrivals  []int64
	Resources int
}

// arrive notes a stream's arrival; a repeated one does not count.
func (w *Wave) arrive(s *session, now int64, n int) {
	if w == nil || w.seen[s.conn.id] {
		return
	}
	w.seen[s.conn.id] = true
	w.Arrivals = append(w.Arrivals, now)
	w.Resources += n
	if len(w.Arrivals) == w.want {
		close(w.done)
	}
}

// Wait returns after every stream that is not stuck has received the wave.
func (w *Wave) Wait(ctx context.Context) error {
	select {
	case <-w.done:
		return nil
	case <-w.fail:
		return w.err()
	case <-ctx.Done():
		return fmt.Errorf("%w: not every one of the %d streams was served", ctx.Err(), w.want)
	}
}

// Counts is what the streams have received so far.
type Counts struct {
	// Bytes is what came over the sockets, Responses the xDS responses.
	Bytes, Responses int64
	// Resources counts the resources by kind.
	Resources [resources.Kinds]int64
	// Closed counts the connections that the server has closed.
	Closed int64
}

func (c *Counts) note(r *response) {
	c.Responses++
	for k, n := range r.resources {
		c.Resources[k] += int64(n)
	}
}

// Sub is the difference to an earlier count.
func (c Counts) Sub(o Counts) Counts {
	c.Bytes -= o.Bytes
	c.Responses -= o.Responses
	for k := range c.Resources {
		c.Resources[k] -= o.Resources[k]
	}
	c.Closed -= o.Closed
	return c
}
