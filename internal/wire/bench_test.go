package wire_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// clusters makes n clusters of some size.
func clusters(n int) []*xds.Resource {
	list := make([]*xds.Resource, n)
	for i := range list {
		list[i] = xds.NewResource(xds.ClusterType, fmt.Sprintf("cluster-%05d", i), make([]byte, 200), xds.WithVersion("0"))
	}
	return list
}

// flips are two snapshots that differ in one of n clusters, and the changes
// that lead from one to the other.
type flips struct {
	snaps   [2]*snapshot.Snapshot
	changes [2][]snapshot.Change
}

func newFlips(tb testing.TB, n int) *flips {
	tb.Helper()
	f := &flips{}
	var err error
	if f.snaps[0], _, err = snapshot.New().With(snapshot.Changes{Set: clusters(n)}); err != nil {
		tb.Fatal(err)
	}
	r := xds.NewResource(xds.ClusterType, "cluster-00007", make([]byte, 200), xds.WithVersion("1"))
	f.snaps[1], f.changes[1], err = f.snaps[0].With(snapshot.Changes{Set: []*xds.Resource{r}})
	if err != nil {
		tb.Fatal(err)
	}
	f.changes[0] = f.snaps[0].Diff(f.snaps[1])
	return f
}

// wildcardStream is a delta stream whose client holds everything.
func wildcardStream(tb testing.TB, snap *snapshot.Snapshot, now time.Time) *wire.Stream {
	tb.Helper()
	s := wire.NewStream(wire.Config{Variant: wire.Delta})
	s.Publish(snap)
	if _, err := s.Request(now, &wire.Request{TypeURL: xds.ClusterType}); err != nil {
		tb.Fatal(err)
	}
	for {
		r := s.Next(now)
		if r == nil {
			return s
		}
		ack(tb, s, now, r)
	}
}

func ack(tb testing.TB, s *wire.Stream, now time.Time, r *wire.Response) {
	tb.Helper()
	if _, err := s.Request(now, &wire.Request{TypeURL: r.TypeURL, Nonce: r.Nonce}); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkChangeOneOfManyDelta changes one resource, sends it and takes the
// ACK; what else the client holds must not matter (XS-90).
func BenchmarkChangeOneOfManyDelta(b *testing.B) {
	for _, n := range []int{500, 50_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := newFlips(b, n)
			now := time.Unix(0, 0)
			s := wildcardStream(b, f.snaps[0], now)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				s.Publish(f.snaps[i&1], f.changes[i&1])
				r := s.Next(now)
				if r == nil || len(r.Resources) != 1 {
					b.Fatalf("want one resource, got %+v", r)
				}
				ack(b, s, now, r)
				if s.Next(now) != nil {
					b.Fatal("something is left")
				}
			}
		})
	}
}

// TestChangeCostsWhatItChanges compares the allocations of a change for clients
// that hold little and much. Proves XS-90 for the protocol's part.
func TestChangeCostsWhatItChanges(t *testing.T) {
	cost := func(n int) float64 {
		f := newFlips(t, n)
		now := time.Unix(0, 0)
		s := wildcardStream(t, f.snaps[0], now)
		i := 0
		return testing.AllocsPerRun(100, func() {
			i++
			s.Publish(f.snaps[i&1], f.changes[i&1])
			ack(t, s, now, s.Next(now))
		})
	}
	if few, many := cost(100), cost(20_000); many > few {
		t.Errorf("%v allocations with 100 resources held, %v with 20000", few, many)
	}
}

// BenchmarkAckOfManyNames takes the ACK of a SotW client with 1000 names, known
// by their digest or compared one by one.
func BenchmarkAckOfManyNames(b *testing.B) {
	for _, digest := range []uint64{0, 42} {
		b.Run(fmt.Sprintf("digest=%t", digest != 0), func(b *testing.B) {
			names := make([]string, 1000)
			var set []*xds.Resource
			for i := range names {
				names[i] = fmt.Sprintf("endpoints-%04d", i)
				set = append(set, xds.NewResource(xds.EndpointType, names[i], nil, xds.WithVersion("0")))
			}
			snap, _, err := snapshot.New().With(snapshot.Changes{Set: set})
			if err != nil {
				b.Fatal(err)
			}
			one := xds.NewResource(xds.EndpointType, names[3], nil, xds.WithVersion("1"))
			next, forth, err := snap.With(snapshot.Changes{Set: []*xds.Resource{one}})
			if err != nil {
				b.Fatal(err)
			}
			snaps, changes := [2]*snapshot.Snapshot{snap, next}, [2][]snapshot.Change{snap.Diff(next), forth}
			now := time.Unix(0, 0)
			s := wire.NewStream(wire.Config{})
			s.Publish(snap)
			req := wire.Request{TypeURL: xds.EndpointType, Names: names, Digest: digest}
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				r := req
				if _, err := s.Request(now, &r); err != nil {
					b.Fatal(err)
				}
				s.Publish(snaps[i&1], changes[i&1])
				resp := s.Next(now)
				if resp == nil {
					b.Fatal("nothing was sent")
				}
				req.Nonce = resp.Nonce
			}
		})
	}
}
