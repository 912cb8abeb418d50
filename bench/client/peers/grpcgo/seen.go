package main

import (
	"context"
	"fmt"
	"sync"
)

// seen counts values. It is safe for concurrent use.
type seen struct {
	mu      sync.Mutex
	values  int
	target  int
	reached chan struct{}
	err     error
}

func (s *seen) add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values++
	s.check()
}

func (s *seen) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.check()
}

func (s *seen) check() {
	if s.reached != nil && (s.err != nil || s.values >= s.target) {
		close(s.reached)
		s.reached = nil
	}
}

func (s *seen) count() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values, s.err
}

// wait waits until there have been so many values, or an error.
func (s *seen) wait(ctx context.Context, values int) error {
	s.mu.Lock()
	reached := make(chan struct{})
	s.reached, s.target = reached, values
	s.check()
	s.mu.Unlock()
	select {
	case <-reached:
		_, err := s.count()
		return err
	case <-ctx.Done():
		n, _ := s.count()
		return fmt.Errorf("%d of %d values: %w", n, values, ctx.Err())
	}
}
