package xdsclient

import (
	"context"
	"errors"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Source is where resources come from: one cache over one or several servers.
// It is safe for concurrent use.
//
// What happens to a source (a watch, a message, a timer) is an event. Whichever
// goroutine brings an event while nobody works them off does so, one after the
// other; the others only leave theirs behind. So an idle source has no
// goroutine but the two of each stream, and callbacks never overlap.
type Source struct {
	cfg  Config
	node *corev3.Node

	inbox inbox
	// withheld are types whose requests wait.
	withheld typeSet
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	streams  sync.WaitGroup // goroutines of streams, and the store's

	// mu guards what follows and all that hangs off it. It is held while an
	// event is worked off, not while watchers are called.
	mu          sync.Mutex
	servers     []*server
	authorities map[string]*authority
	types       map[string]*typeState
	calls       []call
	settled     []call   // to come after those that are being made
	stored      *storage // nil without a store
}

// NewSource checks the configuration and makes a source. Nothing is contacted
// before the first watch. The source ends with [Source.Close], and with ctx,
// whose values its streams see.
func NewSource(ctx context.Context, c Config) (*Source, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	node, warnings := completeNode(&c)
	for _, w := range warnings {
		c.Logger.Warn("the node is incomplete", "reason", w)
	}
	s := &Source{cfg: c, node: node, types: map[string]*typeState{}, authorities: map[string]*authority{}}
	s.ctx, s.cancel = context.WithCancel(ctx)
	top := s.addAuthority("", c.Servers)
	top.atOnce = c.Authorities[""].FallBackAtOnce
	for name, a := range c.Authorities {
		servers := a.Servers
		if len(servers) == 0 {
			servers = c.Servers
		}
		if name == "" {
			s.authorities[emptyAuthority] = s.newAuthority(name, servers, a.FallBackAtOnce)
			continue
		}
		s.addAuthority(name, servers).atOnce = a.FallBackAtOnce
	}
	if c.Store != nil {
		s.stored = newStorage(s)
	}
	context.AfterFunc(s.ctx, func() { s.post(s.shut) }) //nolint:contextcheck // streams have the source's context
	return s, nil
}

// Node is how the source identifies itself to servers. Read-only.
func (s *Source) Node() *corev3.Node { return s.node }

// Close ends all streams and watches without a word to the watchers, writes
// the store, and waits for everything the source has started. It must not be
// called by a watcher. Closing twice does no harm.
func (s *Source) Close() error {
	s.cancel()
	s.deliver(s.shut)
	s.streams.Wait()
	s.inbox.close()
	s.mu.Lock()
	servers, stored := s.servers, s.stored
	s.servers, s.stored = nil, nil
	s.mu.Unlock()
	var errs []error
	if stored != nil {
		errs = append(errs, stored.close())
	}
	for _, srv := range servers {
		errs = append(errs, srv.close())
	}
	return errors.Join(errs...)
}

// shut is the last event: streams end, timers stop.
func (s *Source) shut() {
	for _, srv := range s.servers {
		for _, l := range srv.links {
			l.stop()
		}
	}
	s.inbox.refuse()
}
