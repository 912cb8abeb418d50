// Package mem is a source whose resources are kept in memory and changed by
// calls: the way for a program to serve what it computes itself.
//
// Before the source runs, changes accumulate. While it runs, each change is
// one atomic batch, and the call returns when the sink has accepted it or
// refused it.
package mem

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source"
	"github.com/xebec-proxy/xebec/xds"
)

// DefaultGroup is the group of every node until GroupBy says otherwise.
const DefaultGroup = "default"

// Source keeps resources in memory. All methods are safe for concurrent use;
// none may be called by the sink from inside Apply.
type Source struct {
	mu      sync.Mutex
	groups  map[string]map[xds.Key]*xds.Resource
	groupOf xds.GroupFunc
	health  source.Health
	// owed says that the sink lacks more than the next change: it has had no
	// batch from this Run yet.
	running, owed bool
	queue         []*change
	// wake tells Run that the queue is not empty; it holds one token at most.
	wake chan struct{}
}

var _ source.Source = (*Source)(nil)

// change is a transaction on its way to the sink.
type change struct {
	tx   *Tx
	done chan error
}

// New returns a source without resources. All nodes are in DefaultGroup.
func New() *Source {
	return &Source{
		groups:  map[string]map[xds.Key]*xds.Resource{},
		groupOf: func(*xds.Node) string { return DefaultGroup },
		wake:    make(chan struct{}, 1),
	}
}

// Set adds messages to a group, in place of those with the same type and name.
// The messages are encoded now and may be changed afterwards. It fails for a
// message that is no resource with a name of its own (build those with
// xds.Marshal and use SetResources) and if two share type and name (XS-45).
// Messages are delivered as they are, without being validated (XS-83), but those of v2
// of the API become the v3 ones that followed them; what v3 cannot say is an error
// (XV-05).
func (s *Source) Set(group string, msgs ...proto.Message) error {
	return s.Update(func(tx *Tx) error { return tx.Set(group, msgs...) })
}

// SetResources adds resources to a group, in place of those with the same type
// and name. It fails if two of them share type and name (XS-45).
func (s *Source) SetResources(group string, resources ...*xds.Resource) error {
	return s.Update(func(tx *Tx) error { return tx.SetResources(group, resources...) })
}

// Remove drops resources from a group; those it does not have are ignored.
func (s *Source) Remove(group string, keys ...xds.Key) error {
	return s.Update(func(tx *Tx) error { tx.Remove(group, keys...); return nil })
}

// Replace makes the messages the whole content of a group. It fails as Set
// does.
func (s *Source) Replace(group string, msgs ...proto.Message) error {
	return s.Update(func(tx *Tx) error { return tx.Replace(group, msgs...) })
}

// RemoveGroup drops a group and all it holds.
func (s *Source) RemoveGroup(group string) error {
	return s.Update(func(tx *Tx) error { tx.RemoveGroup(group); return nil })
}

// GroupBy sets the function that maps nodes to groups (XS-36). A nil function
// is refused.
func (s *Source) GroupBy(f xds.GroupFunc) error {
	return s.Update(func(tx *Tx) error { return tx.GroupBy(f) })
}

// Update makes several changes, of any number of groups, at once. The function
// describes them to the transaction; if it returns an error nothing happens
// and Update returns that error. The function is called without any lock.
func (s *Source) Update(f func(*Tx) error) error {
	tx := newTx()
	if err := f(tx); err != nil {
		return err
	}
	s.mu.Lock()
	if !s.running {
		s.apply(tx)
		s.mu.Unlock()
		return nil
	}
	c := &change{tx: tx, done: make(chan error, 1)}
	s.queue = append(s.queue, c)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return <-c.done
}

// Run delivers the present resources as a full batch, then each change, until
// the context ends, and then returns nil. Changes made afterwards accumulate
// for the next Run. If the sink refuses the full batch, Run waits for a change
// and tries again with it. It returns an error if it is running already.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return errors.New("the source is running already")
	}
	s.running, s.owed = true, true
	s.mu.Unlock()
	defer s.stop()
	_ = s.deliver(sink, newTx()) // the error is in Health
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		for c := s.next(); c != nil; c = s.next() {
			c.done <- s.deliver(sink, c.tx)
		}
	}
}

// stop lets what is queued accumulate for the next Run.
func (s *Source) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	for _, c := range s.queue {
		s.apply(c.tx)
		c.done <- nil
	}
	s.queue = nil
}

func (s *Source) next() *change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	c := s.queue[0]
	s.queue = s.queue[1:]
	return c
}

// deliver gives one transaction to the sink and keeps it if the sink does.
// Only Run calls it, and while Run is going on only deliver changes the
// content, so it does not change between the two locks.
func (s *Source) deliver(sink source.Sink, tx *Tx) error {
	s.mu.Lock()
	b := s.batch(tx)
	s.health.LastAttempt = time.Now()
	s.mu.Unlock()
	var err error
	if b.Full || len(b.Groups) > 0 || b.GroupOf != nil {
		err = sink.Apply(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health.Err = err; err != nil {
		return err
	}
	s.apply(tx)
	s.owed = false
	s.health.Loaded, s.health.LastGood = true, time.Now()
	return nil
}

// batch is what the sink lacks once tx is applied; the lock is held.
func (s *Source) batch(tx *Tx) snapshot.Batch {
	if !s.owed && !tx.removesGroup() {
		return tx.batch(s.groups)
	}
	b := snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{}, GroupOf: s.groupOf}
	if tx.groupOf != nil {
		b.GroupOf = tx.groupOf
	}
	for name := range s.groups {
		if !tx.touches(name) {
			b.Groups[name] = snapshot.Changes{Replace: true, Set: sorted(s.groups[name])}
		}
	}
	for name, g := range tx.groups {
		if !g.removed {
			b.Groups[name] = snapshot.Changes{Replace: true, Set: sorted(g.apply(maps.Clone(s.groups[name])))}
		}
	}
	return b
}

// apply brings a transaction into the content; the lock is held.
func (s *Source) apply(tx *Tx) {
	if tx.groupOf != nil {
		s.groupOf = tx.groupOf
	}
	for name, g := range tx.groups {
		if g.removed {
			delete(s.groups, name)
		} else {
			s.groups[name] = g.apply(s.groups[name])
		}
	}
}

// Health is the present state: whether a full batch was accepted, and the
// error of the last change that the sink refused.
func (s *Source) Health() source.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}
