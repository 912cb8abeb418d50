package client

import (
	"fmt"
	"slices"
	"unsafe"
)

// EntrySize is the memory of one resource beside its name, version and body.
const EntrySize = int(unsafe.Sizeof(entry{}))

// Verify checks what must hold of a channel at any time.
func (c *Channel) Verify() error {
	timed := 0
	for i, e := range c.timers {
		if int(e.slot) != i+1 || i > 0 && c.timers[(i-1)/2].due > e.due {
			return fmt.Errorf("timer %d of %q is out of place", i, e.name)
		}
		if e.sub.names[e.name] != e || c.subs[e.sub.typ.URL] != e.sub {
			return fmt.Errorf("a timer for %q, which is gone", e.name)
		}
	}
	for _, x := range c.order {
		n, err := x.verify()
		if err != nil {
			return fmt.Errorf("%s: %w", x.typ.URL, err)
		}
		timed += n
	}
	if timed != len(c.timers) || len(c.order) != len(c.subs) {
		return fmt.Errorf("%d timers for %d entries, %d types of %d", len(c.timers), timed, len(c.order), len(c.subs))
	}
	return nil
}

func (x *sub) verify() (timed int, err error) {
	var wanted, present, changes int
	for name, e := range x.names {
		if e.name != name || e.sub != x {
			return 0, fmt.Errorf("%q is filed as %q", e.name, name)
		}
		count(&wanted, e.wanted)
		count(&present, e.received)
		count(&changes, x.pending(e))
		count(&timed, e.slot != 0)
		switch {
		case x.pending(e) && !slices.Contains(x.dirty, e):
			return 0, fmt.Errorf("%q is pending, but not queued", name)
		case e.queued && !slices.Contains(x.dirty, e):
			return 0, fmt.Errorf("%q is not queued", name)
		case !e.wanted && !x.told(e) && !x.ch.loose && x.opened && !x.covered(name, e.aliases()):
			return 0, fmt.Errorf("%q is kept for nothing", name)
		case !e.held && (e.body != nil || e.version != "" || len(e.aliases()) > 0 && e.failure() == nil):
			return 0, fmt.Errorf("%q is not held, but %+v", name, *e)
		}
	}
	if wanted != x.wanted || present != x.present || changes != x.changes {
		return 0, fmt.Errorf("counts %d %d %d, but there are %d wanted, %d present, %d changes",
			x.wanted, x.present, x.changes, wanted, present, changes)
	}
	for a, e := range x.links {
		if !slices.Contains(e.aliases(), a) || x.names[e.name] != e {
			return 0, fmt.Errorf("alias %q leads to %q, which does not have it", a, e.name)
		}
	}
	for name := range x.globs {
		if x.names[name] == nil {
			return 0, fmt.Errorf("collection %q is gone", name)
		}
	}
	return timed, nil
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

// Names is how many names a channel knows.
func (c *Channel) Names() int {
	n := 0
	for _, x := range c.order {
		n += len(x.names) + len(x.links)
	}
	return n
}

// Unpredict makes the next response one that is looked up name by name.
func (c *Channel) Unpredict() {
	for _, x := range c.order {
		x.first = nil
		for _, e := range x.names {
			e.next = nil
		}
	}
}
