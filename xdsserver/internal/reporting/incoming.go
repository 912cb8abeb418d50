package reporting

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/status"
)

// Incoming is what a client sends on one stream. It belongs to the goroutine
// that serves the stream.
type Incoming[M any] struct {
	ctx      context.Context //nolint:containedctx // Both belong to one stream.
	gate     *Gate
	messages <-chan received[M]
}

type received[M any] struct {
	message *M
	err     error
}

// Receiver is the receiving side of a stream that gRPC serves.
type Receiver[M any] interface {
	Context() context.Context
	Recv() (*M, error)
}

// Receive begins to read a stream, in a goroutine that ends with the stream.
func Receive[M any](stream Receiver[M], gate *Gate) *Incoming[M] {
	messages := make(chan received[M])
	go func() {
		for {
			m, err := stream.Recv()
			select {
			case messages <- received[M]{m, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return &Incoming[M]{stream.Context(), gate, messages}
}

// First waits for the first message. If the stream ends before, it returns
// false and the stream's status, which is nil if the client closed its side.
func (in *Incoming[M]) First() (*M, bool, error) {
	select {
	case r := <-in.messages:
		return r.message, r.err == nil, ended(r.err)
	case <-in.gate.closed:
		return nil, false, in.gate.errClosed()
	case <-in.ctx.Done():
		return nil, false, ended(in.ctx.Err())
	}
}

// Serve runs the stream to its end and returns its status. It calls tell to
// have the client told what to report, first of all and whenever the channel
// that tell returned last is closed, and take with every further message; an
// error from either ends the stream.
func (in *Incoming[M]) Serve(tell func() (changed <-chan struct{}, err error), take func(*M) error) error {
	changed, err := tell()
	for err == nil {
		select {
		case r := <-in.messages:
			if r.err != nil {
				return ended(r.err)
			}
			err = take(r.message)
		case <-changed:
			changed, err = tell()
		case <-in.gate.closed:
			return in.gate.errClosed()
		case <-in.ctx.Done():
			return ended(in.ctx.Err())
		}
	}
	return err
}

// ended is the status for a stream that cannot be read further.
func ended(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return err
}
