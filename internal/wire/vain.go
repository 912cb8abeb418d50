package wire

import "slices"

// vain are the names of a VHDS subscription that led to nothing when they were
// looked at last, the oldest first. Most clients never give such names up.
type vain struct {
	set   map[string]struct{}
	queue []string // holds those of set, and some that have left it
}

func (v *vain) add(name string) {
	if _, in := v.set[name]; in {
		return
	}
	v.set[name] = struct{}{}
	v.queue = append(v.queue, name)
	if len(v.queue) > 2*len(v.set)+indexAbove {
		v.compact()
	}
}

func (v *vain) drop(name string) { delete(v.set, name) }

// compact takes out of the queue what has left the set, and of what is in it twice
// all but the newest.
func (v *vain) compact() {
	seen := make(map[string]struct{}, len(v.set))
	at := len(v.queue)
	for _, n := range slices.Backward(v.queue) {
		if _, in := v.set[n]; !in {
			continue
		}
		if _, twice := seen[n]; twice {
			continue
		}
		seen[n] = struct{}{}
		at--
		v.queue[at] = n
	}
	v.queue = append([]string(nil), v.queue[at:]...)
}

// pop takes the oldest out; "" if there is none.
func (v *vain) pop() string {
	for len(v.queue) > 0 {
		n := v.queue[0]
		v.queue[0] = ""
		v.queue = v.queue[1:]
		if _, in := v.set[n]; in {
			delete(v.set, n)
			return n
		}
	}
	return ""
}

// forgetVain gives up the oldest names asked for in vain that are too many, as if
// the client had unsubscribed. Its cost is theirs.
func (x *sub) forgetVain(out *Outcome) {
	if x.hosts == nil {
		return
	}
	v := &x.hosts.vain
	for n := len(v.set) - x.stream.cfg.MaxVain; n > 0; n-- {
		name := v.pop()
		switch t := x.hosts.table(name); {
		case x.due.find(name) != nil:
			v.add(name) // something is to be said of it yet
		case t != nil && t.of[name] != "", x.current(name) != nil:
			// It has come to lead to something.
		default:
			x.forgetName(name)
			out.Removed = append(out.Removed, name)
		}
	}
}

func (x *sub) forgetName(name string) {
	delete(x.names, name)
	delete(x.reported, name)
	x.dropHost(name)
	if f := x.rejected[name]; f != nil && !f.leaving {
		delete(x.rejected, name)
		if f.blamed {
			x.release(f.batch, x.stream.seq)
		}
	}
}

// maxNames is how many names the subscription may have, given the number of those
// in a request. Virtual hosts may be asked for in vain by as many as a client
// begins with, which are answered and forgotten.
func (x *sub) maxNames(opened bool, n int) int {
	if x.hosts == nil {
		return x.stream.cfg.MaxNames
	}
	if opened {
		x.hosts.restated = n
	}
	return x.stream.cfg.MaxNames + x.hosts.restated
}
