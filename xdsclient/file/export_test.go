package file

import "time"

// Hasten makes a transport notice changes sooner, or, with a rescan, those that
// nothing announces.
func (t *Transport) Hasten(moved, written, rescan time.Duration) {
	t.delay = delays{moved, written, rescan}
}
