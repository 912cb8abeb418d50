package proxy

import (
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// teller hands on what the configuration refers to, in order and without the
// configuration's lock: the Discovery may answer at once. What listeners need
// waits until the clusters have begun.
type teller struct {
	mu    sync.Mutex
	to    Discovery
	queue []told
	// later is what waits for release; holding says that also secrets do.
	later             []told
	holding, released bool
	working           bool
	stopped           bool
}

type told struct {
	want      bool
	typ, name string
	source    *corev3.ConfigSource
}

func (t *teller) add(want bool, typ, name string, source *corev3.ConfigSource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := told{want, typ, name, source}
	switch {
	case t.stopped:
	case want && t.waits(typ):
		t.later = append(t.later, w)
	case !want && t.drop(told{true, typ, name, source}):
	default:
		t.queue = append(t.queue, w)
	}
}

// waits reports whether a want waits for release: it is of a kind that only
// listeners need, or of one of them.
func (t *teller) waits(typ string) bool {
	switch typ {
	case RouteType, ScopedRouteType, VirtualHostType, ExtensionType:
		return !t.released
	}
	return t.holding && typ == SecretType
}

// hold says that what is added is for a listener that has to wait, or not any more.
func (t *teller) hold(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = yes
}

// hurry hands a want on that waits, for somebody who does not, unless it is
// added by one who does.
func (t *teller) hurry(typ, name string, source *corev3.ConfigSource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := (told{true, typ, name, source}); !t.holding && t.drop(w) {
		t.queue = append(t.queue, w)
	}
}

// release hands on, with the next flush, what was held.
func (t *teller) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue, t.later, t.released = append(t.queue, t.later...), nil, true
}

// drop takes a want from those that wait; false if it is none of them.
func (t *teller) drop(w told) bool {
	i := slices.Index(t.later, w)
	if i >= 0 {
		t.later = slices.Delete(t.later, i, i+1)
	}
	return i >= 0
}

func (t *teller) start(to Discovery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = to
}

func (t *teller) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped, t.queue, t.later = true, nil, nil
}

func (t *teller) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working || t.to == nil {
		return
	}
	t.working = true
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue[0], t.queue = told{}, t.queue[1:] // not moved: there may be one for each of thousands of scopes
		t.mu.Unlock()
		if next.want {
			t.to.Want(next.typ, next.name, next.source)
		} else {
			t.to.Unwant(next.typ, next.name, next.source)
		}
		t.mu.Lock()
	}
	t.working, t.queue = false, nil
}
