package wire

import (
	"slices"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// settle takes the ACK or NACK of the i-th outstanding response.
func (x *sub) settle(now time.Time, i int, nacked *Status) Outcome {
	sent := x.out[i]
	x.out = slices.Delete(x.out, i, i+1)
	if nacked != nil {
		return Outcome{Answer: Nacked, Settled: sent, Rejected: x.refuse(now, sent, i, *nacked)}
	}
	for item := range sent.all() {
		if item.refusal != nil {
			x.release(item.refusal.batch, x.stream.seq) // it was not to blame after all
		}
	}
	x.status.acked(now, sent, len(x.rejected) == 0)
	return Outcome{Answer: Acked, Settled: sent}
}

// refuse notes a NACK. The resources that the client's message names are
// blamed, or all of the response if it names none.
func (x *sub) refuse(now time.Time, sent *Sent, i int, st Status) []Rejected {
	st.Message = strings.Clone(st.Message)
	n := &nack{nonce: sent.Nonce, version: sent.Version, status: st, time: now}
	list := make([]Rejected, 0, sent.Len())
	anyBlamed := false
	for item := range sent.all() {
		blamed := mentions(st.Message, item.name)
		anyBlamed = anyBlamed || blamed
		list = append(list, Rejected{Name: item.name, Resource: item.res, Blamed: blamed})
	}
	b := &batch{}
	k, superseded := 0, false
	for item := range sent.all() {
		f := &refusal{sent: item.res, before: item.before, kept: item.res, former: item.former, nack: n, batch: b, leaving: item.leaving}
		if list[k].Blamed {
			f.kept = item.keptBefore()
		}
		if item.res == nil && item.before == nil && item.refusal != nil {
			f.kept = item.refusal.some() // from a former stream, or applied by chance
		}
		list[k].Blamed = list[k].Blamed || !anyBlamed
		f.blamed = list[k].Blamed
		x.join(b, item)
		if x.refuseItem(item, f, i) {
			superseded = true
		}
		k++
	}
	if superseded {
		x.release(b, x.stream.seq)
	}
	x.status.nacked(now, n)
	return list
}

// keptBefore is what a client that applies the good part of what it refuses held
// before the item.
func (item *sentItem) keptBefore() *xds.Resource {
	if item.refusal != nil {
		return item.refusal.kept
	}
	return item.before
}

// join takes a refused resource into a batch, with what was refused together
// with it before.
func (x *sub) join(b *batch, item sentItem) {
	b.names = append(b.names, item.name)
	if item.refusal == nil {
		return
	}
	old := item.refusal.batch
	for _, name := range old.names {
		f := x.rejected[name]
		if o := x.due.find(name); o != nil {
			f = o.refusal
		}
		if f != nil && f.batch == old {
			f.batch = b
			b.names = append(b.names, name)
		}
	}
}

// refuseItem notes one resource of a refused response; from is the first
// response after it. It reports whether something else has taken the
// resource's place already.
func (x *sub) refuseItem(item sentItem, f *refusal, from int) bool {
	for _, later := range x.out[from:] {
		if res, ok := later.rebase(item, f); ok {
			return !res.Equal(item.res)
		}
	}
	if o := x.due.find(item.name); o != nil {
		if !o.held.Equal(item.res) {
			return true // what came after it has been answered
		}
		o.held, o.refusal, o.force = item.before, f, o.asked
		return !x.wanted(item.name).Equal(item.res)
	}
	if !f.leaving && !x.stillNamed(item.name, f.sent, f.before, f.kept) {
		return f.blamed // without it the rest may be good
	}
	if item.res == nil && x.populated(item.name) {
		return false // that a collection is empty, which it no longer is
	}
	if !x.wanted(item.name).Equal(item.res) {
		x.due.add(owed{name: item.name, held: item.before, refusal: f, seq: x.stream.seq, last: x.stream.seq})
		return true
	}
	x.reject(item.name, f)
	return false
}

// rebase finds a resource in the response and what it was sent as; the client
// held before that what it did before the refused one, and if it is the same
// once more, the answer to it decides.
func (x *Sent) rebase(item sentItem, f *refusal) (*xds.Resource, bool) {
	if i, ok := x.find(item.name); ok {
		it := &x.items[i]
		if it.before.Equal(item.res) {
			it.before = item.before
		}
		if it.res.Equal(item.res) {
			it.refusal = f
		}
		return it.res, true
	}
	if i, ok := x.inBulk(item.name); ok {
		return x.bulk[i], true
	}
	return nil, false
}

// find looks up an item by the name of its resource.
func (x *Sent) find(name string) (int, bool) {
	if len(x.items) <= indexAbove {
		i := slices.IndexFunc(x.items, func(it sentItem) bool { return it.name == name })
		return i, i >= 0
	}
	if x.index == nil {
		x.index = make(map[string]int, len(x.items))
		for i := range x.items {
			x.index[x.items[i].name] = i
		}
	}
	i, ok := x.index[name]
	return i, ok
}

func (x *Sent) inBulk(name string) (int, bool) {
	return slices.BinarySearchFunc(x.bulk, name, func(r *xds.Resource, n string) int {
		return strings.Compare(r.Name(), n)
	})
}

// all iterates over everything in the response.
func (x *Sent) all() func(yield func(sentItem) bool) {
	return func(yield func(sentItem) bool) {
		for _, item := range x.items {
			if !yield(item) {
				return
			}
		}
		for _, r := range x.bulk {
			if !yield(sentItem{name: r.Name(), res: r}) {
				return
			}
		}
	}
}

// introduces reports whether the response brings a resource that the client
// may not have held before.
func (x *Sent) introduces(name string) bool {
	if i, ok := x.find(name); ok {
		return x.items[i].introduces()
	}
	_, ok := x.inBulk(name)
	return ok
}

func (item *sentItem) introduces() bool {
	return item.res != nil && !item.former && (item.before == nil || item.refusal != nil && item.refusal.mayLack())
}

// mentions reports whether a message names a resource as a word of its own.
func mentions(message, name string) bool {
	for rest := message; name != ""; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		if !inWord(rest, i-1) && !inWord(rest, i+len(name)) {
			return true
		}
		rest = rest[i+len(name):]
	}
	return false
}

// inWord reports whether the byte at i could be part of a resource's name.
func inWord(s string, i int) bool {
	if i < 0 || i >= len(s) {
		return false
	}
	c := s[i]
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	case c == '.':
		return i+1 < len(s) && s[i+1] != ' '
	}
	return strings.IndexByte("_-/|", c) >= 0 || c >= 0x80
}
