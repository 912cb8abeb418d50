package xdsserver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// A client that rejects everything is sent each content once, however long it
// stays and however often the content is set again (XS-19).
func TestRejectingClientGetsNoSecondResponse(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		c := res(xds.ClusterType, "c", "1")
		h.set(c)
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.ClusterType)
		d.subscribe(node("d"), xds.ClusterType)
		for _, version := range []string{"1", "2"} {
			s.nack(s.must(), "no")
			d.nack(d.must(), "no")
			for range 60 {
				time.Sleep(time.Minute)
				h.set(res(xds.ClusterType, "c", version))
				s.silent("sotw, after its rejection of " + version)
				d.silent("delta, after its rejection of " + version)
			}
			if version == "1" {
				h.set(res(xds.ClusterType, "c", "2"))
			}
		}
	})
}

// Proves XS-04: types on one aggregated stream share nothing.
func TestSubStreamsAreApart(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"), res(xds.ListenerType, "l", "1"))
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType)
		cds := s.must()
		s.subscribe(nil, xds.ListenerType)
		lds := s.must()
		if cds.GetVersionInfo() == lds.GetVersionInfo() || cds.GetNonce() == lds.GetNonce() {
			t.Errorf("CDS and LDS share a version or nonce: %v, %v", cds, lds)
		}
		s.nack(cds, "no")
		// An ACK of LDS with the nonce of CDS is none.
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.ListenerType, VersionInfo: lds.GetVersionInfo(), ResponseNonce: cds.GetNonce()})
		s.silent("after an ACK with another type's nonce")
		types := h.srv.Clients()[0].Types
		states := map[string]xdsserver.TypeStatus{}
		for _, st := range types {
			states[st.TypeURL] = st
		}
		if c, l := states[xds.ClusterType], states[xds.ListenerType]; c.State != xdsserver.Rejected || l.State != xdsserver.Stale || l.Acks != 0 || l.AckedVersion != "" {
			t.Errorf("states: CDS %+v, LDS %+v", c, l)
		}
		s.ack(lds)
		s.silent("after the ACK of LDS")
		for _, st := range h.srv.Clients()[0].Types {
			if want := map[string]string{xds.ClusterType: xdsserver.Rejected, xds.ListenerType: xdsserver.Synced}[st.TypeURL]; st.State != want {
				t.Errorf("%s is %s, want %s", st.TypeURL, st.State, want)
			}
		}
	})
}

// Proves XS-11: an unknown type does no harm to others; custom ones can be
// added to the server.
func TestUnknownAndCustomTypes(t *testing.T) {
	const unknown, custom = xds.TypePrefix + "x.Y", xds.TypePrefix + "x.Custom"
	opt := xdsserver.WithTypes(xds.Type{URL: custom, Wildcard: true, FullState: true})
	bubble(t, []xdsserver.Option{opt}, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"), res(custom, "x", "1"), res(custom, "y", "1"))
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), unknown, "a")
		s.silent("sotw, of an unknown type")
		d.subscribe(node("d"), unknown, "a", "b")
		if r := d.must(); fmt.Sprint(r.GetRemovedResources()) != "[a b]" || len(r.GetResources()) != 0 {
			t.Errorf("delta, of an unknown type: %v", r)
		}
		s.subscribe(nil, xds.ClusterType)
		d.subscribe(nil, xds.ClusterType)
		if len(s.must().GetResources()) != 1 || namesOf(d.must()) != "[c]" {
			t.Error("clusters did not arrive beside an unknown type")
		}
		s.subscribe(nil, custom)
		d.subscribe(nil, custom)
		if sr, dr := s.must(), d.must(); len(sr.GetResources()) != 2 || sr.GetTypeUrl() != custom || namesOf(dr) != "[x y]" {
			t.Errorf("custom type: %v, %v", sr, dr)
		}
	})
}

// Proves XS-14: nonces are never empty and never repeat on a stream.
func TestNonces(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.EndpointType, "e", "0"))
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.EndpointType, "e")
		d.subscribe(node("d"), xds.EndpointType, "e")
		seen := map[string]bool{}
		for i := range 1000 {
			sr, dr := s.must(), d.must()
			for _, n := range []string{"s" + sr.GetNonce(), "d" + dr.GetNonce()} {
				if seen[n] || len(n) == 1 {
					t.Fatalf("response %d has nonce %q again, or none", i, n)
				}
				seen[n] = true
			}
			s.ack(sr, "e")
			d.ack(dr)
			h.set(res(xds.EndpointType, "e", fmt.Sprint(i+1)))
		}
	})
}

// Proves XS-16: servers with equal content agree on every version, and labels
// appear as they are.
func TestVersionsFollowFromContent(t *testing.T) {
	ask := func(order ...string) (all, one string) {
		bubble(t, nil, func(h *harness) {
			for _, name := range order { // not in one step: the way to a content does not count
				r := xds.NewResource(xds.EndpointType, name, []byte("\x0a\x01"+name))
				h.set(r)
			}
			s, d := h.sotw(), h.delta()
			s.subscribe(node("s"), xds.EndpointType, "a")
			d.subscribe(node("d"), xds.EndpointType, "a")
			sr, dr := s.must(), d.must()
			if sr.GetVersionInfo() != dr.GetSystemVersionInfo() {
				t.Errorf("sotw says %q, delta %q", sr.GetVersionInfo(), dr.GetSystemVersionInfo())
			}
			all, one = sr.GetVersionInfo(), dr.GetResources()[0].GetVersion()
		})
		return all, one
	}
	a1, r1 := ask("a", "b", "c")
	a2, r2 := ask("c", "a", "b")
	a3, r3 := ask("a", "b")
	if a1 != a2 || r1 != r2 || a1 == a3 || r1 != r3 || r1 == "" {
		t.Errorf("versions of equal content: %q %q, %q %q; with one less: %q %q", a1, r1, a2, r2, a3, r3)
	}
	bubble(t, nil, func(h *harness) {
		h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{"default": {
			Set: []*xds.Resource{res(xds.ClusterType, "c", "r7")}, Labels: map[string]string{xds.ClusterType: "2"},
		}}})
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.ClusterType)
		d.subscribe(node("d"), xds.ClusterType)
		if sr, dr := s.must(), d.must(); sr.GetVersionInfo() != "2" || dr.GetSystemVersionInfo() != "2" || dr.GetResources()[0].GetVersion() != "r7" {
			t.Errorf("labels: %v, %v", sr, dr)
		}
	})
}

// Proves XS-28: what a client accepted and rejected can be asked for.
func TestAnswersAreRemembered(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "a", "1"), res(xds.ClusterType, "b", "1"))
		d := h.delta()
		d.subscribe(node("d"), xds.ClusterType)
		first := d.must()
		d.ack(first)
		d.silent("after the ACK")
		time.Sleep(time.Minute)
		h.set(res(xds.ClusterType, "b", "2"))
		bad := d.must()
		h.set(res(xds.ClusterType, "a", "2")) // in another response, so not rejected
		good := d.must()
		at := time.Now()
		d.nack(bad, "cannot take it")
		d.ack(good)
		d.silent("after the answers")
		c := h.srv.Clients()[0]
		st := c.Types[0]
		n := st.Nack
		if n == nil || n.Code != 3 || n.Message != "cannot take it" || n.Nonce != bad.GetNonce() || n.Version != bad.GetSystemVersionInfo() || !n.Time.Equal(at) {
			t.Fatalf("rejection %+v", n)
		}
		if len(n.Resources) != 1 || n.Resources[0].Name != "b" {
			t.Errorf("rejected resources %+v, want b only", n.Resources)
		}
		if st.AckedVersion != good.GetSystemVersionInfo() || st.SentVersion != good.GetSystemVersionInfo() || !st.Sent.Equal(at) ||
			st.Acks != 2 || st.Nacks != 1 || st.Responses != 3 || st.State != xdsserver.Rejected {
			t.Errorf("status %+v", st)
		}
		for _, r := range h.srv.Resources(c.ID, xds.ClusterType) {
			want := map[string]string{"a": xdsserver.Synced, "b": xdsserver.Rejected}[r.Name]
			if r.State != want || (r.Nack != nil) != (r.Name == "b") {
				t.Errorf("%s: %+v, want %s", r.Name, r, want)
			}
		}
		if h.srv.Resources(c.ID+1, xds.ClusterType) != nil {
			t.Error("resources of a client that does not exist")
		}
	})
}

// A client's long message is cut at a character, so that it stays text.
func TestLongRejectionIsCut(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "a", "1"))
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType)
		msg := "x"
		for len(msg) < 8<<10 {
			msg += "é"
		}
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.ClusterType, ResponseNonce: s.must().GetNonce(), ErrorDetail: &statuspb.Status{Message: msg}})
		s.silent("after the rejection")
		if got := h.srv.Clients()[0].Types[0].Nack.Message; len(got) != 4095 || got != msg[:4095] {
			t.Errorf("%d bytes are kept", len(got))
		}
	})
}

// Proves XS-48: 50 MB of assignments go out in pieces of at most 4 MB; a full
// state is never split.
func TestLargeStatesAreSplit(t *testing.T) {
	const limit, size, count = 4 << 20, 1 << 20, 50
	opt := xdsserver.WithLimits(xdsserver.Limits{MaxResponseBytes: limit})
	bubble(t, []xdsserver.Option{opt}, func(h *harness) {
		var names []string
		var list []*xds.Resource
		for i := range count {
			names = append(names, fmt.Sprintf("r%02d", i))
			list = append(list, xds.NewResource(xds.EndpointType, names[i], make([]byte, size)))
			if i < 8 {
				list = append(list, xds.NewResource(xds.ClusterType, names[i], make([]byte, size)))
			}
		}
		h.set(list...)
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.EndpointType, names...)
		d.subscribe(node("d"), xds.EndpointType, names...)
		var fromSotw, fromDelta []string
		for len(fromDelta) < count {
			r := d.must()
			if n := proto.Size(r); n > limit+1000 {
				t.Fatalf("a delta response of %d bytes", n)
			}
			for _, x := range r.GetResources() {
				fromDelta = append(fromDelta, x.GetName())
			}
			d.ack(r)
		}
		pieces := 0
		for r := s.must(); r != nil; r = s.got() {
			s.silent("before the ACK of a piece")
			if n := proto.Size(r); n > limit+1000 {
				t.Fatalf("a SotW response of %d bytes", n)
			}
			pieces++
			for range r.GetResources() {
				fromSotw = append(fromSotw, "")
			}
			s.ack(r, names...)
		}
		slices.Sort(fromDelta)
		if len(fromSotw) != count || !slices.Equal(fromDelta, names) || pieces < count*size/limit {
			t.Errorf("%d resources in %d SotW responses, %d by delta", len(fromSotw), pieces, len(fromDelta))
		}
		s.subscribe(nil, xds.ClusterType)
		if r := s.must(); len(r.GetResources()) != 8 || proto.Size(r) < 8*size {
			t.Errorf("a full state was split: %d clusters", len(r.GetResources()))
		}
	})
}

// Proves XS-95: the canary flag is what the server was told.
func TestCanary(t *testing.T) {
	for _, on := range []bool{false, true} {
		bubble(t, []xdsserver.Option{xdsserver.WithCanary(on)}, func(h *harness) {
			h.set(res(xds.ClusterType, "c", "1"))
			s := h.sotw()
			s.subscribe(node("s"), xds.ClusterType)
			if r := s.must(); r.GetCanary() != on || len(r.GetResources()) != 1 {
				t.Errorf("canary %t: %v", on, r)
			}
		})
	}
}

// Proves XS-25: a burst of name lists ends with what the last one asks for, in
// a few responses.
func TestBurstOfNameLists(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		var all []*xds.Resource
		for i := range 50 {
			all = append(all, res(xds.EndpointType, fmt.Sprintf("e%02d", i), "1"))
		}
		h.set(all...)
		s := h.sotw()
		s.subscribe(node("n"), xds.EndpointType, "e00")
		first := s.must()
		var names []string
		for i := range 50 {
			names = append(names, fmt.Sprintf("e%02d", i))
			s.ack(first, names...)
		}
		responses := 0
		for r := s.got(); r != nil; r = s.got() {
			responses++
			if len(r.GetResources()) == 0 || responses > 10 {
				t.Fatalf("response %d holds %d resources", responses, len(r.GetResources()))
			}
			s.ack(r, names...)
		}
		sent := uint64(0)
		for _, st := range h.srv.Stats().Types {
			if st.TypeURL == xds.EndpointType {
				sent = st.Resources
			}
		}
		if sent != 50 {
			t.Errorf("%d resources were sent for 50 names, in %d responses", sent, responses+1)
		}
	})
}

// Proves XS-58: a delta response holds what changed and nothing else, each with
// name, version, body and aliases, under the version of the type.
func TestDeltaSendsWhatChanged(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		var all []*xds.Resource
		for i := range 1000 {
			all = append(all, res(xds.ClusterType, fmt.Sprintf("c%03d", i), "1"))
		}
		h.set(all...)
		d := h.delta()
		d.subscribe(node("n"), xds.ClusterType)
		first := d.must()
		d.ack(first)
		h.set(xds.NewResource(xds.ClusterType, "c500", []byte("\n\x04body"), xds.WithVersion("2"), xds.WithAliases("five-hundred")))
		r := d.must()
		want := &discoveryv3.Resource{
			Name: "c500", Version: "2", Aliases: []string{"five-hundred"},
			Resource: &anypb.Any{TypeUrl: xds.ClusterType, Value: []byte("\n\x04body")},
		}
		if len(r.GetResources()) != 1 || !proto.Equal(r.GetResources()[0], want) || len(r.GetRemovedResources()) != 0 {
			t.Errorf("after one change of 1000: %v", r)
		}
		if v := h.srv.Snapshot(xdsserver.DefaultGroup).Set(xds.ClusterType).Version(); r.GetSystemVersionInfo() != v || v == first.GetSystemVersionInfo() {
			t.Errorf("system version %q after %q, the type's is %q", r.GetSystemVersionInfo(), first.GetSystemVersionInfo(), v)
		}
	})
}
