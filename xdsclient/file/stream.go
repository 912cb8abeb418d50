package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/internal/filewatch"
	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

// stream gives the file's content to the reader whenever there is something new,
// or something more is wanted of it.
type stream struct {
	t     *Transport
	ctx   context.Context //nolint:containedctx // it is the stream's life, as xdsclient.Transport has it
	typ   xds.Type
	watch *filewatch.Watch
	news  chan struct{} // holds one: what is wanted has changed

	// Of the reader.
	due     time.Time // when to read the file; zero if there is no reason
	first   time.Time // when the first reason came
	begun   bool
	content []byte // a DiscoveryResponse, the last that could be read
	given   uint64 // responses
	useless bool   // the last reading was

	mu     sync.Mutex
	fresh  bool // the content has not been given yet
	wanted bool
	names  []string // wanted, sorted
	more   bool     // names were added since the content was given
	judged string   // the nonce whose answer decides on the content
}

// Send notes what is wanted, and what became of the content.
func (s *stream) Send(r *client.Request) error {
	if r.TypeURL != s.typ.URL {
		return fmt.Errorf("a request for %s on a stream of %s", xds.Kind(r.TypeURL), s.typ.Kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Answer && r.Nonce == s.judged {
		s.judged = ""
		s.judge(r)
	}
	s.more = s.more || slices.ContainsFunc(r.Names, func(n string) bool { return !slices.Contains(s.names, n) })
	s.wanted, s.names = true, r.Names
	select {
	case s.news <- struct{}{}:
	default:
	}
	return nil
}

// judge counts what became of the content (XF-04).
func (s *stream) judge(r *client.Request) {
	if r.Error == "" {
		s.t.count(func(st *Stats) { st.Successes++; st.Version, st.LastError = r.Version, nil })
		return
	}
	err := errors.New(r.Error)
	s.t.count(func(st *Stats) { st.Rejected++; st.LastError = err })
	s.t.cfg.Logger.Warn("a file's content was rejected; what was there before stays", "path", s.t.cfg.Path, "type", s.typ.Kind, "reason", err)
}

// Recv waits for something to give.
func (s *stream) Recv() (*client.Response, error) {
	if !s.begun {
		s.begun = true
		s.read()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	rescan := time.NewTicker(s.t.delay.rescan)
	defer rescan.Stop()
	for {
		if r := s.response(); r != nil {
			return r, nil
		}
		if s.due.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(s.due))
		}
		if err := s.await(timer.C, rescan.C); err != nil {
			return nil, err
		}
	}
}

// await waits for one thing to happen.
func (s *stream) await(due, rescan <-chan time.Time) error {
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case e, ok := <-s.watch.Events():
		if !ok {
			return s.closed()
		}
		switch s.watch.Meaning(e) {
		case filewatch.Moved:
			s.soon(s.t.delay.moved)
		case filewatch.Written:
			s.soon(s.t.delay.written)
		case filewatch.Nothing:
		}
	case err, ok := <-s.watch.Errors():
		if !ok {
			return s.closed()
		}
		s.t.cfg.Logger.Debug("notifications were lost", "path", s.t.cfg.Path, "error", err)
		s.soon(s.t.delay.moved)
	case <-rescan:
		if s.watch.Changed() {
			s.soon(s.t.delay.moved)
		}
	case <-due:
		if !s.due.IsZero() && !time.Now().Before(s.due) {
			s.read()
		}
	case <-s.news:
	}
	return nil
}

// closed: the watcher is closed when the context has ended.
func (s *stream) closed() error {
	<-s.ctx.Done()
	return context.Cause(s.ctx)
}

// soon puts off the reading until nothing has happened for d, but not for ever.
func (s *stream) soon(d time.Duration) {
	const atMost = 10
	now := time.Now()
	if s.due.IsZero() {
		s.first = now
	}
	s.due = now.Add(d)
	if last := s.first.Add(atMost * d); last.Before(s.due) {
		s.due = last
	}
}

// read reads the file, and keeps what there was if it is of no use.
func (s *stream) read() {
	s.due = time.Time{}
	got := s.t.load(s.typ)
	if s.watch.Follow(&got.needs) {
		s.soon(s.t.delay.moved) // something may have happened before it was watched
	}
	s.t.count(func(st *Stats) { st.Attempts++ }) // when it is over: what happens from now on is the next one's
	if missing := s.watch.Missing(); len(missing) > 0 {
		s.t.cfg.Logger.Debug("changes will be noticed late", "directories", missing)
	}
	wasUseless := s.useless
	if s.useless = got.err != nil; s.useless {
		s.refuse(&got)
		return
	}
	if wasUseless {
		s.t.count(func(st *Stats) { st.LastError = nil })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(got.content, s.content) {
		return
	}
	s.content, s.fresh = got.content, true
}

// refuse counts and logs content that is of no use, once.
func (s *stream) refuse(got *loaded) {
	known := false
	s.t.count(func(st *Stats) {
		known = st.LastError != nil && st.LastError.Error() == got.err.Error()
		switch {
		case got.unreadable:
			st.Failures++
		default:
			st.Rejected++
		}
		st.LastError = got.err
	})
	if !known && s.t.cfg.Useless != nil {
		s.t.cfg.Useless(s.typ.URL, got.err)
	}
	if !known {
		s.t.cfg.Logger.Warn("a file is of no use; what was there before stays", "path", s.t.cfg.Path, "type", s.typ.Kind, "reason", got.err)
	}
}

// response is the content if the reader is to be given it.
func (s *stream) response() *client.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted || s.content == nil || !s.fresh && !s.more {
		return nil
	}
	r, err := message.Sotw(s.content)
	if err != nil { // load has made it
		s.fresh, s.more = false, false
		return nil
	}
	s.given++
	r.Nonce = strconv.FormatUint(s.given, 10)
	if s.fresh {
		s.judged = r.Nonce
	}
	s.fresh, s.more = false, false
	return r
}
