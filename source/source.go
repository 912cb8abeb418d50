// Package source is the contract between a place where resources are kept (a
// directory, memory, a store) and whatever serves them.
package source

import (
	"context"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
)

// Sink takes what a source delivers. Apply makes the whole batch visible, or
// none of it and returns why. Calls do not overlap.
type Sink interface {
	Apply(snapshot.Batch) error
}

// Source delivers resources to a sink: a full batch first, then changes.
type Source interface {
	// Run delivers until the context ends, and returns after everything it
	// started has stopped. It returns an error only if it cannot go on.
	Run(ctx context.Context, sink Sink) error
	// Health is the source's present state; safe to call at any time.
	Health() Health
}

// Health is the state of a source.
type Health struct {
	// Loaded is true after the first full batch was accepted.
	Loaded bool
	// LastGood is when the last batch was accepted, LastAttempt when the source
	// last looked.
	LastGood, LastAttempt time.Time
	// Err is why the last attempt was not accepted whole; nil if it was.
	Err error
}
