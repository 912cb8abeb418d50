package loop

// gathering is a loop's while it hands over what was received of several connections.
// Whoever is told something can put a part of its work off until the last has its part,
// and do it for all connections in a row: the code for that is in the core's cache then.
type gathering struct {
	gathers bool
	after   []func()
}

// Gathers reports whether what was received of several connections is handed over just
// now, so that AfterAll may be called.
func (l *Loop) Gathers() bool { return l.gathers }

// AfterAll runs f when everything that was received was handed over.
func (l *Loop) AfterAll(f func()) { l.after = append(l.after, f) }

// gather begins the handing over of what some connections have received.
func (l *Loop) gather(connections int) { l.gathers = connections > 1 }

// gathered ends it.
func (l *Loop) gathered() {
	l.gathers = false
	for i := 0; i < len(l.after); i++ { // these may bring more
		f := l.after[i]
		l.after[i] = nil
		f()
	}
	l.after = l.after[:0]
}
