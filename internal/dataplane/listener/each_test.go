package listener

import "testing"

// Whatever connections close, and open, while the worker goes through them, each
// that was there and still is has its turn.
func TestEachConnectionHasItsTurn(t *testing.T) {
	const n = 5
	for closing := range 1 << n {
		w := &Worker{}
		var conns [n]*Connection
		for i := range conns {
			conns[i] = &Connection{}
			w.enlist(conns[i])
		}
		seen := map[*Connection]bool{}
		closed := map[*Connection]bool{}
		for c := range w.each() {
			if closed[c] {
				t.Fatalf("closing %b: a closed connection had a turn", closing)
			}
			if len(seen) == 0 { // the first one's turn closes some, perhaps itself
				for i, other := range conns {
					if closing&(1<<i) != 0 {
						closed[other] = true
						w.delist(other)
					}
				}
				w.enlist(&Connection{})
			}
			seen[c] = true
		}
		for i, c := range conns {
			if !seen[c] && !closed[c] {
				t.Errorf("closing %b: connection %d had no turn", closing, i)
			}
		}
		if open := n - len(closed) + 1; w.Open() != open {
			t.Errorf("closing %b: %d are open, want %d", closing, w.Open(), open)
		}
	}
}
