package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// Config is what a stream's behaviour depends on besides its events. The zero
// value of a field means its default.
type Config struct {
	Variant Variant
	// Only is the type URL of a stream that carries one type; empty for ADS.
	Only string
	// Types finds the description of a type; default: those of xds.Types, and their
	// names in v2 of the API. A description with another URL says that resources of
	// that type are sent, under the URL that was asked for: the type's other form.
	Types func(typeURL string) (xds.Type, bool)
	// Gate bounds how long an ordered step waits for the ACKs of the step
	// before it (XS-69). Default 5 s.
	Gate time.Duration
	// Outstanding is how many delta responses of a type may be unanswered
	// (XS-64). Default 16. In SotW it is always 1 (XS-21).
	Outstanding int
	// MaxResponse is the size in bytes above which a response is split where
	// the protocol allows it (XS-48). Default 3 MiB, below the 4 MiB that gRPC
	// clients accept by default.
	MaxResponse int
	// MaxNames bounds the names of one subscription (XS-93). Default 250000.
	MaxNames int
	// MaxVain bounds the names of virtual hosts that are kept of a stream though
	// nothing is found by them, since clients may not give them up: the oldest are
	// forgotten. A client that asks for one again is answered again, but not told
	// when it comes to lead to something. Default 10000.
	MaxVain int
	// AlwaysFirst sends the first state of a SotW wildcard although the client
	// says it has that version (XS-27).
	AlwaysFirst bool
	// MissingErrors reports missing names as NOT_FOUND (XS-88).
	MissingErrors bool
	// SilentMissing says for which types a missing name is not reported in
	// removed_resources (section 13, XS-56).
	SilentMissing func(typeURL string) bool
	// Pending, if set, reports that it is not decided yet whether there is a
	// resource that is asked for and that the snapshot lacks (XN-28).
	Pending func(typeURL, name string) bool
	// EndHosts says that the client waits, when it gets a route configuration
	// with virtual hosts on demand, for one of them though it has asked for none:
	// an empty answer does not end that (section 13, XN-22).
	EndHosts bool
	// Substitute, if set, makes a resource for a missing SotW name, or returns
	// nil (XS-78).
	Substitute func(typeURL, name string) *xds.Resource
	// Deny, if set, returns why a client may not have a resource (XS-84).
	Deny func(typeURL, name string) *Status
	// Inexpressible, if set, returns why a resource cannot be sent under another
	// URL than its own (XV-04).
	Inexpressible func(*xds.Resource) *Status
	// DropExtensions removes an extension configuration although a listener or
	// cluster still refers to it (XS-66).
	DropExtensions bool
	// KeepExtensions never removes an extension configuration that the client
	// subscribes to, for clients that go on using it while they drain.
	KeepExtensions bool
}

const (
	defaultGate        = 5 * time.Second
	defaultOutstanding = 16
	defaultMaxResponse = 3 << 20
	defaultMaxNames    = 250_000
	defaultMaxVain     = 10_000
	maxTypes           = 64
)

// Stream is the server's side of one stream.
type Stream struct {
	cfg   Config
	view  *snapshot.Snapshot // nil until the group is loaded
	subs  []*sub             // in sending order
	seq   uint64
	nonce uint64
	// old is the snapshot from before the oldest ordered change set that is not
	// carried out; nil if there is none.
	old *snapshot.Snapshot
	// resumed says that the client holds something from a former stream, and has
	// not accepted yet what takes its place.
	resumed bool
	// released are the types of steps that the timer has released, see
	// [Stream.TakeGateTimeouts].
	released []string
}

// NewStream starts a stream.
func NewStream(cfg Config) *Stream {
	if cfg.Types == nil {
		cfg.Types = describe
	}
	if cfg.Gate == 0 {
		cfg.Gate = defaultGate
	}
	if cfg.Outstanding == 0 {
		cfg.Outstanding = defaultOutstanding
	}
	if cfg.Variant == Sotw {
		cfg.Outstanding = 1
	}
	if cfg.MaxResponse == 0 {
		cfg.MaxResponse = defaultMaxResponse
	}
	if cfg.MaxNames == 0 {
		cfg.MaxNames = defaultMaxNames
	}
	if cfg.MaxVain == 0 {
		cfg.MaxVain = defaultMaxVain
	}
	return &Stream{cfg: cfg}
}

// TakeGateTimeouts returns the type of each ordered step that the gate's timer has
// released since it was called last.
func (s *Stream) TakeGateTimeouts() []string {
	list := s.released
	s.released = nil
	return list
}

// View is the snapshot the stream has been brought up to; nil before the first.
func (s *Stream) View() *snapshot.Snapshot { return s.view }

// Publish brings the stream up to a snapshot of its group. The changes are
// those between the stream's present snapshot and this one, as far as the
// stream subscribes to them; others are ignored. The slices are only read.
func (s *Stream) Publish(view *snapshot.Snapshot, changes ...[]snapshot.Change) {
	s.seq++
	before := s.view
	s.view = view
	ordered := false
	for _, list := range changes {
		for i := range list {
			c := &list[i]
			for _, sub := range s.subs {
				if sub.typ.URL == c.Type && sub.changed(c, s.seq) {
					ordered = ordered || orders(c)
				}
			}
		}
	}
	s.rehost(changes)
	if !ordered || !s.aggregated() {
		return
	}
	s.order(s.seq)
	if s.old == nil {
		s.old = before
	}
}

// Rebase moves the stream to a snapshot of another group, or to one that is
// too far ahead to list the changes.
func (s *Stream) Rebase(view *snapshot.Snapshot) {
	if s.view == nil {
		s.Publish(view)
		return
	}
	s.Publish(view, view.Diff(s.view))
}

// Request takes one request that arrived at the given time, and fills in its
// type. Nothing is kept of a SotW request whose names are the SameNames as before.
// An error ends the stream; it is always a *StreamError.
func (s *Stream) Request(now time.Time, r *Request) (Outcome, error) {
	if err := s.fillType(r); err != nil {
		return Outcome{}, err
	}
	s.seq++
	sub := s.sub(r.TypeURL)
	opened := sub == nil
	if opened {
		if len(s.subs) >= maxTypes {
			return Outcome{}, exhausted("a stream may subscribe to %d types at most", maxTypes)
		}
		sub = s.open(r.TypeURL)
		sub.status.Opened = now
		s.resume(r)
	}
	r.TypeURL = sub.asked // which does not keep the message
	var out Outcome
	var err error
	if s.cfg.Variant == Delta {
		out, err = sub.delta(now, r, opened)
	} else {
		out, err = sub.sotw(now, r, opened)
	}
	out.Type = sub.typ.URL
	sub.leaveToOthers(&out)
	return out, err
}

// leaveToOthers takes out of a request's outcome what the stream subscribes to
// in another form of the type as well.
func (x *sub) leaveToOthers(out *Outcome) {
	for _, y := range x.stream.subs {
		if y == x || y.typ.URL != x.typ.URL {
			continue
		}
		also := func(n string) bool { return n == wildcardName && y.typ.Wildcard && y.wildcard || y.wants(n) }
		out.Added = slices.DeleteFunc(out.Added, also)
		out.Removed = slices.DeleteFunc(slices.Clone(out.Removed), also)
	}
}

// SameNames reports whether a SotW request with this digest repeats the names
// of the sub-stream, so that they need not be decoded. A request that could
// begin anew, one without a nonce, never does.
func (s *Stream) SameNames(typeURL, nonce string, digest uint64) bool {
	x := s.sub(cmp.Or(typeURL, s.cfg.Only))
	return x != nil && nonce != "" && digest != 0 && x.digest == digest
}

// Interests calls visit with every name subscribed to; "*" is the wildcard.
func (s *Stream) Interests(visit func(typeURL, name string)) {
	for i, x := range s.subs {
		x.interests(func(typeURL, name string) {
			before := func(y *sub) bool {
				return y.typ.URL == typeURL && (y.wants(name) || name == wildcardName && y.wildcard)
			}
			if !slices.ContainsFunc(s.subs[:i], before) { // in two forms of a type
				visit(typeURL, name)
			}
		})
	}
}

func (x *sub) interests(visit func(typeURL, name string)) {
	if x.wildcard {
		visit(x.typ.URL, wildcardName)
	}
	for n := range x.names {
		visit(x.typ.URL, n)
	}
}

func (s *Stream) fillType(r *Request) error {
	switch {
	case r.TypeURL == "" && s.cfg.Only == "":
		return invalid("type_url is required on an aggregated stream")
	case r.TypeURL == "":
		r.TypeURL = s.cfg.Only
	case s.cfg.Only != "" && r.TypeURL != s.cfg.Only:
		return invalid("type_url %q on a stream that carries only %s", r.TypeURL, s.cfg.Only)
	}
	return nil
}

func (s *Stream) aggregated() bool { return s.cfg.Only == "" }

// sub is the sub-stream for which a type URL was asked.
func (s *Stream) sub(asked string) *sub {
	for _, x := range s.subs {
		if x.asked == asked {
			return x
		}
	}
	return nil
}

// kin is the stream's sub-stream of another type, which may be asked for in two
// forms: then it is the one in the form that this one has.
func (x *sub) kin(typeURL string) *sub {
	var other *sub
	for _, y := range x.stream.subs {
		if y.typ.URL != typeURL {
			continue
		}
		if y.otherForm() == x.otherForm() {
			return y
		}
		other = y
	}
	return other
}

// otherForm reports whether resources are sent under another URL than their own.
func (x *sub) otherForm() bool { return x.asked != x.typ.URL }

// describe is the default of Config.Types.
func describe(typeURL string) (xds.Type, bool) {
	v3 := cmp.Or(xds.V3Type(typeURL), typeURL)
	t, ok := xds.LookupType(v3)
	return t, ok && t.URL == v3
}

func (s *Stream) open(typeURL string) *sub {
	t, known := s.cfg.Types(typeURL)
	if !known {
		t = xds.Type{URL: strings.Clone(typeURL)}
	}
	x := &sub{stream: s, asked: t.URL, typ: t, known: known, stage: stageOf(t.URL)}
	if typeURL != t.URL {
		x.asked = strings.Clone(typeURL)
	}
	if t.URL == xds.VirtualHostType && s.cfg.Variant == Delta {
		x.hosts = &hosts{tables: map[string]*hostTable{}, recheck: map[string]struct{}{}, vain: vain{set: map[string]struct{}{}}}
	}
	i, _ := slices.BinarySearchFunc(s.subs, x, func(a, b *sub) int { return int(a.stage) - int(b.stage) })
	for i < len(s.subs) && s.subs[i].stage == x.stage {
		i++
	}
	s.subs = slices.Insert(s.subs, i, x)
	return x
}

// mark is a suffix that no other version on the stream has.
func (s *Stream) mark() string { return strconv.FormatUint(s.nonce+1, 36) }

func (s *Stream) nextNonce() string {
	s.nonce++
	return strconv.FormatUint(s.nonce, 36)
}

// pending reports whether it is undecided if there is a resource.
func (x *sub) pending(name string) bool {
	return x.stream.cfg.Pending != nil && x.stream.cfg.Pending(x.typ.URL, name)
}

func (s *Stream) missingIsSilent(typeURL string) bool {
	return s.cfg.SilentMissing != nil && s.cfg.SilentMissing(typeURL)
}
