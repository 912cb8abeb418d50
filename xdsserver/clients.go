package xdsserver

import (
	"cmp"
	"maps"
	"slices"

	"github.com/xebec-proxy/xebec/internal/wire"
)

// Clients lists the open streams and the subscriptions of clients that poll,
// oldest first.
func (s *Server) Clients() []Client {
	list := make([]Client, 0)
	for _, x := range s.everyone() {
		list = append(list, x.client())
	}
	return list
}

// Resources lists every resource that a client subscribes to in a type, with
// its state; nil if there is no such client.
func (s *Server) Resources(id uint64, typeURL string) []ResourceStatus {
	s.mu.Lock()
	x := s.streams[id]
	s.mu.Unlock()
	if x != nil {
		return x.resources(typeURL)
	}
	for _, x := range s.pollers.streams(s) {
		if x.id == id {
			return x.resources(typeURL)
		}
	}
	return nil
}

// everyone lists the open streams and those of clients that poll.
func (s *Server) everyone() []*stream {
	all := append(s.openStreams(), s.pollers.streams(s)...)
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
	return all
}

func (s *Server) openStreams() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.streams), func(a, b *stream) int { return cmp.Compare(a.id, b.id) })
}

func (x *stream) client() Client {
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	c := Client{ID: x.id, Node: x.node, Peer: x.peer, Variant: variantWord(x.variant), Aggregated: x.only == "", Connected: x.connected}
	if x.group != nil {
		c.Group = x.group.name
	}
	for _, st := range x.wire.Status() {
		if x.bundle != nil && st.TypeURL != x.only {
			continue
		}
		t := x.typeStatus(st)
		if x.poller != nil {
			x.poller.typeStatus(&t)
		}
		c.Types = append(c.Types, t)
	}
	return c
}

func (x *stream) typeStatus(st wire.SubStatus) TypeStatus {
	t := TypeStatus{
		TypeURL: st.TypeURL, Wildcard: st.Wildcard, Names: st.Names,
		SentVersion: st.SentVersion, AckedVersion: st.AckedVersion, Sent: st.Sent, Acked: st.Acked,
		Responses: st.Responses, Acks: st.Acks, Nacks: st.Nacks,
	}
	if v := x.wire.View(); v != nil {
		t.Revision = v.Revision()
	}
	switch {
	case st.Nack != nil:
		t.State = Rejected
		t.Nack = x.nack(st.TypeURL, st.Nack)
	case st.Outstanding > 0:
		t.State = Stale
	case st.Responses == 0 && st.Due > 0 || x.wire.View() == nil:
		t.State = NotSent
	case st.Due > 0:
		t.State = Stale
	default:
		t.State = Synced
	}
	return t
}

// nack describes a rejection with the resources that still are rejected.
func (x *stream) nack(typeURL string, n *wire.Nack) *Nack {
	out := &Nack{Time: n.Time, Version: n.Version, Nonce: n.Nonce, Code: int32(n.Status.Code), Message: n.Status.Message}
	for r := range x.wire.Rejected(typeURL) {
		rej := RejectedResource{Name: r.Name}
		if r.Resource != nil {
			rej.Origin = r.Resource.Origin()
		}
		out.Resources = append(out.Resources, rej)
	}
	return out
}

func stateWord(s wire.State) string {
	switch s {
	case wire.StateStale:
		return Stale
	case wire.StateSynced:
		return Synced
	case wire.StateRejected:
		return Rejected
	case wire.StateNotSent:
	}
	return NotSent
}

func (x *stream) resources(typeURL string) []ResourceStatus {
	x.wireMu.Lock()
	defer x.wireMu.Unlock()
	var list []ResourceStatus
	for r := range x.wire.Resources(typeURL) {
		st := ResourceStatus{TypeURL: typeURL, Name: r.Name, State: stateWord(r.State), Withheld: r.Withheld, resource: r.Resource}
		if r.Resource != nil {
			st.Version, st.Origin, st.Updated = r.Resource.Version(), r.Resource.Origin(), r.Resource.Updated()
		}
		if r.Nack != nil {
			st.Nack = &Nack{Time: r.Nack.Time, Version: r.Nack.Version, Nonce: r.Nack.Nonce, Code: int32(r.Nack.Status.Code), Message: r.Nack.Status.Message}
		}
		list = append(list, st)
	}
	return list
}
