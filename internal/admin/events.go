package admin

import (
	"sync"
	"time"
)

// keptEvents is how many events are remembered.
const keptEvents = 500

// Events remembers the last things that happened. All methods are safe for
// concurrent use.
type Events struct {
	mu   sync.Mutex
	list []Event
	last uint64
}

// Event is one thing that happened.
type Event struct {
	ID   uint64    `json:"id"` // counts from 1
	Time time.Time `json:"time"`
	// Kind is a stable word: loaded, changed, refused, ready, certificates,
	// draining.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// NewEvents returns an empty memory.
func NewEvents() *Events { return &Events{} }

// Add remembers an event, and forgets the oldest if there are too many.
func (e *Events) Add(kind, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	if len(e.list) == keptEvents {
		copy(e.list, e.list[1:])
		e.list = e.list[:keptEvents-1]
	}
	e.list = append(e.list, Event{ID: e.last, Time: time.Now().UTC(), Kind: kind, Message: message})
}

// After returns the remembered events with an ID above id, oldest first.
func (e *Events) After(id uint64) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Event{}
	for _, ev := range e.list {
		if ev.ID > id {
			out = append(out, ev)
		}
	}
	return out
}
