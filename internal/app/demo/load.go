package demo

import (
	"context"
	"fmt"
	"sync"
)

// load is one request after another.
type load struct {
	end    context.CancelFunc
	wg     sync.WaitGroup
	done   chan struct{} // gets one for each request, if somebody waits
	sent   int
	failed []string
}

func startLoad(ctx context.Context, greet func(context.Context) (string, error)) *load {
	ctx, end := context.WithCancel(ctx)
	l := &load{end: end, done: make(chan struct{})}
	l.wg.Go(func() {
		for ctx.Err() == nil {
			_, err := greet(ctx)
			if ctx.Err() != nil {
				return // it was cut off
			}
			if l.sent++; err != nil {
				l.failed = append(l.failed, err.Error())
			}
			select {
			case l.done <- struct{}{}:
			default:
			}
		}
	})
	return l
}

// more waits until some more requests have been answered, at least n.
func (l *load) more(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for range n {
		select {
		case <-l.done:
		case <-ctx.Done():
			return fmt.Errorf("requests are not answered: %w", ctx.Err())
		}
	}
	return nil
}

// stop ends the load and tells what became of it. It may be called twice.
func (l *load) stop() (sent int, failed []string) {
	l.end()
	l.wg.Wait()
	return l.sent, l.failed
}
