package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/xebec-proxy/xebec/xds"
)

// ErrDuplicate is wrapped by the error for two resources of one type and name
// in one change (XS-45).
var ErrDuplicate = errors.New("the name is used twice")

// Changes is what happens to one group at once.
type Changes struct {
	// Replace drops every resource that Set does not name.
	Replace bool
	// Set adds resources or replaces those of the same type and name.
	Set []*xds.Resource
	// Remove names resources to drop; unknown ones are ignored. A key that Set
	// holds too is set.
	Remove []xds.Key
	// Labels sets the version string of a type, by type URL, instead of the
	// content hash; an empty label goes back to the hash (XS-16).
	Labels map[string]string
}

// Change is one resource that differs between two snapshots. Old is nil for a
// new resource, New for a removed one.
type Change struct {
	xds.Key
	Old, New *xds.Resource
}

// Snapshot is everything one group is to receive at one revision. It is
// immutable and safe for concurrent use.
type Snapshot struct {
	revision uint64
	sets     map[string]*Set
	empty    *Set
}

// New is the snapshot of a group that holds nothing, at revision 0.
func New() *Snapshot {
	return &Snapshot{empty: emptySet()}
}

// Revision counts the changes that led to the snapshot.
func (s *Snapshot) Revision() uint64 { return s.revision }

// Set returns the resources of a type, an empty set if there are none.
func (s *Snapshot) Set(typeURL string) *Set {
	if set, ok := s.sets[typeURL]; ok {
		return set
	}
	return s.empty
}

// TypeURLs lists the types that the snapshot has, or had, resources of, sorted.
func (s *Snapshot) TypeURLs() []string { return slices.Sorted(maps.Keys(s.sets)) }

// Len is the number of resources of all types.
func (s *Snapshot) Len() int {
	n := 0
	for _, set := range s.sets {
		n += set.Len()
	}
	return n
}

// With applies changes and returns the new snapshot with the list of what
// really differs; resources equal to the present ones do not count (XS-26).
// Without a difference it returns the receiver and nil. It fails, changing
// nothing, if two resources in Set share type and name.
func (s *Snapshot) With(c Changes) (*Snapshot, []Change, error) {
	e := editor{base: s, touched: map[string]*edit{}}
	named := make(map[xds.Key]struct{}, len(c.Set))
	for _, r := range c.Set {
		if _, dup := named[r.Key()]; dup {
			return nil, nil, &xds.ResourceError{Type: r.TypeURL(), Name: r.Name(), Pos: r.Origin(), Err: ErrDuplicate}
		}
		named[r.Key()] = struct{}{}
		e.set(r)
	}
	for _, k := range c.Remove {
		if _, kept := named[k]; !kept {
			e.remove(k)
		}
	}
	if c.Replace {
		e.retain(named)
	}
	relabelled := false
	for t, l := range c.Labels {
		relabelled = e.label(t, l) || relabelled
	}
	if len(e.changes) == 0 && !relabelled {
		return s, nil, nil
	}
	return e.finish(), e.changes, nil
}

// Diff lists what a client that holds old must be told to hold s.
func (s *Snapshot) Diff(old *Snapshot) []Change {
	var out []Change
	for _, t := range s.TypeURLs() {
		for _, r := range s.Set(t).All() {
			if o := old.Set(t).Get(r.Name()); !r.Equal(o) {
				out = append(out, Change{Key: r.Key(), Old: o, New: r})
			}
		}
	}
	for _, t := range old.TypeURLs() {
		for _, o := range old.Set(t).All() {
			if s.Set(t).Get(o.Name()) == nil {
				out = append(out, Change{Key: o.Key(), Old: o})
			}
		}
	}
	return out
}

// String summarises the snapshot for logs.
func (s *Snapshot) String() string {
	return fmt.Sprintf("revision %d, %d resources", s.revision, s.Len())
}

// editor collects changes to a snapshot.
type editor struct {
	base    *Snapshot
	touched map[string]*edit
	changes []Change
}

// edit is the open transaction on one type.
type edit struct {
	names, aliases *iradix.Txn[*xds.Resource]
	domains        *iradix.Txn[[]*xds.Resource] // nil but for virtual hosts
	sum            [2]uint64
	label          string
	indirect       int
}

func (e *editor) edit(typeURL string) *edit {
	t, ok := e.touched[typeURL]
	if !ok {
		set := e.base.Set(typeURL)
		t = &edit{names: set.byName.Txn(), aliases: set.byAlias.Txn(), sum: set.sum, label: set.label, indirect: set.indirect}
		if typeURL == xds.VirtualHostType {
			x := set.byDomain
			if x == nil {
				x = iradix.New[[]*xds.Resource]()
			}
			t.domains = x.Txn()
		}
		e.touched[typeURL] = t
	}
	return t
}

func (e *editor) set(r *xds.Resource) {
	if old := e.base.Set(r.TypeURL()).Get(r.Name()); r.Equal(old) {
		return
	}
	t := e.edit(r.TypeURL())
	old, _ := t.names.Insert([]byte(r.Name()), r)
	t.forget(old)
	t.index(old, r)
	for _, a := range r.Aliases() {
		t.aliases.Insert([]byte(a), r)
	}
	t.add(r, 1)
	e.changes = append(e.changes, Change{Key: r.Key(), Old: old, New: r})
}

func (e *editor) remove(k xds.Key) {
	if e.base.Set(k.Type).Get(k.Name) == nil {
		return
	}
	t := e.edit(k.Type)
	old, had := t.names.Delete([]byte(k.Name))
	if !had {
		return
	}
	t.forget(old)
	t.index(old, nil)
	e.changes = append(e.changes, Change{Key: k, Old: old})
}

func (e *editor) retain(named map[xds.Key]struct{}) {
	for _, t := range e.base.TypeURLs() {
		for _, r := range e.base.Set(t).All() {
			if _, kept := named[r.Key()]; !kept {
				e.remove(r.Key())
			}
		}
	}
}

func (e *editor) label(typeURL, label string) bool {
	if e.base.Set(typeURL).label == label {
		return false
	}
	e.edit(typeURL).label = label
	return true
}

func (e *editor) finish() *Snapshot {
	n := &Snapshot{revision: e.base.revision + 1, empty: e.base.empty, sets: maps.Clone(e.base.sets)}
	if n.sets == nil {
		n.sets = map[string]*Set{}
	}
	for typeURL, t := range e.touched {
		set := newSet(t.names.Commit(), t.aliases.Commit(), t.sum, t.label)
		set.indirect = t.indirect
		if t.domains != nil {
			set.byDomain = t.domains.Commit()
		}
		if typeURL == xds.RouteType {
			set.onDemand = sync.OnceValue(set.listOnDemand)
		}
		n.sets[typeURL] = set
	}
	return n
}

// forget takes a replaced or removed resource out of the sum and the aliases.
func (t *edit) forget(old *xds.Resource) {
	if old == nil {
		return
	}
	t.add(old, ^uint64(0))
	for _, a := range old.Aliases() {
		if r, _ := t.aliases.Get([]byte(a)); r == old {
			t.aliases.Delete([]byte(a))
		}
	}
}

// add adds a resource's hash to the sum, times 1 or -1.
func (t *edit) add(r *xds.Resource, times uint64) {
	h := r.Hash()
	t.sum[0] += h[0] * times
	t.sum[1] += h[1] * times
	if r.Indirect() {
		t.indirect += int(int64(times)) //nolint:gosec // 1 or -1
	}
}

// Refers reports whether a listener or a cluster of the snapshot refers to k.
// Its cost is that of looking at each of them.
func (s *Snapshot) Refers(k xds.Key) bool {
	for _, t := range []string{xds.ListenerType, xds.ClusterType} {
		for _, r := range s.Set(t).All() {
			for _, ref := range r.References() {
				if ref.Key == k {
					return true
				}
			}
		}
	}
	return false
}
