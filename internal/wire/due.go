package wire

import (
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// owed is one resource whose state at the client differs from the snapshot,
// or that has to be sent for another reason.
type owed struct {
	name string
	// held is what the client was last sent and did not refuse, nil for nothing.
	held *xds.Resource
	// refusal is the NACK of the last content sent, if there was one; that
	// content is not sent again unasked (XS-19). Whatever else the snapshot has is
	// sent then, even what equals held, for that is no longer certain.
	refusal *refusal
	// seq is the event that made it due, last the newest that changed it since.
	seq, last uint64
	// since is when the last round found it waiting for an ACK in its present
	// form; zero if it does not wait.
	since time.Time
	// blocked is what the last round that looked at it found.
	blocked verdict
	// force sends it though the client holds it; asked says that the client
	// waits for an answer, so that no order applies (XS-71) and a missing
	// resource is reported (XS-56).
	force, asked bool
	// first says that the first request of a delta sub-stream named it, so that
	// the versions given there count.
	first bool
	// former says that the client holds some version of it from a former stream.
	former bool
	// ordered says that the change came with clusters, listeners or routes being
	// added or removed (XS-73).
	ordered bool
	// retained says that held was never sent yet, see [assembly.retained].
	retained bool
	// leaving says that no name leads to the virtual host any more, though the
	// client still has the names that did.
	leaving bool
	// undecided says that the last round found it not known whether there is one.
	undecided bool
	gone      bool // dropped from the list
}

// touch notes that an event changed what is owed; a wait begins anew.
func (o *owed) touch(seq uint64) {
	o.last, o.since, o.blocked = seq, time.Time{}, ready
}

// mayHold is a content that the client may hold; nil if it holds nothing.
func (o *owed) mayHold() *xds.Resource {
	if o.held != nil || o.refusal == nil {
		return o.held
	}
	return o.refusal.some()
}

// mayBeFormer reports whether the client may hold a version from a former stream.
func (o *owed) mayBeFormer() bool { return o.former || o.refusal != nil && o.refusal.former }

// mayLack reports whether the client may hold nothing of the resource.
func (o *owed) mayLack() bool {
	return !o.mayBeFormer() && (o.held == nil || o.refusal != nil && o.refusal.mayLack())
}

// dueList is an insertion-ordered set of owed resources. Its index is made when
// a large list is first searched, which sending a first state does not do.
type dueList struct {
	list  []owed
	index map[string]int
	live  int
}

const indexAbove = 12

func (d *dueList) len() int { return d.live }

func (d *dueList) find(name string) *owed {
	if d.index == nil && len(d.list) > indexAbove {
		d.reindex()
	}
	if d.index != nil {
		if i, ok := d.index[name]; ok {
			return &d.list[i]
		}
		return nil
	}
	for i := range d.list {
		if !d.list[i].gone && d.list[i].name == name {
			return &d.list[i]
		}
	}
	return nil
}

// add appends an entry for a name that find does not know. It must not be
// called from each.
func (d *dueList) add(o owed) *owed {
	d.compact()
	d.list = append(d.list, o)
	d.live++
	if d.index != nil {
		d.index[o.name] = len(d.list) - 1
	}
	return &d.list[len(d.list)-1]
}

func (d *dueList) grow(n int) {
	if n > indexAbove && d.list == nil {
		d.list = make([]owed, 0, n)
	}
}

func (d *dueList) reindex() {
	d.index = make(map[string]int, len(d.list))
	for i := range d.list {
		if !d.list[i].gone {
			d.index[d.list[i].name] = i
		}
	}
}

func (d *dueList) drop(o *owed) {
	if o.gone {
		return
	}
	o.gone = true
	d.live--
	if d.index != nil {
		delete(d.index, o.name)
	}
	if d.live == 0 {
		*d = dueList{}
	}
}

func (d *dueList) dropName(name string) {
	if o := d.find(name); o != nil {
		d.drop(o)
	}
}

// rename gives an entry another name, which no entry bears.
func (d *dueList) rename(o *owed, name string) {
	if d.index != nil {
		d.index[name] = d.index[o.name]
		delete(d.index, o.name)
	}
	o.name = name
}

// each visits the entries in order; visit may drop entries.
func (d *dueList) each(visit func(*owed) bool) {
	list := d.list
	for i := range list {
		if !list[i].gone && !visit(&list[i]) {
			break
		}
	}
	d.compact()
}

// compact gives up the room of dropped entries once they are the most.
func (d *dueList) compact() {
	if len(d.list) < 2*d.live || len(d.list) <= indexAbove {
		return
	}
	keep := d.list[:0]
	for _, o := range d.list {
		if !o.gone {
			keep = append(keep, o)
		}
	}
	clear(d.list[len(keep):])
	d.list = keep
	d.index = nil
}
