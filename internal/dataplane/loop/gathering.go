package loop

import "unsafe"

// gathering is a loop's while it hands over what was received of several connections.
// All of that stays where it is until the last has its part, and what AfterAll was given
// has run. So whoever is told something can put a part of its work off, and do it for
// all connections in a row: the code for that is in the core's cache then.
type gathering struct {
	gathers bool
	after   []func()
	plain   []byte // for decrypted bytes
	used    int    // of plain, by what is to stay
}

// Gathers reports whether received bytes stay as they are until what AfterAll is given
// has run. It is not so for bytes that a filter has made, nor for what comes alone.
func (l *Loop) Gathers(data []byte) bool {
	return l.gathers && len(data) > 0 && (within(l.scratch, data) || within(l.plain, data))
}

// within reports whether a slice begins in an array.
func within(array, data []byte) bool {
	if len(array) == 0 {
		return false
	}
	first, at := uintptr(unsafe.Pointer(&array[0])), uintptr(unsafe.Pointer(&data[0]))
	return at >= first && at < first+uintptr(len(array))
}

// AfterAll runs f when everything that was received was handed over. To be called while
// Gathers reports true.
func (l *Loop) AfterAll(f func()) { l.after = append(l.after, f) }

// gather begins the handing over of what some connections have received.
func (l *Loop) gather(connections int) { l.gathers = connections > 1 }

// gathered ends it.
func (l *Loop) gathered() {
	l.gathers = false
	l.runAfter()
}

func (l *Loop) runAfter() {
	for i := 0; i < len(l.after); i++ { // these may bring more
		f := l.after[i]
		l.after[i] = nil
		f()
	}
	l.after, l.used = l.after[:0], 0
}

// plainRoom is where decrypted bytes go.
func (l *Loop) plainRoom() []byte {
	if l.plain == nil {
		l.plain = make([]byte, scratchSize)
	}
	if scratchSize-l.used < leastPlain {
		l.runAfter()
	}
	return l.plain[l.used:]
}

// leastPlain is how much room there is at least: little would make many parts of what
// comes at once.
const leastPlain = 64 << 10

// keepPlain says that the first n bytes of it are handed over.
func (l *Loop) keepPlain(n int) {
	if l.gathers {
		l.used += n
	}
}
