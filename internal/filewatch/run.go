package filewatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	settle = 50 * time.Millisecond // after a move, for others that belong to it
	rescan = 5 * time.Second       // between looks at what was not announced
)

// Run calls look whenever something comes by wake, or something was moved to where
// the last look needed something; until ctx ends. look notes what it is going
// to read before it does so. Until wake comes nothing is watched. What the system
// does not announce is noticed within 5 s. Moves that come together are one.
func Run(ctx context.Context, wake <-chan struct{}, log *slog.Logger, look func() *Needs) {
	select {
	case <-ctx.Done():
		return
	case <-wake:
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("changes of files will be noticed late", "error", err)
		fs = nil
	} else {
		defer func() { _ = fs.Close() }()
	}
	w := New(fs, true)
	due := time.NewTimer(0)
	defer due.Stop()
	ticker := time.NewTicker(rescan)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			due.Reset(0)
		case e := <-w.Events():
			if w.Meaning(e) == Moved {
				due.Reset(settle)
			}
		case err := <-w.Errors():
			log.Debug("notifications were lost", "error", err)
			due.Reset(settle)
		case <-ticker.C:
			if w.Changed() {
				due.Reset(settle)
			}
		case <-due.C:
			if w.Follow(look()) {
				due.Reset(settle) // something may have happened before it was watched
			}
		}
	}
}
