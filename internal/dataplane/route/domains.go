package route

import "hash/maphash"

// domains leads from names to virtual hosts. A copy shares with its original all
// that does not change in either: a change of one name among thousands costs a
// list of pointers, not a map of them all.
type domains struct {
	seed maphash.Seed
	// lists are a power of two of lists, by the hashes of their names; the nodes
	// do not change.
	lists []*domain
	n     int
	// shared says that lists is another one's as well.
	shared bool
}

// domain is one name, and those of the same list.
type domain struct {
	name string
	vh   *virtualHost
	next *domain
}

// domainsPerList is how many names a list may have on the average.
const domainsPerList = 2

// newDomains makes room for n names.
func newDomains(n int) domains {
	size := 1
	for size*domainsPerList < n {
		size *= 2
	}
	return domains{seed: maphash.MakeSeed(), lists: make([]*domain, size)}
}

// copy is what may be changed without a change of d.
func (d *domains) copy() domains {
	out := *d
	out.shared = true
	return out
}

// find is the virtual host of a name, or nil.
func (d *domains) find(name []byte) *virtualHost {
	if d.n == 0 {
		return nil
	}
	for e := d.lists[maphash.Bytes(d.seed, name)&uint64(len(d.lists)-1)]; e != nil; e = e.next {
		if e.name == string(name) {
			return e.vh
		}
	}
	return nil
}

func (d *domains) list(name string) **domain {
	return &d.lists[maphash.String(d.seed, name)&uint64(len(d.lists)-1)]
}

// add adds a name; false if it is there.
func (d *domains) add(name string, vh *virtualHost) bool {
	if d.lists == nil {
		*d = newDomains(1)
	}
	for e := *d.list(name); e != nil; e = e.next {
		if e.name == name {
			return false
		}
	}
	if d.n++; d.n > 2*domainsPerList*len(d.lists) {
		d.grow()
	}
	d.own()
	at := d.list(name)
	*at = &domain{name, vh, *at}
	return true
}

// remove takes a name away if it is a virtual host's.
func (d *domains) remove(name string, vh *virtualHost) {
	if d.n == 0 {
		return
	}
	for e := *d.list(name); e != nil; e = e.next {
		if e.name != name {
			continue
		}
		if e.vh == vh {
			d.own()
			at := d.list(name)
			*at = (*at).without(e)
			d.n--
		}
		return
	}
}

// without is a list without one of its elements.
func (e *domain) without(gone *domain) *domain {
	if e == gone {
		return e.next
	}
	return &domain{e.name, e.vh, e.next.without(gone)}
}

// own makes the lists the map's own.
func (d *domains) own() {
	if d.shared {
		d.lists, d.shared = append([]*domain(nil), d.lists...), false
	}
}

// grow makes four times as many lists.
func (d *domains) grow() {
	before := d.lists
	d.lists, d.shared = make([]*domain, 4*len(before)), false
	for _, e := range before {
		for ; e != nil; e = e.next {
			at := d.list(e.name)
			*at = &domain{e.name, e.vh, *at}
		}
	}
}
