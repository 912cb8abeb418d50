package wire_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// hostStream is a stream for virtual hosts, of which there are none.
func hostStream(tb testing.TB) *wire.Stream {
	tb.Helper()
	snap, _, err := snapshot.New().With(snapshot.Changes{Set: []*xds.Resource{parseResource([]string{"RDS", "t", "1", "vhds"})}})
	if err != nil {
		tb.Fatal(err)
	}
	s := wire.NewStream(wire.Config{Variant: wire.Delta})
	s.Publish(snap)
	return s
}

// askHosts asks for names, takes the answers, and reports how many said that
// there is nothing of a name.
func askHosts(tb testing.TB, s *wire.Stream, names ...string) (missing int) {
	tb.Helper()
	now := time.Unix(0, 0)
	if _, err := s.Request(now, &wire.Request{TypeURL: xds.VirtualHostType, Subscribe: names}); err != nil {
		tb.Fatal(err)
	}
	for r := s.Next(now); r != nil; r = s.Next(now) {
		missing += len(r.Missing)
		ack(tb, s, now, r)
	}
	return missing
}

func hostNames(from, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("t/h%d.made.up", from+i)
	}
	return out
}

func interests(s *wire.Stream) (n int) {
	s.Interests(func(string, string) { n++ })
	return n
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // less than the address space
}

// TestNamesInVain asks for names one after the other, of which none is ever given
// up: the stream keeps the last, and what a request costs does not depend on how
// many there were.
// Partly proves XS-93.
func TestNamesInVain(t *testing.T) {
	const kept = 10_000
	s := hostStream(t)
	for i := range 2 * kept {
		if n := askHosts(t, s, hostNames(i, 1)...); n != 1 {
			t.Fatalf("name %d: %d answers", i, n)
		}
	}
	if n := interests(s); n != kept {
		t.Errorf("%d names are kept, want %d", n, kept)
	}
	next := 2 * kept
	one := func() {
		askHosts(t, s, hostNames(next, 1)...)
		next++
	}
	before := heap()
	allocs := testing.AllocsPerRun(2*kept, one)
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	few := hostStream(t)
	at := 0
	if small := testing.AllocsPerRun(100, func() { askHosts(t, few, hostNames(at, 1)...); at++ }); allocs > small+2 {
		t.Errorf("a request costs %v allocations with many names, %v with few", allocs, small)
	}
	runtime.KeepAlive(s)
}

// TestNamesInVainAgain begins anew with more names than a subscription may have.
// Partly proves XS-93: the client is answered and goes on.
func TestNamesInVainAgain(t *testing.T) {
	const names = 300_000
	s := hostStream(t)
	if n := askHosts(t, s, hostNames(0, names)...); n != names {
		t.Errorf("%d names were answered, want %d", n, names)
	}
	if n := interests(s); n != 10_000 {
		t.Errorf("%d names are kept", n)
	}
	if n := askHosts(t, s, hostNames(0, 1)...); n != 1 {
		t.Error("a name that was forgotten is not answered again")
	}
}
