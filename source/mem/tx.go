package mem

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// Tx collects the changes of one Update. It is good only inside the function
// that it was given to, and is not safe for concurrent use. Later calls win
// over earlier ones.
type Tx struct {
	groups  map[string]*delta
	groupOf xds.GroupFunc
}

// delta is what a transaction does to one group.
type delta struct {
	// fresh says that the group's content before does not count, removed that
	// the group is gone.
	fresh, removed bool
	// set holds what is under a name afterwards; nil for nothing.
	set map[xds.Key]*xds.Resource
}

func newTx() *Tx { return &Tx{groups: map[string]*delta{}} }

// group is the delta of a group, which exists from now on.
func (tx *Tx) group(name string) *delta {
	g := tx.groups[name]
	if g == nil {
		g = &delta{set: map[xds.Key]*xds.Resource{}}
		tx.groups[name] = g
	}
	if g.removed {
		g.removed, g.fresh = false, true
	}
	return g
}

// Set is Source.Set as a part of the transaction.
func (tx *Tx) Set(group string, msgs ...proto.Message) error {
	l, err := resources(msgs)
	if err != nil {
		return err
	}
	return tx.SetResources(group, l...)
}

// SetResources is Source.SetResources as a part of the transaction.
func (tx *Tx) SetResources(group string, resources ...*xds.Resource) error {
	resources, err := modern(resources)
	if err != nil {
		return err
	}
	if err := unique(resources); err != nil {
		return err
	}
	g := tx.group(group)
	for _, r := range resources {
		g.set[r.Key()] = r
	}
	return nil
}

// Remove is Source.Remove as a part of the transaction.
func (tx *Tx) Remove(group string, keys ...xds.Key) {
	g := tx.group(group)
	for _, k := range keys {
		g.set[modernKey(k)] = nil
	}
}

// Replace is Source.Replace as a part of the transaction.
func (tx *Tx) Replace(group string, msgs ...proto.Message) error {
	l, err := resources(msgs)
	if err != nil {
		return err
	}
	return tx.ReplaceResources(group, l...)
}

// ReplaceResources makes the resources the whole content of a group. It fails
// if two of them share type and name (XS-45).
func (tx *Tx) ReplaceResources(group string, resources ...*xds.Resource) error {
	resources, err := modern(resources)
	if err != nil {
		return err
	}
	if err := unique(resources); err != nil {
		return err
	}
	g := tx.group(group)
	g.fresh = true
	clear(g.set)
	for _, r := range resources {
		g.set[r.Key()] = r
	}
	return nil
}

// RemoveGroup is Source.RemoveGroup as a part of the transaction.
func (tx *Tx) RemoveGroup(group string) {
	g := tx.group(group)
	g.fresh, g.removed = true, true
	clear(g.set)
}

// GroupBy is Source.GroupBy as a part of the transaction.
func (tx *Tx) GroupBy(f xds.GroupFunc) error {
	if f == nil {
		return errors.New("the group function is nil")
	}
	tx.groupOf = f
	return nil
}

func (tx *Tx) touches(group string) bool { return tx.groups[group] != nil }

func (tx *Tx) removesGroup() bool {
	for _, g := range tx.groups {
		if g.removed {
			return true
		}
	}
	return false
}

// batch is the transaction as changes of what there is, without those that
// change nothing.
func (tx *Tx) batch(present map[string]map[xds.Key]*xds.Resource) snapshot.Batch {
	b := snapshot.Batch{Groups: map[string]snapshot.Changes{}, GroupOf: tx.groupOf}
	for name, g := range tx.groups {
		before, exists := present[name]
		if c := g.changes(before); !exists || len(c.Set)+len(c.Remove) > 0 {
			b.Groups[name] = c
		}
	}
	return b
}

func (g *delta) changes(before map[xds.Key]*xds.Resource) snapshot.Changes {
	var c snapshot.Changes
	after := map[xds.Key]*xds.Resource{}
	for k, r := range g.set {
		switch {
		case r == nil && before[k] != nil:
			c.Remove = append(c.Remove, k)
		case r != nil && !r.Equal(before[k]):
			after[k] = r
		}
	}
	if g.fresh {
		for k := range before {
			if _, named := g.set[k]; !named {
				c.Remove = append(c.Remove, k)
			}
		}
	}
	c.Set = sorted(after)
	slices.SortFunc(c.Remove, compare)
	return c
}

// apply brings the change into a group's content and returns it. It changes its
// argument, which may be nil.
func (g *delta) apply(m map[xds.Key]*xds.Resource) map[xds.Key]*xds.Resource {
	if m == nil || g.fresh {
		m = make(map[xds.Key]*xds.Resource, len(g.set))
	}
	for k, r := range g.set {
		if r == nil {
			delete(m, k)
		} else {
			m[k] = r
		}
	}
	return m
}

func resources(msgs []proto.Message) ([]*xds.Resource, error) {
	l := make([]*xds.Resource, len(msgs))
	for i, m := range msgs {
		r, err := model.Resource(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		l[i] = r
	}
	return l, nil
}

// unique refuses nil resources and two of the same type and name.
func unique(l []*xds.Resource) error {
	seen := make(map[xds.Key]struct{}, len(l))
	for i, r := range l {
		if r == nil {
			return fmt.Errorf("resource %d is nil", i)
		}
		if _, dup := seen[r.Key()]; dup {
			return &xds.ResourceError{Type: r.TypeURL(), Name: r.Name(), Pos: r.Origin(), Err: snapshot.ErrDuplicate}
		}
		seen[r.Key()] = struct{}{}
	}
	return nil
}

func sorted(m map[xds.Key]*xds.Resource) []*xds.Resource {
	return slices.SortedFunc(maps.Values(m), func(a, b *xds.Resource) int { return compare(a.Key(), b.Key()) })
}

func compare(a, b xds.Key) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}
