package xdsclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Fetch reads resources once (GC-75): it watches them until each has come, or is
// known not to exist, or cannot be had, and then no longer. The map holds what
// came, by name; the error joins an [*Error] for each name that did not.
// [Wildcard], or a glob collection, reads everything of it that the server's first
// response holds, a list collection each of its members. A server that cannot be reached is an error at once; ctx bounds the
// wait for one that does not answer.
//
// What other watches have cached is returned without asking the server.
func Fetch[T any](ctx context.Context, s *Source, t Type[T], names ...string) (map[string]T, error) {
	f := &fetching[T]{pending: map[string]bool{}, found: map[string]T{}, errs: map[string]error{}, done: make(chan struct{})}
	for _, name := range names {
		f.pending[name] = true
	}
	if len(f.pending) == 0 {
		return f.found, nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		cancel := Watch(s, t, name, Watcher[T](&fetchWatcher[T]{f: f, name: name}))
		defer cancel()
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return f.result(fmt.Errorf("fetching: %w", context.Cause(ctx)))
	case <-s.ctx.Done():
		return f.result(errors.New("fetching: the source has been closed"))
	}
	return f.result(nil)
}

// fetching is what a Fetch waits for.
type fetching[T any] struct {
	mu      sync.Mutex
	pending map[string]bool
	found   map[string]T
	errs    map[string]error
	done    chan struct{}
}

func (f *fetching[T]) result(err error) (map[string]T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []error
	for _, name := range slices.Sorted(maps.Keys(f.errs)) {
		all = append(all, f.errs[name])
	}
	found := f.found
	f.found = nil // a late callback finds nothing to write to
	return found, errors.Join(append(all, err)...)
}

// settle ends the wait for a watch.
func (f *fetching[T]) settle(watch string) {
	if !f.pending[watch] {
		return
	}
	delete(f.pending, watch)
	if len(f.pending) == 0 {
		close(f.done)
	}
}

// fetchWatcher is the watch of one name of a Fetch.
type fetchWatcher[T any] struct {
	f    *fetching[T]
	name string
}

func (w *fetchWatcher[T]) OnChange(u Update[T]) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.f.found == nil {
		return
	}
	if manyNamed(w.name) {
		w.f.found[u.Name] = u.Value
		return
	}
	w.f.found[w.name] = u.Value
	delete(w.f.errs, w.name)
	w.f.settle(w.name)
}

func (w *fetchWatcher[T]) OnError(name string, err error) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.f.found == nil {
		return
	}
	w.f.errs[name] = err
	if name == w.name {
		w.f.settle(w.name)
	}
}

func (w *fetchWatcher[T]) OnAmbientError(string, error) {}

// OnSettled ends the wait for a list collection.
func (w *fetchWatcher[T]) OnSettled() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if !collectionName(w.name) { // of that, not all may have been held
		w.f.settle(w.name)
	}
}

// OnResponse ends the wait for a collection.
func (w *fetchWatcher[T]) OnResponse(Response) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if collectionName(w.name) {
		w.f.settle(w.name)
	}
}
