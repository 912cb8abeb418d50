package wire

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// SubStatus is what is known of one sub-stream.
type SubStatus struct {
	TypeURL string
	Opened  time.Time
	// Wildcard and Names describe the subscription.
	Wildcard bool
	Names    int
	// The last response and the last one that was accepted.
	SentVersion, SentNonce string
	Sent                   time.Time
	AckedVersion           string
	Acked                  time.Time
	// Nack is the last rejection, nil once the client has accepted what
	// followed it.
	Nack *Nack
	// Outstanding counts unanswered responses, Due resources waiting to be sent.
	Outstanding, Due       int
	Responses, Acks, Nacks uint64
	Stale                  uint64
}

// Nack is a rejected response.
type Nack struct {
	Nonce, Version string
	Status         Status
	Time           time.Time
}

func (st *SubStatus) rejected() bool { return st.Nack != nil && st.Nack.Nonce == st.SentNonce }

func (st *SubStatus) sent(x *Sent) {
	st.SentVersion, st.SentNonce, st.Sent = x.Version, x.Nonce, x.Time
	st.Responses++
}

func (st *SubStatus) acked(now time.Time, x *Sent, clean bool) {
	st.AckedVersion, st.Acked = x.Version, now
	st.Acks++
	if clean {
		st.Nack = nil
	}
}

func (st *SubStatus) nacked(now time.Time, n *nack) {
	st.Nack = &Nack{Nonce: n.nonce, Version: n.version, Status: n.status, Time: now}
	st.Nacks++
}

// Status describes every sub-stream, in sending order.
func (s *Stream) Status() []SubStatus {
	list := make([]SubStatus, 0, len(s.subs))
	for _, x := range s.subs {
		st := x.status
		st.TypeURL, st.Wildcard, st.Names = x.asked, x.wildcard, len(x.names)
		st.Outstanding, st.Due = len(x.out), x.due.len()
		if st.Nack != nil {
			n := *st.Nack
			st.Nack = &n
		}
		list = append(list, st)
	}
	return list
}

// State is what the server knows of one resource at the client.
type State uint8

// States, as envoy.service.status.v3.ConfigStatus has them (XD-02).
const (
	StateNotSent State = iota
	StateStale
	StateSynced
	StateRejected
)

// ResourceStatus is the state of one subscribed resource.
type ResourceStatus struct {
	Name  string
	State State
	// Resource is what was sent last, for a rejected one what was refused; nil
	// if nothing was, or a removal.
	Resource *xds.Resource
	// Withheld says why a due resource is not sent, in words.
	Withheld string
	// Nack is set for a rejected resource.
	Nack *Nack
}

// Resources iterates over every subscribed resource of a type with its state.
func (s *Stream) Resources(typeURL string) iter.Seq[ResourceStatus] {
	return func(yield func(ResourceStatus) bool) {
		x := s.sub(typeURL)
		if x == nil {
			return
		}
		seen := map[string]struct{}{}
		for name := range x.everyName() {
			if _, dup := seen[name]; dup {
				continue
			}
			seen[name] = struct{}{}
			if !yield(x.resourceStatus(name)) {
				return
			}
		}
	}
}

// everyName iterates over the names in the subscription and among the
// exceptions; a name may come twice.
func (x *sub) everyName() iter.Seq[string] {
	return func(yield func(string) bool) {
		if set := x.set(); set != nil && (x.wildcard || len(x.globs) > 0) {
			for _, r := range set.All() {
				if x.covers(r) && !yield(r.Name()) {
					return
				}
			}
		}
		var names []string
		for n := range x.names {
			if r := x.resolve(n); r != nil {
				n = r.Name()
			}
			names = append(names, n)
		}
		for n := range x.rejected {
			names = append(names, n)
		}
		for i := range x.due.list {
			if o := &x.due.list[i]; !o.gone && o.mayHold() != nil {
				names = append(names, o.name)
			}
		}
		slices.Sort(names)
		for _, n := range names {
			if !yield(n) {
				return
			}
		}
	}
}

func (x *sub) resourceStatus(name string) ResourceStatus {
	if f, ok := x.rejected[name]; ok {
		return rejectedStatus(name, f)
	}
	for _, sent := range slices.Backward(x.out) {
		if i, ok := sent.find(name); ok {
			return ResourceStatus{Name: name, State: StateStale, Resource: sent.items[i].res}
		}
		if i, ok := sent.inBulk(name); ok {
			return ResourceStatus{Name: name, State: StateStale, Resource: sent.bulk[i]}
		}
	}
	if o := x.due.find(name); o != nil {
		if o.refusal != nil {
			st := rejectedStatus(name, o.refusal)
			st.Withheld = x.why(o)
			return st
		}
		st := ResourceStatus{Name: name, State: StateStale, Resource: o.held, Withheld: x.why(o)}
		if o.held == nil {
			st.State = StateNotSent
		}
		return st
	}
	r := x.current(name)
	if r == nil && x.hosts != nil {
		return ResourceStatus{Name: name, State: StateNotSent, Withheld: "no virtual host matches it"}
	}
	if r == nil || x.unsent(r) {
		return ResourceStatus{Name: name, State: StateNotSent}
	}
	if st := x.denied(name); st != nil {
		return ResourceStatus{Name: name, State: StateNotSent, Withheld: st.Message}
	}
	return ResourceStatus{Name: name, State: StateSynced, Resource: r}
}

func rejectedStatus(name string, f *refusal) ResourceStatus {
	st := ResourceStatus{
		Name: name, State: StateRejected, Resource: f.sent,
		Nack: &Nack{Nonce: f.nack.nonce, Version: f.nack.version, Status: f.nack.status, Time: f.nack.time},
	}
	if !f.blamed {
		st.State, st.Nack = StateStale, nil
	}
	return st
}

// why says why a due resource has not been sent.
func (x *sub) why(o *owed) string {
	if x.windowFull() {
		return "the client has not answered the response before it"
	}
	r := x.current(o.name)
	if r == nil && o.undecided {
		return "it is still being looked for"
	}
	a := &assembly{x: x}
	switch v := a.verdict(o, r); {
	case v == ready && x.awaitsClusters():
	case v == ready:
		return ""
	case r == nil:
		return "its removal waits until the client has stopped using it"
	case v == refused:
		return "it needs a cluster that the client rejected"
	}
	return "it waits until the client has accepted what it needs"
}

// Rejected iterates, ordered by name, over the resources of a type whose last
// content the client refused and is blamed for it.
func (s *Stream) Rejected(typeURL string) iter.Seq[ResourceStatus] {
	return func(yield func(ResourceStatus) bool) {
		x := s.sub(typeURL)
		if x == nil {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(x.rejected)) {
			if st := rejectedStatus(name, x.rejected[name]); st.State == StateRejected && !yield(st) {
				return
			}
		}
	}
}
