package xdsclient

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// storage is a source's use of its store. Guarded by the source's mutex, except
// for save, which is called by one goroutine at a time.
type storage struct {
	s      *Source
	store  Store
	loaded map[xds.Key]Stored
	timer  *time.Timer
	saving bool
	again  bool
}

const (
	// storeName is the server of a resource that was read from the store.
	storeName = "store"
	// saveDelay gathers changes, saveEvery confirms what does not change.
	saveDelay = time.Second
	saveEvery = time.Hour
)

// newStorage loads what was kept. Failing to do so must not keep a program from
// starting.
func newStorage(s *Source) *storage {
	st := &storage{s: s, store: s.cfg.Store, loaded: map[xds.Key]Stored{}}
	list, err := st.store.Load()
	if err != nil {
		s.cfg.Logger.Warn("cannot use what was stored", "reason", err)
	}
	for _, r := range list {
		st.loaded[xds.Key{Type: r.TypeURL, Name: r.Name}] = r
	}
	return st
}

// save is to be called when an entry has changed.
func (s *Source) save(t *typeState, e *entry) {
	st := s.stored
	if st == nil || t.URL == xds.SecretType {
		return
	}
	delete(st.loaded, xds.Key{Type: t.URL, Name: e.name})
	st.schedule(saveDelay)
}

func (st *storage) schedule(d time.Duration) {
	if st.s.ctx.Err() != nil {
		return
	}
	if st.timer != nil && d == saveDelay && st.again {
		return // it is due already
	}
	st.again = d == saveDelay
	if st.timer != nil {
		st.timer.Stop()
	}
	st.timer = time.AfterFunc(d, func() { st.s.post(st.start) })
}

// start writes the store on a goroutine of its own.
func (st *storage) start() {
	st.again = false
	if st.s.ctx.Err() != nil {
		return
	}
	if st.saving {
		st.schedule(saveDelay)
		return
	}
	st.saving = true
	list := st.list()
	st.s.streams.Go(func() {
		err := st.store.Save(list)
		st.s.post(func() {
			st.saving = false
			if err != nil {
				st.s.cfg.Logger.Warn("cannot store what was received", "reason", err)
			}
			st.schedule(saveEvery)
		})
	})
}

// close writes the store for the last time.
func (st *storage) close() error {
	if st.timer != nil {
		st.timer.Stop()
	}
	return st.store.Save(st.list())
}

// list is what is to be kept: what is cached, and what was kept before and is
// not known to be wrong.
func (st *storage) list() []Stored {
	list := make([]Stored, 0, len(st.loaded))
	for _, r := range st.loaded {
		list = append(list, r)
	}
	for _, t := range st.s.types {
		if t.URL == xds.SecretType {
			continue
		}
		for _, e := range t.entries {
			if e.u != nil && e.u.server != storeName {
				list = append(list, Stored{
					TypeURL: t.URL, Name: e.name, Version: e.u.version, Server: e.u.server,
					BodyType: e.u.storedType(t.URL), Body: e.u.body,
					Confirmed: st.s.confirmed(e, t),
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b Stored) int {
		return cmp.Or(strings.Compare(a.TypeURL, b.TypeURL), strings.Compare(a.Name, b.Name))
	})
	return list
}

// confirmed is when an entry's server was heard last: now, if its stream is
// open.
func (s *Source) confirmed(e *entry, t *typeState) time.Time {
	key := s.key(t.URL)
	for _, srv := range e.auth.inUse(key) {
		if srv.Name != e.u.server {
			continue
		}
		if l := srv.links[key]; l != nil && l.state != open && !l.heard.IsZero() {
			return l.heard
		}
	}
	return time.Now()
}

// restore brings what was kept for the names of an authority that nothing is
// known of, because no server can be reached.
func (s *Source) restore(a *authority, l *link) {
	if s.stored == nil {
		return
	}
	for key := range s.stored.loaded {
		t := s.types[key.Type]
		if t == nil || !l.carries(key.Type) {
			continue
		}
		e := t.entries[key.Name]
		if e == nil {
			e = s.member(t, key.Name)
		}
		if e != nil && e.auth == a {
			s.restoreOne(t, e, l)
		}
		if e != nil && e.u == nil && len(e.watches) == 0 {
			delete(t.entries, e.name) // it was made for nothing
		}
	}
	for _, t := range s.types {
		for _, c := range t.collections {
			if c.auth == a && l.carries(t.URL) && !c.answered && s.revived(t, c) {
				c.answered = true
				s.collectionFailed(c, s.errorOf(l, t, c.name, ErrUnreachable, l.err))
			}
		}
	}
}

// restoreOne brings what was kept of a resource that nothing is known of.
func (s *Source) restoreOne(t *typeState, e *entry, l *link) {
	if s.stored == nil || t.URL == xds.SecretType || e.u != nil || e.err != nil && !e.err.is(ErrUnreachable) {
		return
	}
	if r, ok := s.stored.loaded[xds.Key{Type: t.URL, Name: e.name}]; ok {
		s.revive(t, e, &r, l)
	}
}

func (s *Source) revive(t *typeState, e *entry, r *Stored, l *link) {
	form, err := formOf(t.URL, r.BodyType)
	var v any
	if err == nil {
		v, err = s.read(l, t, e.name, r.Version, form, r.Body)
	}
	if err != nil {
		s.cfg.Logger.Warn("a stored resource is not valid", "type", t.Kind, "resource", e.name, "reason", err)
		return
	}
	s.cfg.Logger.Warn("using a stored resource", "type", t.Kind, "resource", e.name, "version", r.Version,
		"confirmed", r.Confirmed, "reason", l.err)
	u := &update{name: e.name, version: r.Version, server: storeName, body: r.Body}
	s.set(t, e, u.fill(form, v))
	s.warn(t, e, s.errorOf(l, t, e.name, ErrStored, l.err))
}

// revived reports whether a member of a collection is from the store.
func (s *Source) revived(t *typeState, c *collection) bool {
	for _, e := range t.entries {
		if e.u != nil && e.u.server == storeName && c.covers(e.name) {
			return true
		}
	}
	return false
}

// disown drops members of collections that are from the store and that the
// server has not sent: at once if its first response is complete, else when it
// has had its time.
func (l *link) disown(t *typeState) {
	switch {
	case l.s.stored == nil:
	case t.FullState && !l.s.cfg.Delta:
		l.disownAll(t)
	case l.disowning == nil && l.timeout() > 0:
		l.disowning = l.after(nil, l.timeout(), func() {
			for _, t := range l.s.types {
				if l.carries(t.URL) {
					l.disownAll(t)
				}
			}
		})
	}
}

func (l *link) disownAll(t *typeState) {
	for _, e := range t.entries {
		if e.u != nil && e.u.server == storeName && t.covered(e.name) && e.auth.uses(l) {
			l.s.fail(t, e, l.s.errorOf(l, t, e.name, ErrMissing, nil))
			l.s.save(t, e)
		}
	}
}
